"""The conformance suite over the handle of a session: nobody can tell it from the sandbox itself."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.borrowed import BorrowedSandbox
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.testing import HostFilesConformance, SandboxConformance

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local commands need a POSIX system")


_numbers = itertools.count()


def unstarted(root: Path, ruleset: PermissionRuleset | None, max_read_bytes: int) -> BorrowedSandbox:
    policy = SandboxPolicy.from_dict({"max_read_bytes": max_read_bytes})
    manager = SessionManager(policy, workspace_root=root, ruleset=ruleset, reap_every=None)
    return BorrowedSandbox(manager._service, f"session-{next(_numbers)}", None, None)


class TestBorrowed(HostFilesConformance, SandboxConformance):
    def make_backend(self, tmp_path: Path) -> Sandbox:
        sandbox = unstarted(tmp_path / "sessions", None, self.max_read_bytes)
        workspace = tmp_path / "sessions" / sandbox.id / "workspace"
        workspace.mkdir(parents=True)  # for the suite's ordinary user: what the manager makes is its own user's alone
        workspace.parents[1].chmod(0o755)
        return sandbox

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


class TestBorrowedUnderRules(SandboxConformance):
    def make_backend(self, tmp_path: Path) -> Sandbox:
        return unstarted(tmp_path / "sessions", PermissionRuleset("allow"), self.max_read_bytes)
