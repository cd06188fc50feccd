"""The image of a Runtime: built once, and found again by what it is made of."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from sandbox_kit.backends.docker.engine import Engine, translated
from sandbox_kit.backends.docker.pulling import image_id
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError
from sandbox_kit.runtime import Runtime

__all__ = ["build"]

_REPOSITORY = "sandbox-kit/runtime"
_LABEL = "sandbox-kit.runtime"
_WHEELS = "/tmp/sandbox-kit-wheels"
_log = logging.getLogger("sandbox_kit")


def build(engine: Engine, runtime: Runtime) -> str:
    """The name of the image of *runtime*, which is built unless the engine has it.

    Each step is logged as it is done.

    Raises:
        SandboxUnavailableError: there is no such base image, or a step failed; it names the step and what it printed.
        InvalidArgumentError: a wheel cannot be read.
    """
    wheels = {Path(name).name: _read(name) for name in runtime.wheels}
    recipe = _recipe(runtime)
    name = f"{_REPOSITORY}:{_digest(image_id(engine, runtime.base), recipe, wheels)}"
    with translated():
        try:
            engine.api.inspect_image(name)  # type: ignore[no-untyped-call]
            return name
        except ImageNotFound:
            pass
    _log.info("building the image %s from %s", name, runtime.base)
    _run_build(engine, name, _context(recipe, wheels))
    return name


def _read(wheel: str) -> bytes:
    try:
        return Path(wheel).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"pip: the wheel {wheel!r} cannot be read: {error.strerror}") from error


def _recipe(runtime: Runtime) -> str:
    """The Dockerfile."""
    lines = [f"FROM {runtime.base}", "USER 0:0", f'LABEL "{_LABEL}"="1"']
    lines += [f"ENV {name}={_quoted(value)}" for name, value in sorted(runtime.env.items())]
    if runtime.pip:
        names = [f"{_WHEELS}/{Path(name).name}" if name in runtime.wheels else name for name in runtime.pip]
        lines.append(f"COPY wheels {_WHEELS}")
        install = ["env", "PIP_BREAK_SYSTEM_PACKAGES=1", "python3", "-m", "pip", "install", "--no-cache-dir", *names]
        lines.append(f"RUN {json.dumps(install)}")
    lines += [f"RUN {json.dumps(['/bin/sh', '-c', command])}" for command in runtime.setup]
    if runtime.uid is not None:
        lines.append(f"USER {runtime.uid}")
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def _digest(base: str, recipe: str, wheels: Mapping[str, bytes]) -> str:
    parts = [base, recipe, *(f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in sorted(wheels.items()))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _context(recipe: str, wheels: Mapping[str, bytes]) -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        folder = tarfile.TarInfo("wheels")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        for name, data in {
            "Dockerfile": recipe.encode(),
            **{f"wheels/{name}": wheels[name] for name in wheels},
        }.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    packed.seek(0)
    return packed


def _run_build(engine: Engine, name: str, context: io.BytesIO) -> None:
    said: list[str] = []
    with translated():
        for told in engine.api.build(
            fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True, decode=True, timeout=3600
        ):
            _follow(told, said)


def _follow(told: Mapping[str, Any], said: list[str]) -> None:
    """Log what the engine tells of a build.

    Raises:
        SandboxUnavailableError: a step failed.
    """
    for line in _printed(told):
        said.append(line)
        _log.info("%s", line)
    if "error" in told:
        last = "\n".join(said[-20:])
        raise SandboxUnavailableError(f"the image could not be built: {told['error']}\n{last}")


def _printed(told: Mapping[str, Any]) -> Iterator[str]:
    yield from (line for line in str(told.get("stream", "")).splitlines() if line.strip())
