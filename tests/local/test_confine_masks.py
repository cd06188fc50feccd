"""What of a workspace is masked: the walk against a naive one, odd names, and what changes under it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local.masks import Found, pinned
from sandbox_kit.backends.local.plan import MAX_FILE_MASKS, MAX_MOUNTS, MAX_NAME, plan
from sandbox_kit.errors import PolicyError, UnsupportedError
from sandbox_kit.joint_masks import JointMasks

from .confinement import SECRET, Denials, Workspace
from .descriptors import settled

confined = pytest.mark.needs("bwrap")

NAMES = st.sampled_from(["a", "b", ".env", "keep", "open"])
TREES = st.recursive(st.just(None), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12)


def build(tree: object, at: Path) -> None:
    if isinstance(tree, dict):
        at.mkdir(exist_ok=True)
        for name, inner in tree.items():
            build(inner, at / name)
    else:
        at.write_text(SECRET)


def planned(root: str | Path, masks: Denials) -> Found:
    fd = os.open(root, os.O_PATH)
    try:
        return plan(fd, str(root), JointMasks([masks]))
    finally:
        os.close(fd)


def kinds(found: Found) -> dict[str, str]:
    """The mounts by name; closes the descriptors."""
    result = {mount.name: str(mount.kind) for mount in found.mounts}
    assert len(result) == len(found.mounts)
    found.close()
    return result


def wanted(name: str, root: str, masks: Denials) -> str:
    """What *name* has to be: judged alone, with the directories that it lies in."""
    parent = name
    while parent != root:
        if masks.hidden(parent) and not masks.opens_beneath(parent):
            return "hide"
        parent = parent.rpartition("/")[0]
    if masks.hidden(name) and not os.path.isdir(name):
        return "hide"
    return "read-only" if masks.read_only(name) else "read-write"


def entries(root: str) -> Iterator[str]:
    for directory, names, files in os.walk(root):
        yield from (f"{directory}/{name}" for name in names + files)


def held(name: str, mounts: dict[str, str]) -> str:
    while name:
        if name in mounts:
            kind = mounts[name]
            return "hide" if kind.startswith("hide") else kind
        name = name.rpartition("/")[0]
    return "read-write"


@given(
    tree=st.dictionaries(NAMES, TREES, max_size=4),
    deny=st.sets(st.sampled_from([r".*/\.env", ".*/a", "W/b", ".*/keep/a"]), max_size=3),
    allow=st.sets(st.sampled_from([".*/open", "W/b/a"]), max_size=1),
    protect=st.sets(st.sampled_from([".*/keep", "W/a", r".*/\.env"]), max_size=2),
)
def test_every_entry_is_held_as_it_must_be(
    tree: dict[str, object], deny: set[str], allow: set[str], protect: set[str]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        here = Workspace(root, root)
        build(tree, Path(root))
        masks = here.denials(*sorted(deny), allow=tuple(allow), protect=tuple(sorted(protect)))
        mounts = kinds(planned(root, masks))
        assert {name: held(name, mounts) for name in entries(root)} == {
            name: wanted(name, root, masks) for name in entries(root)
        }
        assert list(mounts) == sorted(mounts, key=lambda name: name.count("/"))


@confined
@pytest.mark.parametrize(
    "name",
    ["-rf", "a b", "new\nline", "tab\t", "back\\slash", "quote\"'", "$(true)", "utf-8 \udcff\udcfe", "ünïcode", "012"],
)
def test_a_name_of_any_kind_is_masked(name: str, workspace: Workspace) -> None:
    for path in (f"{name}/secret.txt", f"sub/{name}"):
        workspace.put(path)
    masks = Denials(deny=(r".*/secret\.txt", r"(?s:.*)/sub/.*"))
    assert SECRET not in workspace.run("grep -r . . ; cat ./*/* ; tar cf - .", masks)
    assert SECRET in workspace.run("tar cf - .")


@confined
def test_nothing_hidden_can_be_read_written_moved_or_removed(workspace: Workspace) -> None:
    workspace.put("sub/.env")
    workspace.put("private/key.txt")
    masks = workspace.denials(r".*/\.env", "W/private")
    for line in (
        "cat sub/.env",
        "cat private/key.txt",
        "ls private",
        "echo x > sub/.env",
        "echo x >> sub/.env",
        "echo x > private/new",
        "mv sub/.env sub/x",
        "mv private p2",
        "rm -f sub/.env",
        "rm -rf private",
        "chmod 777 sub/.env",
        "chmod 777 private",
        "ln sub/.env hard",
        "umount private",
        "umount -l private",
        "mount --bind sub private",
        "touch sub/.env",
        "truncate -s 0 sub/.env",
        "cp /etc/passwd sub/.env",
        "ln -sf /etc/passwd sub/.env",
        "exec 3<private && cat /proc/self/fd/3/key.txt",
    ):
        printed = workspace.run(line, masks)
        assert SECRET not in printed
        assert not printed.endswith("rc=0"), line
    assert Path(workspace.root, "sub/.env").read_text() == SECRET
    assert Path(workspace.root, "private/key.txt").read_text() == SECRET


@confined
def test_what_is_protected_can_be_read_but_not_changed(workspace: Workspace) -> None:
    workspace.put("keep/deep/a.txt", "fine\n")
    workspace.put("one.txt", "fine\n")
    masks = workspace.denials(protect=("W/keep", "W/one.txt"))
    assert workspace.run("cat keep/deep/a.txt one.txt", masks) == "fine\nfine\nrc=0"
    for line in ("echo x > keep/deep/a.txt", "touch keep/b", "rm one.txt", "mv keep k", "mv one.txt o", "rm -r keep"):
        assert not workspace.run(line, masks).endswith("rc=0"), line


@confined
def test_what_an_earlier_rule_allows_stays_open_within(workspace: Workspace) -> None:
    for name in ("private/a.txt", "private/open.txt", "keep/a.txt", "keep/open.txt"):
        workspace.put(name, f"{name}\n")
    masks = workspace.denials("W/private", allow=(r".*/open\.txt",), protect=("W/keep",))
    assert workspace.run("cat */open.txt */a.txt 2>/dev/null; echo x > keep/open.txt", masks) == (
        "keep/open.txt\nprivate/open.txt\nkeep/a.txt\nrc=0"
    )
    assert not workspace.run("echo x > keep/a.txt", masks).endswith("rc=0")


@confined
def test_a_link_is_judged_by_where_it_leads(workspace: Workspace) -> None:
    secret = workspace.put("../outside/secret.txt")
    workspace.put("real.txt", "fine")
    Path(workspace.root, "link.pem").symlink_to("real.txt")
    Path(workspace.root, "away").symlink_to(secret.parent)
    masks = workspace.denials(r".*\.pem", ".*/secret.txt")
    assert workspace.run("cat link.pem; cat away/secret.txt 2>/dev/null", masks) == "finerc=1"
    assert secret.read_text() == SECRET


@confined
def test_a_fifo_or_socket_does_not_hold_the_walk(workspace: Workspace) -> None:
    for name in ("pipe", "keep.pipe", "secret.pipe"):
        os.mkfifo(f"{workspace.root}/{name}")
    masks = workspace.denials("W/secret.pipe", protect=("W/keep.pipe",))
    assert workspace.run("ls -d pipe; cat secret.pipe", masks).startswith("pipe\n")


@confined
def test_a_second_mask_adds_to_the_first(workspace: Workspace) -> None:
    workspace.put("a.txt")
    workspace.put("private/open.txt")
    first, second = workspace.denials("W/private", allow=(r".*/open\.txt",)), workspace.denials("W/a.txt", "W/private")
    fd = os.open(workspace.root, os.O_PATH)
    found = plan(fd, workspace.root, JointMasks([first, second]))
    os.close(fd)
    assert kinds(found) == {f"{workspace.root}/a.txt": "hide-file", f"{workspace.root}/private": "hide-dir"}


def test_the_work_directory_itself_cannot_be_hidden(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="work directory itself"):
        planned(tmp_path, Denials(deny=(str(tmp_path),)))


def test_the_work_directory_itself_can_be_protected(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert kinds(planned(tmp_path, Denials(protect=(str(tmp_path),)))) == {str(tmp_path): "read-only"}


def test_many_secrets_are_masked_by_the_directories_that_hold_nothing_else(tmp_path: Path) -> None:
    for directory in ("all/x", "all/y"):
        for number in range(MAX_FILE_MASKS):
            (tmp_path / directory).mkdir(parents=True, exist_ok=True)
            (tmp_path / directory / f"{number}.pem").touch()
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.pem").touch()
    (tmp_path / "some" / "a.txt").touch()
    mounts = kinds(planned(tmp_path, Denials(deny=(r".*\.pem",))))
    assert mounts == {f"{tmp_path}/all": "hide-dir", f"{tmp_path}/some/a.pem": "hide-file"}


def test_more_masks_than_can_be_held_are_refused_by_number(tmp_path: Path) -> None:
    for number in range(MAX_MOUNTS + 1):
        (tmp_path / f"{number}.pem").touch()
    (tmp_path / "a.txt").touch()
    before = settled()
    for masks in (Denials(deny=(r".*\.pem",)), Denials(protect=(r".*\.pem",))):
        with pytest.raises(UnsupportedError, match=rf"mask {MAX_MOUNTS + 1} names .*\.pem"):
            planned(tmp_path, masks)
    assert settled() <= before


def test_directories_that_nest_without_end_are_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    with pytest.raises(UnsupportedError, match="nest too deep"):
        planned(tmp_path, Denials(deny=(".*/x",)))


def test_pins_are_mounted_before_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "a/b/private").mkdir(parents=True)
    (tmp_path / "keep/c").mkdir(parents=True)
    (tmp_path / "keep/c/d.txt").touch()
    masks = Denials(
        deny=(f"{tmp_path}/a/b/private", f"{tmp_path}/keep/c/d.txt"),
        protect=(f"{tmp_path}/keep",),
        pinned=tuple(f"{tmp_path}/{name}" for name in ("a", "a/b", "keep", "keep/c", "elsewhere")),
    )
    assert kinds(planned(tmp_path, masks)) == {
        f"{tmp_path}/a": "read-write",
        f"{tmp_path}/keep": "read-only",
        f"{tmp_path}/a/b": "read-write",
        f"{tmp_path}/keep/c": "read-only",
        f"{tmp_path}/a/b/private": "hide-dir",
        f"{tmp_path}/keep/c/d.txt": "hide-file",
    }


@confined
def test_a_pinned_parent_keeps_its_name_between_two_commands(workspace: Workspace) -> None:
    workspace.put("a/b/private/key.txt")
    deny = workspace.denials("W/a/b/private")
    pinned = Denials(deny=deny.deny, pinned=(f"{workspace.root}/a", f"{workspace.root}/a/b"))
    for line in ("mv a x", "mv a/b a/x", "mv a/b x", "rm -rf a; mkdir -p a/b/private; mv a x"):
        assert not workspace.run(line, pinned).endswith("rc=0")
        assert SECRET not in workspace.run("grep -r . .; rm -rf x", pinned)
    assert "busy" in workspace.run("mv a x", pinned)
    assert workspace.run("touch a/new a/b/new; mv a/new a/b/new2; ls a/b", pinned).startswith("new\nnew2\nprivate\n")
    assert workspace.run("mv a x", deny) == "rc=0"
    assert SECRET in workspace.run("grep -r . .", deny)


def test_a_pin_that_a_link_leads_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "work" / "a").symlink_to("../outside")
    fd = os.open(tmp_path / "work", os.O_PATH)
    for name in ("a", "a/b", "missing"):
        with pytest.raises(PolicyError, match="became a link"):
            pinned(fd, f"{tmp_path}/work", str(tmp_path / "work" / name))
    os.close(fd)


class Meddling(Denials):
    """Masks during whose answer somebody replaces the directory by a link."""

    def hidden(self, name: str) -> bool:
        if not name.endswith("/secret.txt"):
            return False
        directory = name.rpartition("/")[0]
        os.rename(directory, f"{directory}-moved")
        os.symlink("../outside", directory)
        return True


def test_a_link_planted_under_the_walk_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work/a").mkdir(parents=True)
    (tmp_path / "work/a/secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    before = settled()
    with pytest.raises(PolicyError, match="changed while"):
        planned(tmp_path / "work", Meddling())
    assert settled() <= before


def test_a_directory_swapped_under_the_walk_is_refused(tmp_path: Path) -> None:
    class Swapping(Denials):
        def hidden(self, name: str) -> bool:
            if name.endswith("/secret.txt"):
                os.rename(tmp_path / "a", tmp_path / "b")
                os.mkdir(tmp_path / "a")
            return name.endswith("/secret.txt")

    (tmp_path / "a").mkdir()
    (tmp_path / "a/secret.txt").touch()
    with pytest.raises(PolicyError, match="another directory has its name"):
        planned(tmp_path, Swapping())


def test_a_walk_under_a_flipping_link_never_leaves_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "work/real").mkdir(parents=True)
    (tmp_path / "work/real/in.txt").touch()
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "outside/deep/out.txt").touch()
    asked: set[str] = set()
    stop = threading.Event()

    class Noting(Denials):
        def hidden(self, name: str) -> bool:
            asked.add(name)
            return False

    def flip() -> None:
        flipping = tmp_path / "work" / "flip"
        while not stop.is_set():
            os.rename(tmp_path / "work" / "real", flipping)
            os.rename(flipping, tmp_path / "work" / "real")
            os.symlink("../outside", flipping)
            os.unlink(flipping)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(300):
            try:
                planned(tmp_path / "work", Noting(protect=(".*/flip",))).close()
            except PolicyError:
                continue
    finally:
        stop.set()
        thread.join()
    assert any(name.endswith("in.txt") for name in asked)
    assert not any("deep" in name or "out.txt" in name for name in asked)


@confined
def test_ten_thousand_files_are_walked(workspace: Workspace) -> None:
    class Plain(Denials):
        def hidden(self, name: str) -> bool:
            return name.endswith("/.env")

        def read_only(self, name: str) -> bool:
            return False

    for number in range(100):
        directory = Path(workspace.root, f"d{number // 10}", f"{number}")
        directory.mkdir(parents=True)
        for other in range(100):
            (directory / f"{other}.txt").touch()
    workspace.put("d9/99/.env")
    printed = workspace.run("grep -rs . . ; find . -type f | wc -l", Plain())
    assert printed == "10001\nrc=0"


def nest(directory: Path, names: int) -> None:
    """Put a secret beneath *directory* under a name that no call of the system takes."""
    at = os.open(directory, os.O_PATH)
    for _ in range(names):
        os.mkdir("d" * 100, dir_fd=at)
        outer, at = at, os.open("d" * 100, os.O_PATH, dir_fd=at)
        os.close(outer)
    os.close(os.open(".env", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)


def test_a_name_too_long_to_be_masked_is_refused(workspace: Workspace) -> None:
    nest(Path(workspace.root), MAX_NAME // 100 + 2)
    before = settled()
    with pytest.raises(UnsupportedError, match="too long to be masked") as caught:
        planned(workspace.root, Denials(deny=(r".*/\.env",)))
    assert workspace.root in str(caught.value)
    assert settled() <= before


@confined
def test_a_name_too_long_to_be_masked_beneath_what_is_exposed_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    nest(shown, MAX_NAME // 100 + 2)
    with pytest.raises(UnsupportedError, match="too long to be masked"):
        workspace.run("true", Denials(deny=(r".*/\.env",)), expose=[shown])
