"""The conformance suite over files in memory."""

from __future__ import annotations

from pathlib import Path

from sandbox_kit.backends.state import StateBackend
from sandbox_kit.testing import BackendConformance


class TestState(BackendConformance):
    def make_backend(self, tmp_path: Path) -> StateBackend:
        return StateBackend(work_dir="/home/user", max_read_bytes=self.max_read_bytes)


class TestStateAtTheRoot(BackendConformance):
    def make_backend(self, tmp_path: Path) -> StateBackend:
        return StateBackend(max_read_bytes=self.max_read_bytes)


class TestStateThatFoldsCase(BackendConformance):
    def make_backend(self, tmp_path: Path) -> StateBackend:
        return StateBackend(work_dir="/Home", case_sensitive=False, max_read_bytes=self.max_read_bytes)
