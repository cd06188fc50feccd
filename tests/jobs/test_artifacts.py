"""The files that come back: byte for byte, regular ones only, within the limit and the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit import (
    Job,
    JobResult,
    LimitExceededError,
    PatternError,
    PermissionDeniedError,
    PermissionRule,
    PermissionRuleset,
    SandboxSpec,
    Skipped,
    register_backend,
)
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.paths import SandboxPath
from sandbox_kit.types import Listing

from .works import HANGS_AFTER

PIXELS = b"\x89PNG\r\n\x1a\n\x00\xff" * 5
HIDE = "for f in x*; do mv $f .${{f#x}}; done"
"""Gives files names that no rule can see beforehand."""

DENIED = "read .p: denied by rule deny **/.p"
LOCAL = SandboxSpec("local")
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])
GUARDED = SandboxSpec("local", {}, RULES, "inspected")

pytestmark = pytest.mark.usefixtures("tidy")


class ChangesFound(LocalSandbox):
    """A sandbox in which a file is changed once it has been found, and before it is read."""

    change = "true"

    def glob(self, pattern: str, path: SandboxPath = ".") -> Listing:
        found = super().glob(pattern, path)
        self.execute(self.change, timeout=HANGS_AFTER).check()
        return found


register_backend("test-changes-found", f"{__name__}:ChangesFound")
CHANGING = SandboxSpec("test-changes-found")


@pytest.fixture(params=[None, "all"], ids=["bytes", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where artifacts go, in both ways."""
    return None if request.param is None else tmp_path / "all"


def brought(result: JobResult) -> dict[str, bytes]:
    """The artifacts, wherever they are."""
    if result.folder is None:
        return result.artifacts
    files = [path for path in result.folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path.relative_to(result.folder)): path.read_bytes() for path in files}


def test_artifacts_come_back_byte_for_byte() -> None:
    command = "mkdir -p out/deep; cp pixels out/chart.png; cp pixels out/deep/b; ln -s chart.png out/link; echo > other"
    result = Job(LOCAL, command, files={"pixels": PIXELS}, artifacts=["out/**", "out/*.png"])("x")
    assert result.check().artifacts == {"out/chart.png": PIXELS, "out/deep/b": PIXELS}
    assert result.skipped == ()
    assert result.folder is None


@pytest.mark.parametrize("pattern", ["[a", "/etc/*", "../*"])
def test_a_pattern_of_artifacts_that_is_refused_is_so_before_anything_starts(pattern: str) -> None:
    with pytest.raises(PatternError):
        Job(LOCAL, "true", artifacts=["*.txt", pattern])


def test_artifacts_go_into_a_directory_for_each_item(tmp_path: Path) -> None:
    job = Job(LOCAL, "mkdir out; echo {item} >out/a; cp pixels out", files={"pixels": PIXELS}, artifacts="out/*",
              artifacts_to=tmp_path / "new" / "all")  # fmt: skip
    first, second = job("x", 0), job("y", 1)
    assert (first.folder, first.artifacts) == (tmp_path / "new" / "all" / "0", {})
    assert second.folder is not None
    assert (second.folder / "out" / "a").read_text() == "y\n"
    assert (second.folder / "out" / "pixels").read_bytes() == PIXELS
    assert sorted(path.name for path in (tmp_path / "new" / "all").iterdir()) == ["0", "1"]


def test_a_job_that_is_done_again_has_the_directory_anew(tmp_path: Path) -> None:
    for name in ("first", "second"):
        result = Job(LOCAL, "touch {item}", artifacts="*", artifacts_to=tmp_path / "all")(name)
    assert result.folder is not None
    assert [path.name for path in result.folder.iterdir()] == ["second"]


def test_what_rules_refuse_neither_comes_back_nor_goes_in() -> None:
    result = Job(GUARDED, HIDE, files={"xenv": "secret", "a": ""}, artifacts="*")("x")
    assert set(result.check().artifacts) == {"a"}
    result = Job(GUARDED, "true", files={".env": "secret"})("x")
    assert isinstance(result.error, PermissionDeniedError)


def test_a_file_that_may_be_seen_and_not_read_is_told_of(tmp_path: Path) -> None:
    rules = PermissionRuleset.from_dict({"read": {"rules": [{"pattern": "**/.p", "action": "deny"}]}})
    spec = SandboxSpec("local", {}, rules, "inspected")
    for place in (None, tmp_path / "all"):
        result = Job(spec, HIDE, files={"xp": "", "a": "", "c": ""}, artifacts="*", artifacts_to=place)("x").check()
        assert result.skipped == (Skipped(".p", DENIED),)
    assert result.folder is not None
    assert sorted(path.name for path in result.folder.iterdir()) == ["a", "c"]


def refused_by_the_limit(result: JobResult) -> bool:
    assert isinstance(result.error, LimitExceededError)
    assert (result.error.limit, str(result.error)) == (1000, "the artifacts have more than 1000 bytes together")
    return (result.value.ok, result.ok, result.artifacts, result.folder) == (True, False, {}, None)


def test_artifacts_over_the_limit_are_an_error_beside_the_value(place: Path | None) -> None:
    command = "head -c 600 /dev/zero >a; cp a b"
    assert refused_by_the_limit(Job(LOCAL, command, artifacts="*", artifact_limit=1000, artifacts_to=place)("x"))
    assert place is None or not any(place.glob("*"))
    job = Job(LOCAL, "head -c 500 /dev/zero >a; cp a b", artifacts="*", artifact_limit=1000, artifacts_to=place)
    assert sorted(map(len, brought(job("x").check()).values())) == [500, 500]


@pytest.mark.parametrize("size", [401, 10**6])
def test_the_limit_holds_for_what_files_have_grown_to(
    size: int, place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangesFound, "change", f"head -c {size} /dev/zero >b")
    job = Job(CHANGING, "head -c 600 /dev/zero >a; : >b", artifacts="*", artifact_limit=1000, artifacts_to=place)
    assert refused_by_the_limit(job("x"))
    assert place is None or not any(place.glob("*"))


@pytest.mark.parametrize(
    "change",
    ["mv d b", "mkfifo b", "ln -s d/secret b", "ln -s /etc/hostname b", "ln -s d b", "ln -s b b", ": gone"],
)
def test_what_takes_the_place_of_a_file_does_not_come(
    change: str, place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangesFound, "change", f"rm b; {change}")
    job = Job(CHANGING, "mkdir d; echo >d/secret; echo >b; echo >a; echo >c", artifacts="?", artifacts_to=place)
    result = job("x").check()
    assert brought(result) == {"a": b"\n", "c": b"\n"}
    assert [each.path for each in result.skipped] == ["b"]


def test_artifacts_keep_who_may_execute_them_and_no_more(tmp_path: Path) -> None:
    command = "touch tool text; chmod 4755 tool; chmod 640 text"
    result = Job(LOCAL, command, artifacts="*", artifacts_to=tmp_path / "all")("x").check()
    assert result.folder is not None
    assert {path.name: path.stat().st_mode & 0o7777 for path in result.folder.iterdir()} == {
        "tool": 0o755,
        "text": 0o640,
    }


@pytest.mark.parametrize("to", [None, "out"])
def test_there_are_not_more_artifacts_than_a_host_can_bear(to: str | None, tmp_path: Path) -> None:
    command = "mkdir out; cd out; seq 10001 | xargs touch"
    place = None if to is None else tmp_path / to
    result = Job(SandboxSpec("local"), command, artifacts="out/*", artifacts_to=place, timeout=HANGS_AFTER)("x")
    assert isinstance(result.error, LimitExceededError)
    assert list(tmp_path.glob("out/*")) == []
