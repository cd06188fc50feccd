"""The conformance suite over a guard that allows everything: it changes nothing that a caller can see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.testing import BackendConformance, HostFilesConformance, SandboxConformance

ALLOW_ALL = PermissionRuleset("allow")


class TestGuardedState(BackendConformance):
    def make_backend(self, tmp_path: Path) -> Backend:
        backend = StateBackend(work_dir="/home/user", max_read_bytes=self.max_read_bytes)
        return guarding(backend, ALLOW_ALL)


class TestGuardedLocal(HostFilesConformance, BackendConformance):
    def make_backend(self, tmp_path: Path) -> Backend:
        root = tmp_path / "root"
        root.mkdir()
        return guarding(LocalBackend(root, max_read_bytes=self.max_read_bytes), ALLOW_ALL)

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


class TestGuardOverAGuard(BackendConformance):
    def make_backend(self, tmp_path: Path) -> Backend:
        inner = guarding(StateBackend(max_read_bytes=self.max_read_bytes), ALLOW_ALL)
        return GuardedBackend(inner, ALLOW_ALL)


@pytest.mark.skipif(sys.platform == "win32", reason="local commands need a POSIX system")
class TestGuardedLocalSandbox(SandboxConformance):
    def make_backend(self, tmp_path: Path) -> Sandbox:
        return guarding(LocalSandbox(max_read_bytes=self.max_read_bytes), ALLOW_ALL)


@pytest.mark.skipif(sys.platform == "win32", reason="local commands need a POSIX system")
class TestGuardedInspectedLocalSandbox(SandboxConformance):
    def make_backend(self, tmp_path: Path) -> Sandbox:
        inner = LocalSandbox(max_read_bytes=self.max_read_bytes)
        return GuardedSandbox(inner, ALLOW_ALL, commands="inspected")
