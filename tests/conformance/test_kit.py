"""The suite itself: no test of it hides another, and it finds what is wrong with a backend."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.testing import ArchiveConformance, BackendConformance, HostFilesConformance, SandboxConformance

pytest_plugins = ["pytester"]

SUITES = [ArchiveConformance, BackendConformance, SandboxConformance, HostFilesConformance]

BROKEN = {
    "appends": "def write(self, path, content): super().write(path, super().read(path) + content)",
    "reads-missing-as-empty": "def read(self, path, **lines): return super().read(path) if self.exists(path) else ''",
    "lists-unsorted": "def ls(self, path='.'): return type(super().ls(path))(reversed(super().ls(path)))",
    "asks-nothing": (
        "def _stat(self, path, *, operations, authorize):"
        " return super()._stat(path, operations=operations, authorize=lambda *names, **more: True)"
    ),
    "removes-before-the-last-answer": (
        "def _remove(self, path, *, operations, authorize, recursive):\n"
        "        super()._resolve((path,), operations=operations, authorize=lambda *names, **more: True)\n"
        "        super()._remove(path, operations=operations, authorize=lambda *n, **m: True, recursive=recursive)\n"
        "        authorize('write', (path,))"
    ),
}
SUITE = """
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.testing import BackendConformance

class Broken(StateBackend):
    {fault}

class TestBroken(BackendConformance):
    def make_backend(self, tmp_path):
        return Broken(work_dir="/w", max_read_bytes=self.max_read_bytes)
"""


class Making:
    """A mixin that makes a backend."""

    def make_backend(self, tmp_path: Path) -> Backend:
        return StateBackend()


@pytest.mark.parametrize(
    ("bases", "missing"),
    [
        ((BackendConformance,), "TestIt lacks make_backend:"),
        ((SandboxConformance,), "TestIt lacks make_backend:"),
        ((Making, HostFilesConformance, BackendConformance), "TestIt lacks host_path:"),
        ((HostFilesConformance, BackendConformance), "TestIt lacks host_path and make_backend:"),
        ((BackendConformance, Making), "TestIt lacks make_backend:"),
    ],
)
def test_a_test_class_that_leaves_something_out_is_refused(bases: tuple[type, ...], missing: str) -> None:
    with pytest.raises(TypeError, match=missing):
        type("TestIt", bases, {})


def test_what_pytest_does_not_collect_may_leave_something_out() -> None:
    between = type("MyConformance", (HostFilesConformance, BackendConformance), {})
    type("TestLater", (between,), {"__test__": False})
    with pytest.raises(TypeError, match="host_path"):
        type("TestIt", (Making, between), {})
    type("TestWhole", (Making, between), {"host_path": lambda self, backend, path: Path(path)})


def test_without_pytest_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from sandbox_kit import MissingDependencyError\n"
        "try: import sandbox_kit.testing\n"
        "except MissingDependencyError as error: print(error.extra, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("test the conformance suite needs pytest")


@pytest.mark.parametrize("suite", SUITES)
def test_no_test_hides_another(suite: type) -> None:
    names = Counter(name for part in suite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert names
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("suite", SUITES)
def test_every_test_is_a_function_of_its_own(suite: type) -> None:
    for name, function in inspect.getmembers(suite, inspect.isfunction):
        assert not name.startswith("test_") or function.__name__ == name


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_backend_is_found_out(pytester: pytest.Pytester, fault: str) -> None:
    pytester.makepyfile(test_broken=SUITE.format(fault=BROKEN[fault]))
    found = pytester.runpytest_inprocess("-q", "-x", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist")
    assert found.parseoutcomes().get("failed") == 1
