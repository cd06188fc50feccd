"""Every error and every record pickles and deep-copies whole, also through a real process pool.

They are found by introspection and made from their signatures, once with what a constructor
requires and once with a value for every parameter: a new one is covered the day it is written.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Literal, NoReturn, Union

import attrs
import pytest

import sandbox_kit
import sandbox_kit.types
from sandbox_kit.errors import SandboxError
from sandbox_kit.types import Limits, Listing

RECORD_MODULES = ("sandbox_kit.types", "sandbox_kit.rules.ruleset", "sandbox_kit.rules.presets")

SAMPLES: dict[object, object] = {str: "café \udcff\n", int: 3, float: 1.5, bool: True, bytes: b"\x00\xff"}

VALUES: dict[tuple[str, str], object] = {
    ("PermissionRule", "pattern"): "**/.env",
    ("PermissionRule", "action"): "deny",
    ("PermissionRule", "description"): "credentials",
    ("PermissionRuleset", "default"): "ask",
    ("Limits", "memswap_limit"): "1g",
    ("Limits", "mem_limit"): "512m",
    ("Limits", "tmpfs_size"): "64m",
}


def sample(hint: object) -> Any:
    """Return a value of the type *hint*."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in SAMPLES:
        return SAMPLES[hint]
    if origin is Literal:
        return arguments[-1]
    if origin in (Union, types.UnionType):
        return sample(next(argument for argument in arguments if argument is not types.NoneType))
    if origin in (tuple, list, Sequence, Iterable):
        return tuple(sample(argument) for argument in arguments if argument is not Ellipsis)
    if origin is frozenset:
        return frozenset({sample(arguments[0])})
    if origin is dict:
        return {sample(arguments[0]): sample(arguments[1])}
    if isinstance(hint, type):
        return make(hint, whole=True)
    raise AssertionError(f"no sample for {hint!r}: add one to SAMPLES")


def make(cls: type, *, whole: bool) -> Any:
    """Call *cls* with a value for each parameter, or for those without a default only."""
    scope = vars(sandbox_kit.types) | vars(importlib.import_module(cls.__module__))
    values = {
        name: VALUES.get((cls.__name__, name)) or sample(parameter.annotation)
        for name, parameter in inspect.signature(cls, locals=scope, eval_str=True).parameters.items()
        if whole or parameter.default is parameter.empty
    }
    return cls(**values)


def errors_beneath(cls: type[SandboxError]) -> Iterator[type[SandboxError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from errors_beneath(child)


def error_classes() -> list[type[SandboxError]]:
    """Every error of the package, once each of its modules is imported."""
    for module in pkgutil.walk_packages(sandbox_kit.__path__, "sandbox_kit."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    found = {cls for cls in errors_beneath(SandboxError) if cls.__module__.startswith("sandbox_kit.")}
    return sorted(found, key=lambda cls: cls.__name__)


def record_classes() -> list[type]:
    modules = [importlib.import_module(name) for name in RECORD_MODULES]
    public = [vars(module)[name] for module in modules for name in module.__all__]
    return [value for value in public if isinstance(value, type) and (attrs.has(value) or value is Listing)]


def make_error(cls: type[SandboxError], *, whole: bool) -> SandboxError:
    error: SandboxError = make(cls, whole=whole)
    error.add_note("a note")
    return error


def samples() -> list[Any]:
    errors = [make_error(cls, whole=whole) for cls in error_classes() for whole in (False, True)]
    return errors + [make(cls, whole=whole) for cls in record_classes() for whole in (False, True)]


def content(value: Any) -> tuple[object, ...]:
    """Everything that can be seen of *value*, comparable."""
    if isinstance(value, OSError):
        return type(value), value.args, str(value), vars(value), value.errno, value.strerror, value.filename
    if isinstance(value, BaseException):
        return type(value), value.args, str(value), vars(value)
    if isinstance(value, Listing):
        return type(value), list(value), vars(value)
    return type(value), value


def echo(values: list[Any]) -> list[Any]:
    return values


def throw(error: SandboxError) -> NoReturn:
    raise error


def name_of(value: object) -> str:
    return type(value).__name__


every_sample = pytest.mark.parametrize("value", samples(), ids=name_of)


@pytest.fixture(scope="module", params=["spawn", "fork"])
def pool(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(request.param)) as executor:
        yield executor


def test_the_samples_cover_both_trees() -> None:
    assert len(error_classes()) > 25
    assert Limits in record_classes()


@every_sample
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_everything(value: object, protocol: int) -> None:
    assert content(pickle.loads(pickle.dumps(value, protocol))) == content(value)


@every_sample
def test_deep_copies_are_equal_and_apart(value: object) -> None:
    duplicate = copy.deepcopy(value)
    assert content(duplicate) == content(value)
    assert duplicate is not value


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_all_come_back_from_another_process(pool: ProcessPoolExecutor) -> None:
    sent = samples()
    assert [content(value) for value in pool.submit(echo, sent).result(60)] == [content(value) for value in sent]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_errors_raised_in_another_process_arrive_whole(pool: ProcessPoolExecutor) -> None:
    errors = [value for value in samples() if isinstance(value, SandboxError)]
    arrived = [pool.submit(throw, error).exception(60) for error in errors]
    assert [content(error) for error in arrived] == [content(error) for error in errors]
