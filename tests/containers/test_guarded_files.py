"""Files under rules, while a background command exchanges what has their names: nothing denied leaves or changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import PathError, PathNotFoundError, SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

from .channels import GUARD, MakeBox

RULES = PermissionRuleset("allow", rules=[PermissionRule("secret/**", "deny")])
ROUNDS = 30
STAGE = """
chmod -R u+rwX .; rm -rf * .[!.]*
umask 022; mkdir secret; echo secret words >secret/f; chmod 600 secret/f
umask 0; mkdir d; ln -s ../secret d/link; echo open >d/file; chmod 777 d/file
for i in $(seq 30); do mkdir -p secret/x$i d/sub/x$i; echo secret >secret/x$i/key; echo open >d/sub/x$i/f; done
chmod 755 secret secret/*/
"""
"""A directory that rules deny, and beside it one of the same shape that background commands may change."""

STATE = "find secret -type f | sort; ls -ln secret/f | cut -c1-10; cat secret/f"
EXCHANGE = """
cd d || exit
while :; do mv -T sub spare && mv -T link sub && mv -T sub link && mv -T spare sub; done 2>/dev/null
"""
REFILL = """
umask 0; mkdir d/sub
cd -P d/sub && [ "$PWD" = /workspace/d/sub ] || exit
for i in $(seq 30); do mkdir -p x$i; echo open >x$i/key; done
"""
SNATCH = """
cd d || exit
while :; do for name in .sandbox-kit-*; do [ ! -f "$name" ] || ln -sf ../secret/f "$name"; done; done 2>/dev/null
"""


@pytest.fixture(scope="module")
def user_box(image: str, make_box: MakeBox) -> DockerSandbox:
    return make_box(image, user=1000)


@pytest.fixture
def held(user_box: DockerSandbox) -> Sandbox:
    """The sandbox under rules, with the files of the stage in it."""
    user_box.execute(STAGE, timeout=GUARD).check()
    return guarding(user_box, RULES, commands="inspected")


def beside(box: DockerSandbox, command: str, call: Callable[[], object], rounds: int = ROUNDS) -> int:
    """Call over and over while *command* runs in the background, until a few calls end well.

    What a call raises is its own.

    Returns:
        How many ended well.
    """
    well = 0
    with box.spawn(command):
        for turn in range(rounds * 20):
            with suppress(SandboxError):
                call()
                well += 1
            if turn >= rounds and well >= 3:
                break
    return well


def test_no_walk_goes_through_a_link_that_took_a_directorys_place(user_box: DockerSandbox, held: Sandbox) -> None:
    seen: set[str] = set()
    assert beside(user_box, EXCHANGE, lambda: seen.update(entry.name for entry in held.glob("**", "d"))) >= 3
    assert "file" in seen
    assert "key" not in seen


def test_no_removal_goes_through_a_link_that_took_a_directorys_place(user_box: DockerSandbox, held: Sandbox) -> None:
    before = user_box.execute(STATE).stdout

    def remove() -> None:
        with suppress(SandboxError):
            held.remove("d/sub", recursive=True)
        user_box.execute(REFILL, timeout=GUARD)

    beside(user_box, EXCHANGE, remove)
    assert user_box.execute(STATE).stdout == before


def test_nothing_is_moved_to_another_file_system(user_box: DockerSandbox, held: Sandbox) -> None:
    for name in ("d", "d/file", "d/link"):
        if name == "d/link":
            user_box.execute("ln -sfn sub d/link").check()
        with pytest.raises(PathError, match="on another file system"):
            held.move(name, "/tmp/moved")
        assert held.exists(name)
        with pytest.raises(PathNotFoundError):
            held.stat("/tmp/moved")


@pytest.mark.parametrize("size", [10, 10_000, 9 * 2**20], ids=["text", "one piece", "pieces"])
def test_what_takes_the_place_of_an_unfinished_file_is_not_written_to(
    user_box: DockerSandbox, held: Sandbox, size: int
) -> None:
    before = user_box.execute(STATE).stdout
    content = b"x" * size
    beside(user_box, SNATCH, lambda: held.write("d/file", content), rounds=5)
    assert user_box.execute(STATE).stdout == before


def test_a_tree_is_removed_whatever_its_names_and_modes(user_box: DockerSandbox, held: Sandbox) -> None:
    user_box.execute(
        "mkdir -p 't/ a/..b/.c/*' 't/-rf/+x'; echo >t/-rf/-f; mkdir t/z; ln -s ../d t/z/l; chmod 0 t/z"
    ).check()
    user_box.remove("t", recursive=True)
    assert not held.exists("t")
    assert held.exists("d/file")


def test_a_walk_shows_every_name_once(user_box: DockerSandbox, held: Sandbox) -> None:
    names = ["+x/f", "!y/f", "-/f", ".h/..k/f", "a b/*", "e!", "n\nn/f", "s1 2 3", "x" * 255, "t", "z", "p/p/p"]
    for name in names:
        held.write(f"w/{name}", "x")
    assert [entry.path for entry in held.glob("**", "w") if not entry.is_dir] == sorted(f"w/{name}" for name in names)
