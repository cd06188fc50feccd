"""An overrides file that sandboxed code could write is refused, by whatever name it is reached."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_kit import PathError, PolicyError, PolicyOverrides, SandboxPolicy

CONTENT = '{"max_sessions": 5}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace root with one session, ``s1``."""
    root = tmp_path / "work"
    (root / "s1" / "workspace" / "sub").mkdir(parents=True)
    (root / "s1" / "workspace" / "o.json").write_text(CONTENT)
    return root


@pytest.fixture
def policy(root: Path) -> SandboxPolicy:
    return SandboxPolicy.from_dict({"max_sessions": 3, "workspace_root": str(root)})


def refuse(policy: SandboxPolicy, path: Path, outside: tuple[Path, ...] = ()) -> None:
    with pytest.raises(PolicyError, match="lies in"):
        PolicyOverrides(policy, path, outside)


@pytest.mark.parametrize(
    "name",
    [
        "s1/workspace/o.json",
        "s1/workspace/missing.json",
        "s1/workspace/sub/o.json",
        "s2/workspace/o.json",
        "s1/../s1/workspace/./o.json",
        "s1//workspace/sub/../o.json",
    ],
)
def test_a_file_in_a_workspace_is_refused(policy: SandboxPolicy, root: Path, name: str) -> None:
    refuse(policy, Path(f"{root}/{name}"))


@pytest.mark.parametrize("name", ["o.json", "s1/o.json", "workspace/o.json", "s1/x/workspace/o.json", "../o.json"])
def test_a_file_beside_the_workspaces_is_taken(policy: SandboxPolicy, root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CONTENT)
    assert PolicyOverrides(policy, path).refresh() == ["max_sessions"]


def test_a_workspace_is_known_before_there_is_any(tmp_path: Path) -> None:
    root = tmp_path / "not" / "yet"
    refuse(SandboxPolicy.from_dict({"workspace_root": str(root)}), root / "s1" / "workspace" / "o.json")


def test_links_into_a_workspace_are_refused(policy: SandboxPolicy, root: Path, tmp_path: Path) -> None:
    (tmp_path / "file.json").symlink_to(root / "s1" / "workspace" / "o.json")
    (tmp_path / "relative.json").symlink_to("work/s1/workspace/missing.json")
    (tmp_path / "directory").symlink_to(root / "s1" / "workspace" / "sub")
    (tmp_path / "twice.json").symlink_to("relative.json")
    for name in ("file.json", "relative.json", "directory/o.json", "directory/../o.json", "twice.json"):
        with pytest.raises(PolicyError, match="lies in"):
            PolicyOverrides(policy, f"{tmp_path}/{name}")


def test_a_link_on_the_way_that_sandboxed_code_can_change_is_refused(
    policy: SandboxPolicy, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "real.json").write_text(CONTENT)
    (root / "s1" / "workspace" / "out.json").symlink_to(tmp_path / "real.json")
    (tmp_path / "in.json").symlink_to(root / "s1" / "workspace" / "out.json")
    refuse(policy, root / "s1" / "workspace" / "out.json")
    refuse(policy, tmp_path / "in.json")


def test_a_file_with_a_second_name_is_refused(
    policy: SandboxPolicy, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.link(root / "s1" / "workspace" / "o.json", tmp_path / "hard.json")
    (tmp_path / "link.json").symlink_to("hard.json")
    for name in ("hard.json", "link.json"):
        with pytest.raises(PolicyError, match="has another name"):
            PolicyOverrides(policy, tmp_path / name)
    (tmp_path / "later.json").write_text('{"max_sessions": 4}')
    source = PolicyOverrides(policy, tmp_path / "later.json")
    assert source.refresh() == ["max_sessions"]
    os.link(tmp_path / "later.json", root / "s1" / "workspace" / "later.json")
    (root / "s1" / "workspace" / "later.json").write_text(CONTENT)
    assert source.refresh() == []
    assert policy.snapshot().max_sessions == 4
    assert "has another name" in caplog.text
    (root / "s1" / "workspace" / "later.json").unlink()
    assert source.refresh() == ["max_sessions"]


def test_a_workspace_root_by_another_name_is_the_same(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    policy = SandboxPolicy.from_dict({"workspace_root": str(tmp_path / "alias")})
    refuse(policy, root / "s1" / "workspace" / "o.json")
    refuse(policy, tmp_path / "alias" / "s1" / "workspace" / "o.json")


def test_a_link_that_is_retargeted_into_a_workspace_is_ignored(
    policy: SandboxPolicy, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "good.json").write_text('{"max_sessions": 4}')
    link = tmp_path / "link.json"
    link.symlink_to("good.json")
    source = PolicyOverrides(policy, link)
    assert source.refresh() == ["max_sessions"]
    link.unlink()
    link.symlink_to(root / "s1" / "workspace" / "o.json")
    assert [source.refresh(), source.refresh()] == [[], []]
    assert policy.snapshot().max_sessions == 4
    (complaint,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert complaint.endswith("lies in the workspace of a session, which its code can write")


def test_a_file_is_not_taken_for_one_that_replaced_it(
    policy: SandboxPolicy, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is opened in a workspace is refused, though by now its name leads to a good file."""
    good, link = tmp_path / "good.json", tmp_path / "link.json"
    good.write_text('{"max_sessions": 4}')
    link.symlink_to("good.json")
    source = PolicyOverrides(policy, link)
    opened = os.open(root / "s1" / "workspace" / "o.json", os.O_RDONLY)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *_: opened)
        assert source.refresh() == []
    assert policy.snapshot().max_sessions == 3
    assert source.refresh() == ["max_sessions"]


def test_a_file_that_is_gone_once_it_is_opened_is_not_taken(
    policy: SandboxPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "o.json"
    path.write_text(CONTENT)
    source = PolicyOverrides(policy, path)
    opened = os.open(path, os.O_RDONLY)
    path.unlink()
    monkeypatch.setattr(os, "open", lambda *_: opened)
    assert source.refresh() == []
    assert policy.snapshot().max_sessions == 3


def test_directories_that_the_caller_names_are_refused(tmp_path: Path) -> None:
    policy = SandboxPolicy()
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (tmp_path / "link").symlink_to(one)
    for path in (one / "o.json", one / "deep" / "o.json", tmp_path / "link" / "o.json", other / "o.json"):
        refuse(policy, path, (one, other))
    refuse(policy, one / "o.json", (tmp_path / "link",))
    assert PolicyOverrides(policy, tmp_path / "one.json", (one, other)).refresh() == []


def test_a_loop_of_links_cannot_be_resolved(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to("b.json")
    (tmp_path / "b.json").symlink_to("a.json")
    with pytest.raises(PathError, match="too many links"):
        PolicyOverrides(SandboxPolicy(), tmp_path / "a.json")


MOUNTED = """
import sys
from sandbox_kit import PolicyError, PolicyOverrides, SandboxPolicy
root, paths = sys.argv[1], sys.argv[2:]
def refused(policy, path, outside=()):
    try:
        PolicyOverrides(policy, path, outside)
    except PolicyError as error:
        return "lies in the workspace of a session" in str(error)
    return False
own = SandboxPolicy.from_dict({"workspace_root": root})
print([refused(own, path) for path in paths], [refused(SandboxPolicy(), path, (root,)) for path in paths])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts of its own are a matter of Linux")
def test_a_workspace_that_is_mounted_at_a_second_place_is_noticed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "part").mkdir()
    (tmp_path / "beside").mkdir()
    (tmp_path / "link").symlink_to("mounted")
    mounts = 'mount --bind "$1/s1/workspace" "$2" && mount --bind "$1/s1/workspace/sub" "$3" || exit 77'
    script = f'{mounts}; "$4" -c "$5" "$1" "$2/o.json" "$2/sub/x.json" "$3/x.json" "$6" "$7"'
    words = [str(root), str(tmp_path / "mounted"), str(tmp_path / "part"), sys.executable, MOUNTED]
    more = [str(tmp_path / "link" / "new.json"), str(tmp_path / "beside" / "o.json")]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *words, *more],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode in (77, 127) or "unshare" in done.stderr:
        pytest.skip(f"no mounts of its own: {done.stderr}")
    expected = [True, True, True, True, False]
    assert (done.stdout, done.stderr) == (f"{expected} {expected}\n", "")
