"""What a test may need of the machine: the ``needs`` marker and fixture. Speed decides no test.

``@pytest.mark.needs("bwrap")`` on a test, or ``needs("bwrap")`` inside one that takes the
fixture: where the machine cannot, the test is skipped with the reason, and fails when ``CI`` is
set, so that nothing is left out unnoticed. A name is one of the probes below or a program.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["engine.fixtures"]

settings.register_profile("steady", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): what the machine must have; else a skip, under CI a failure")


def pytest_collection_finish() -> None:
    """What collection made stays for the whole run: the collector looks at it no more, in any test."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        require(*marker.args)


@pytest.fixture(scope="session")
def needs() -> Callable[..., None]:
    return require


@pytest.fixture(scope="session")
def lacking() -> Callable[[str], NoReturn]:
    return leave_out


def require(*names: str) -> None:
    """Skip the running test, or under CI fail it, unless the machine has all of *names*."""
    for reason in filter(None, map(missing, names)):
        leave_out(reason)


def leave_out(reason: str) -> NoReturn:
    """Skip the running test, or under CI fail it, for *reason*: what the machine lacks."""
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


@functools.cache
def missing(name: str) -> str | None:
    """Return why the machine does not have *name*, as one phrase, or None if it has it."""
    if shutil.which(PROGRAMS.get(name, name)) is None:
        return f"needs {PROGRAMS.get(name, name)}, which is not on PATH"
    probe = PROBES.get(name)
    return None if probe is None else probe()


def _cannot_confine() -> str | None:
    command = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return None if done.returncode == 0 else f"needs bwrap to make namespaces: {done.stderr.strip()}"


def _other_grep() -> str | None:
    done = subprocess.run(["grep", "--version"], capture_output=True, text=True, timeout=30, check=False)
    return None if "GNU grep" in done.stdout else "needs GNU grep: the grep on PATH is another"


def _cannot_mount() -> str | None:
    from sandbox_kit.backends.local import mounting

    return None if mounting.works() else "needs a helper that can mount in the sandboxes of bwrap"


PROGRAMS = {"gnu-grep": "grep", "mount-helper": "bwrap"}
PROBES: dict[str, Callable[[], str | None]] = {
    "bwrap": _cannot_confine,
    "gnu-grep": _other_grep,
    "mount-helper": _cannot_mount,
}
