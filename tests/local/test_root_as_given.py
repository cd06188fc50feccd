"""A root given by a symbolic link: what is named by that spelling is what lies beneath the real one."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PatternError, PermissionDeniedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset


@pytest.fixture(params=["ascii", "cafe\u0301"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / f"real-{request.param}").mkdir()
    link = tmp_path / "link"
    link.symlink_to(f"real-{request.param}")
    return link


@pytest.fixture(params=["plain", "guarded"])
def backend(request: pytest.FixtureRequest, given: Path) -> Backend:
    local = LocalBackend(given)
    local.write("a/x.py", "needle\n")
    local.write("a/deep/.h", "needle\n")
    local.write("b", "needle\n")
    rules = PermissionRuleset(rules=[PermissionRule(f"{given}/a/none", "deny")])
    return local if request.param == "plain" else guarding(local, rules)


def _members(backend: Backend, path: str) -> list[str]:
    return sorted(tarfile.open(fileobj=io.BytesIO(backend.export(path).read())).getnames())


CALLS: dict[str, Callable[[Backend, str], object]] = {
    "ls": lambda backend, path: [entry.path for entry in backend.ls(path)],
    "glob": lambda backend, path: [entry.path for entry in backend.glob("*", path)],
    "glob by literals": lambda backend, path: [entry.path for entry in backend.glob("deep/*", path)],
    "glob of all": lambda backend, path: [entry.path for entry in backend.glob("**", path)],
    "grep": lambda backend, path: sorted(match.path for match in backend.grep("needle", path, hidden=True)),
    "grep by name": lambda backend, path: [match.path for match in backend.grep("needle", path, glob="a/*.py")],
    "grep of a file": lambda backend, path: [match.path for match in backend.grep("needle", f"{path}/x.py")],
    "stat": lambda backend, path: backend.stat(path).path,
    "edit": lambda backend, path: backend.edit(f"{path}/x.py", "needle", "needle").path,
    "export": _members,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("spelling", ["{}/a", "{}//a/", "{}/./a", "{}/a/deep/..", "/..{}/a"])
def test_every_call_takes_the_spelling_that_was_given(
    backend: Backend, given: Path, call: Callable[[Backend, str], object], spelling: str
) -> None:
    expected = call(backend, "a")
    assert call(backend, spelling.format(given)) == expected
    assert expected


def test_a_tree_is_downloaded_whole(backend: Backend, given: Path, tmp_path: Path) -> None:
    assert backend.download(f"{given}/a", tmp_path / "out") == 0
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")) == [
        "deep",
        "deep/.h",
        "x.py",
    ]


def test_absolute_patterns_take_either_spelling(backend: Backend, given: Path) -> None:
    for root in (str(given), backend.work_dir):
        assert [entry.path for entry in backend.glob(f"{root}/a/*.py")] == ["a/x.py"]
        assert [entry.path for entry in backend.glob(f"{root}/a/*.py", "a")] == ["a/x.py"]
        assert [match.path for match in backend.grep("needle", glob=f"{root}/a/*")] == ["a/x.py"]
        assert [match.path for match in backend.grep("needle", glob=f"{root}/b")] == ["b"]
    with pytest.raises(PatternError):
        backend.glob(f"{given.parent}/*")


def test_rules_hold_in_either_spelling(given: Path) -> None:
    backend = LocalBackend(given)
    backend.write("a/x.py", "TOPSECRET")
    for root in (str(given), backend.work_dir):
        guarded = guarding(backend, PermissionRuleset(rules=[PermissionRule(f"{root}/a/x.py", "deny")]))
        for named in (f"{given}/a", f"{backend.work_dir}/a", "a"):
            assert list(guarded.glob("*", named)) == []
            assert list(guarded.grep("TOP", named)) == []
            assert guarded.export(named, denied="skip").read().find(b"TOPSECRET") == -1
            with pytest.raises(PermissionDeniedError):
                guarded.download(named, given.parent / "out")
