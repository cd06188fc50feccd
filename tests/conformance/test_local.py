"""The conformance suite over a directory of the host, and over commands in one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.contract import Backend
from sandbox_kit.testing import BackendConformance, HostFilesConformance, SandboxConformance

posix_commands = pytest.mark.skipif(sys.platform == "win32", reason="local commands need a POSIX system")


def empty_root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return root


class TestLocal(HostFilesConformance, BackendConformance):
    def make_backend(self, tmp_path: Path) -> LocalBackend:
        return LocalBackend(empty_root(tmp_path), max_read_bytes=self.max_read_bytes)

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


class TestLocalThroughALink(BackendConformance):
    def make_backend(self, tmp_path: Path) -> LocalBackend:
        link = tmp_path / "link"
        link.symlink_to(empty_root(tmp_path))
        return LocalBackend(link, max_read_bytes=self.max_read_bytes)


@posix_commands
class TestLocalSandbox(HostFilesConformance, SandboxConformance):
    def make_backend(self, tmp_path: Path) -> LocalSandbox:
        return LocalSandbox(empty_root(tmp_path), max_read_bytes=self.max_read_bytes)

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


@posix_commands
class TestTemporaryLocalSandbox(SandboxConformance):
    def make_backend(self, tmp_path: Path) -> LocalSandbox:
        return LocalSandbox(max_read_bytes=self.max_read_bytes)
