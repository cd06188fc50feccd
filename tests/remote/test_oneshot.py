"""The conformance suite over files behind one shell each, under rules that allow everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.testing import BackendConformance
from sandbox_kit.testing.base import Conformance
from sandbox_kit.testing.reading import ReadingConformance
from sandbox_kit.testing.writing import EditingConformance, WritingConformance
from tests.shell.oneshots import LocalOneShotFiles


class OneShotFixtures(Conformance):
    """Files of this machine behind shells of it."""

    kind = "dash"

    def make_backend(self, tmp_path: Path) -> Backend:
        root, parked = tmp_path / "root", tmp_path / "parked"
        root.mkdir()
        parked.mkdir()
        return LocalOneShotFiles(root, self.kind, parked, max_read_bytes=self.max_read_bytes)


@pytest.mark.needs("dash", "gnu-grep")
class TestDash(ReadingConformance, WritingConformance, EditingConformance, OneShotFixtures):
    """What goes both ways is the same by dash and GNU tools."""


@pytest.mark.needs("busybox")
class TestGuardedBusybox(BackendConformance, OneShotFixtures):
    kind = "ash"

    def make_backend(self, tmp_path: Path) -> Backend:
        return guarding(OneShotFixtures.make_backend(self, tmp_path), PermissionRuleset("allow"))
