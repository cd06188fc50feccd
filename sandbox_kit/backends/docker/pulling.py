"""Images by name: found on the engine, or pulled to it."""

from __future__ import annotations

import logging
from typing import Any

from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag

from sandbox_kit.backends.docker.engine import Engine, translated
from sandbox_kit.errors import SandboxUnavailableError

__all__ = ["describe", "image_id", "look_up"]

_log = logging.getLogger("sandbox_kit")


def look_up(engine: Engine, name: str) -> dict[str, Any] | None:
    """An image as the engine describes it; None where it has none of that name."""
    with translated():
        try:
            return dict(engine.api.inspect_image(name))  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None


def describe(engine: Engine, image: str) -> dict[str, Any]:
    """As :func:`look_up`; one that the engine does not have is pulled.

    Raises:
        SandboxUnavailableError: it cannot be had.
    """
    found = look_up(engine, image)
    if found is None:
        _pull(engine, image)
        found = look_up(engine, image)
    if found is None:
        raise SandboxUnavailableError(f"the Docker engine has no image {image!r}")
    return found


def image_id(engine: Engine, image: str) -> str:
    """The id of an image, which is pulled where it is missing."""
    return str(describe(engine, image)["Id"])


def _pull(engine: Engine, image: str) -> None:
    _log.info("pulling the image %s", image)
    try:
        with translated():
            name, tag = parse_repository_tag(image)
            for line in engine.api.pull(name, tag=tag or "latest", stream=True, decode=True):
                if "error" in line:
                    raise SandboxUnavailableError(line["error"])
                _log.debug("%s: %s %s", image, line.get("id", ""), line.get("status", ""))
    except SandboxUnavailableError as error:
        advice = "build it, or bring it there with 'docker load' or 'docker pull'"
        told = f"the Docker engine has no image {image!r} and could not pull it ({error}): {advice}"
        raise SandboxUnavailableError(told) from error
