"""The rules of an archive are compiled once for a session, and hold for what is there at each call."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.host.pin import Root
from sandbox_kit.rules.compiled import PathRules
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.sessions import archive_rules
from sandbox_kit.sessions.archive import WorkspaceArchive

PRIVATE = PermissionRuleset("allow", rules=[PermissionRule("./private/**", "deny")])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for id in ("a", "b"):
        for name in ("one", "two"):
            (tmp_path / id / "workspace" / name).mkdir(parents=True)
            (tmp_path / id / "workspace" / name / "f").write_text(id)
    return tmp_path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every set of rules that is compiled."""
    made: list[object] = []
    make = PathRules.__init__
    monkeypatch.setattr(PathRules, "__init__", lambda self, *args: (made.append(self), make(self, *args))[1])
    return made


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except PermissionDeniedError:
        return True
    return False


def test_rules_are_compiled_once_for_a_session(root: Path, compiled: list[object]) -> None:
    archive = WorkspaceArchive(root, ruleset=SECRETS)
    for _ in range(5):
        assert archive.read("a", "one/f") == "a"
    assert len(compiled) == 1
    archive.read("b", "one/f")
    assert len(compiled) == 2


def test_rules_are_compiled_anew_where_the_workspace_begins_to_fold_case(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = WorkspaceArchive(root, ruleset=PermissionRuleset("allow", rules=[PermissionRule("./ONE/**", "deny")]))
    for sensitive in (True, False, True):
        monkeypatch.setattr(Root, "case_sensitive", sensitive)
        assert is_refused(lambda: archive.read("a", "one/f")) is not sensitive


def test_only_so_many_sessions_stay_compiled(
    root: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_rules, "_KEPT", 1)
    archive = WorkspaceArchive(root, ruleset=SECRETS)
    for id in ("a", "a", "b", "b", "a"):
        assert archive.read(id, "one/f") == id
    assert len(compiled) == 3


def test_a_prefix_is_held_where_it_leads_at_the_call_and_nowhere_else(root: Path) -> None:
    archive = WorkspaceArchive(root, ruleset=PRIVATE)
    link = root / "a" / "workspace" / "private"
    for target, expected in (
        (None, [False, False]),
        ("one", [True, False]),
        ("two", [False, True]),
        (None, [False] * 2),
    ):
        link.unlink(missing_ok=True)
        if target is not None:
            link.symlink_to(target)
        for _ in range(2):
            assert [is_refused(lambda name=name: archive.read("a", f"{name}/f")) for name in ("one", "two")] == expected
        assert not is_refused(lambda: archive.read("b", "one/f"))


def test_a_workspace_that_takes_the_place_of_another_is_held_to_the_rules(root: Path) -> None:
    archive = WorkspaceArchive(root, ruleset=PRIVATE)
    assert archive.read("a", "one/f") == "a"
    shutil.rmtree(root / "a")
    (root / "a" / "workspace" / "private").mkdir(parents=True)
    (root / "a" / "workspace" / "private" / "f").write_text("secret")
    assert is_refused(lambda: archive.read("a", "private/f"))


def test_what_stays_compiled_holds_nothing_open(root: Path) -> None:
    archive = WorkspaceArchive(root, ruleset=SECRETS)
    assert archive.read("a", "one/f") == "a"
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for id in ("a", "b", "a"):
        archive.read(id, "one/f")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_share_what_is_compiled(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_rules, "_KEPT", 1)
    archive = WorkspaceArchive(root, ruleset=PRIVATE)
    (root / "a" / "workspace" / "private").symlink_to("one")

    def work(number: int) -> bool:
        return is_refused(lambda: archive.read("ab"[number % 2], "one/f"))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(200))) == [True, False] * 100
