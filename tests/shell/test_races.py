"""Names that change while a guarded call runs: what a rule denies neither leaves nor changes."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from tests.shell.backends import LocalShellFiles

READS = 1000
RULES = PermissionRuleset("allow", rules=[PermissionRule("secret/**", "deny"), PermissionRule("**/key", "deny")])
SECRET = "secret words\n"


@pytest.fixture
def held(files: LocalShellFiles, root: Path) -> Backend:
    (root / "secret").mkdir()
    (root / "open").mkdir()
    for name in ("secret/f", "secret/key"):
        (root / name).write_text(SECRET)
    (root / "open/f").write_text("open words\n")
    return guarding(files, RULES)


@contextmanager
def flipping(step: Callable[[int], None]) -> Iterator[None]:
    """Call *step* over and over, beside the block."""
    over = threading.Event()

    def flip() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            step(number)

    flipper = threading.Thread(target=flip, daemon=True)
    flipper.start()
    try:
        yield
    finally:
        over.set()
        flipper.join()


def replace_by_link(place: Path, *targets: str) -> Callable[[int], None]:
    """Make *place* a link to one of *targets* after the other, in one step each."""

    def step(number: int) -> None:
        fresh = place.with_name(".fresh")
        fresh.symlink_to(targets[number % len(targets)])
        fresh.rename(place)

    return step


def replace_by_either(place: Path, target: str) -> Callable[[int], None]:
    """Make *place* a file and a link to *target* by turns, in one step each."""

    def step(number: int) -> None:
        fresh = place.with_name(".fresh")
        if number % 2:
            fresh.symlink_to(target)
        else:
            fresh.write_text("open words\n")
        fresh.rename(place)

    return step


def read_often(backend: Backend, path: str) -> tuple[set[str], int]:
    """Read *path* many times; return what came, and how often something did."""
    texts: list[str] = []
    for _ in range(READS):
        try:
            texts.append(backend.read(path))
        except SandboxError:
            continue
    return set(texts), len(texts)


@pytest.mark.parametrize("shape", ["link", "either", "directory"])
def test_no_read_gives_what_is_denied(held: Backend, root: Path, shape: str) -> None:
    if shape == "link":
        step, path = replace_by_link(root / "way", "open/f", "secret/f"), "way"
    elif shape == "either":
        step, path = replace_by_either(root / "way", "secret/f"), "way"
    else:
        step, path = replace_by_link(root / "way", "open", "secret"), "way/f"
    with flipping(step):
        texts, count = read_often(held, path)
    assert texts == {"open words\n"}
    assert count > 0


def test_no_write_changes_what_is_denied(held: Backend, root: Path) -> None:
    with flipping(replace_by_link(root / "way", "open", "secret")):
        for _ in range(READS // 4):
            for call in (
                lambda: held.write("way/f", "changed words"),
                lambda: held.write("way/new", "x"),
                lambda: held.edit("way/f", "words", "things"),
                lambda: held.remove("way/new"),
            ):
                try:
                    call()
                except SandboxError:
                    continue
    assert sorted(os.listdir(root / "secret")) == ["f", "key"]
    assert (root / "secret/f").read_text() == SECRET


def test_no_tree_is_removed_or_moved_that_is_denied(held: Backend, root: Path) -> None:
    with flipping(replace_by_link(root / "way", "open", "secret")):
        for _ in range(READS // 8):
            for call in (
                lambda: held.mkdir("way/d/e"),
                lambda: held.move("way/d", "moved"),
                lambda: held.remove("moved"),
                lambda: held.move("way/f", "open/g"),
                lambda: held.remove("way/d", recursive=True),
            ):
                try:
                    call()
                except SandboxError:
                    continue
    assert sorted(os.listdir(root / "secret")) == ["f", "key"]


def test_no_listing_and_no_search_shows_what_is_denied(held: Backend, root: Path) -> None:
    with flipping(replace_by_link(root / "way", "open", "secret")):
        for _ in range(READS // 10):
            try:
                assert "key" not in {entry.name for entry in held.ls("way")}
                assert all(match.line == "open words" for match in held.grep("words", "way"))
            except SandboxError:
                continue
            assert all("secret" not in entry.path and entry.name != "key" for entry in held.glob("**"))


def test_links_are_judged_by_every_name_on_their_way(files: LocalShellFiles, held: Backend, root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("key")
    (root / "key").symlink_to("open/f")
    (root / "plain").symlink_to("open/f")
    shown = {entry.name for entry in held.ls()}
    assert shown == {"open", "plain"}
    for path in ("one", "two", "key"):
        for call in (held.read, held.stat, lambda path: held.write(path, "x")):
            with pytest.raises(SandboxError):
                call(path)
    assert held.read("plain") == "open words\n"
    assert {entry.name for entry in files.ls()} == {"open", "plain", "one", "two", "key", "secret"}
