"""The conformance suite over files behind a shell: dash with GNU tools, and busybox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.testing import BackendConformance
from tests.shell.backends import LocalShellFiles

ALLOW_ALL = PermissionRuleset("allow")


class ShellConformance(BackendConformance):
    """Files of this machine behind a shell of it."""

    kind = "dash"

    def make_backend(self, tmp_path: Path) -> Backend:
        root = tmp_path / "root"
        root.mkdir()
        return LocalShellFiles(root, self.kind, max_read_bytes=self.max_read_bytes)

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        made = self.make_backend(tmp_path)
        yield self.wrap(made)
        assert isinstance(made, LocalShellFiles)
        made.close()

    def wrap(self, made: Backend) -> Backend:
        return made


@pytest.mark.needs("dash", "gnu-grep")
class TestDash(ShellConformance):
    pass


@pytest.mark.needs("busybox")
class TestBusybox(ShellConformance):
    kind = "ash"


@pytest.mark.needs("dash", "gnu-grep")
class TestGuardedDash(ShellConformance):
    def wrap(self, made: Backend) -> Backend:
        return guarding(made, ALLOW_ALL)


@pytest.mark.needs("busybox")
class TestGuardedBusybox(ShellConformance):
    kind = "ash"

    def wrap(self, made: Backend) -> Backend:
        return guarding(made, ALLOW_ALL)
