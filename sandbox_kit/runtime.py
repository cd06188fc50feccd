"""What commands find in a sandbox: a base image, and what is installed over it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from sandbox_kit.errors import InvalidArgumentError

__all__ = ["Runtime"]


def _texts(value: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{value!r} is not a sequence of texts")
    return tuple(os.fspath(each) for each in value)


def _plain(_instance: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for text in value:
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise InvalidArgumentError(f"{attribute.name}: {text!r} is not a text")


def _lines(instance: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    _plain(instance, attribute, value)
    if any("\n" in text for text in value):
        raise InvalidArgumentError(f"{attribute.name}: a line's end cannot stand in it")


def _requirements(instance: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    _lines(instance, attribute, value)
    names = [os.path.basename(text) for text in value if _is_wheel(text)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"{attribute.name}: two wheels are called {name!r}")


def _is_wheel(text: str) -> bool:
    return text.endswith(".whl") and "://" not in text and " @ " not in text


def _mapping(value: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"env: is a mapping, not {type(value).__name__}")
    return dict(value)


def _absolute(_instance: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and (not isinstance(value, str) or not value.startswith("/") or "\0" in value):
        raise InvalidArgumentError(f"{attribute.name}: {value!r} is not an absolute path")


def _uid(_instance: object, attribute: Attribute[Any], value: int | None) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InvalidArgumentError(f"{attribute.name}: {value!r} is not a number from 0 on")


def _variables(_instance: object, _attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str) or not name.isidentifier():
            raise InvalidArgumentError(f"env: {name!r}={text!r} is not a variable")
        if "\0" in text or "\n" in text:
            raise InvalidArgumentError(f"env: {name}: neither a NUL nor a line's end can stand in its value")


@frozen
class Runtime:
    """An image to be built once and kept by the engine under a name that tells what is in it.

    Attributes:
        base: the image to start from.
        pip: what ``pip install`` takes: requirements, or paths of wheels here, which end in ``.whl``
            and are no URLs.
        setup: shell commands, run in this order as root, after *pip*.
        env: variables for them and for every command.
        work_dir: where the workspace is; None leaves it to the sandbox.
        uid: whom commands run as; None is the base image's own user.

    Raises:
        InvalidArgumentError: a value of the wrong kind, or two wheels of one file name.
    """

    base: str = field(validator=lambda instance, attribute, value: _lines(instance, attribute, (value,)))
    pip: tuple[str, ...] = field(default=(), converter=_texts, validator=_requirements)
    setup: tuple[str, ...] = field(default=(), converter=_texts, validator=_plain)
    env: Mapping[str, str] = field(factory=dict, converter=_mapping, validator=_variables, hash=False)
    work_dir: str | None = field(default=None, validator=_absolute)
    uid: int | None = field(default=None, validator=_uid)

    @property
    def wheels(self) -> tuple[str, ...]:
        """Those of *pip* that are files here."""
        return tuple(text for text in self.pip if _is_wheel(text))
