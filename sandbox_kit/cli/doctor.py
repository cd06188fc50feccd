"""``doctor``: what this machine can do, and what to install for the rest."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from attrs import asdict, frozen

from sandbox_kit.backends.local.probe import can_confine
from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.screen import Screen
from sandbox_kit.errors import MissingDependencyError, SandboxError
from sandbox_kit.host.system import open_beneath
from sandbox_kit.registry import backend_class

__all__ = ["doctor", "examine"]

_ANSWER_WITHIN = 10.0
_PROGRAMS = {"bwrap": "bubblewrap", "rg": "ripgrep", "grep": "grep"}
_SYSCTLS = (
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
)


@frozen
class Check:
    """One thing that a machine may have.

    Attributes:
        name: what it is.
        ok: whether it is there.
        detail: its version, or why it is not there.
        advice: what to do about that; empty where there is nothing to do.
        needed: whether the main job, confined commands, is impossible without it.
    """

    name: str
    ok: bool
    detail: str
    advice: str = ""
    needed: bool = False


def doctor(args: Namespace, screen: Screen) -> int:
    """Print what there is and what is missing."""
    checks = list(examine())
    ok = all(check.ok for check in checks if check.needed)
    if args.json:
        screen.json({"ok": ok, "checks": [asdict(check) for check in checks]})
        return ExitCode.DONE if ok else ExitCode.NO
    for check in checks:
        _print(check, screen)
    return ExitCode.DONE if ok else ExitCode.NO


def _print(check: Check, screen: Screen) -> None:
    if check.ok:
        mark = screen.paint("ok     ", "green")
    else:
        mark = screen.paint("MISSING", "red", bold=True) if check.needed else screen.paint("no     ", "yellow")
    screen.line(f"{mark} {check.name}: {screen.name(check.detail)}")
    if check.advice:
        screen.line(f"        {screen.name(check.advice)}")


def examine() -> Iterator[Check]:
    """Yield everything that is looked at, what is needed first."""
    yield Check("Python", True, f"{platform.python_implementation()} {platform.python_version()}", needed=True)
    yield Check("platform", True, f"{platform.system()} {platform.release()}, {platform.machine()}")
    reason = can_confine()
    yield Check("confined commands", reason is None, reason or "the kernel hides what rules deny", needed=True)
    yield _user_namespaces()
    yield _openat2()
    yield from map(_program, _PROGRAMS)
    yield from map(_library, ("attrs", "cattrs"))
    yield _engine()


def _user_namespaces() -> Check:
    blocked = [f"{name.replace('/', '.')} is {bad}" for name, bad in _SYSCTLS if _sysctl(name) == bad]
    if sys.platform != "linux":
        return Check("user namespaces", False, "on Linux only")
    advice = "set it with sysctl -w, or run as root" if blocked else ""
    return Check("user namespaces", not blocked, ", ".join(blocked) or "allowed by the system's settings", advice)


def _sysctl(name: str) -> str | None:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def _openat2() -> Check:
    root = os.open("/", os.O_RDONLY)
    try:
        open_beneath(root, ".", os.O_RDONLY).close()
    except OSError as error:
        return Check("openat2", False, f"{error.strerror}: paths are walked one directory at a time")
    finally:
        os.close(root)
    return Check("openat2", True, "paths are opened in one race-free call")


def _program(name: str) -> Check:
    package = _PROGRAMS[name]
    found = shutil.which(name)
    if found is None:
        return Check(package, False, f"{name} is not on PATH", f"apt install {package}")
    try:
        done = subprocess.run(
            [found, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_WITHIN,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Check(package, False, f"{found} does not work: {error}", f"apt install --reinstall {package}")
    first = done.stdout.decode(errors="replace").splitlines()[:1]
    return Check(package, True, f"{''.join(first)}, {found}")


def _engine() -> Check:
    name = "Docker engine"
    try:
        backend_class("docker")
        from sandbox_kit.backends.docker.about import about

        return Check(name, True, about())
    except MissingDependencyError as error:
        return Check(name, False, "the library docker is not installed", f"pip install 'sandbox-kit[{error.extra}]'")
    except SandboxError as error:
        return Check(name, False, str(error), "start an engine, or name one by DOCKER_HOST; local sandboxes need none")


def _library(name: str) -> Check:
    try:
        return Check(name, True, version(name), needed=True)
    except PackageNotFoundError:
        return Check(name, False, "not installed", f"pip install {name}", needed=True)
