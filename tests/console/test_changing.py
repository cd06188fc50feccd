"""write_file and edit_file: what they change, and that they go over nobody else's change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ErrorText
from sandbox_kit.contract import Backend
from sandbox_kit.guard import guarding
from sandbox_kit.paths import SandboxPath
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import EditResult

from .consoles import text, tools


def refused(result: object, *said: str) -> None:
    assert isinstance(result, ErrorText)
    assert [each for each in said if each not in result] == []


def test_a_file_is_made_with_its_parents() -> None:
    backend = StateBackend()
    assert tools(backend)["write_file"](path="a/b", content="caf\u00e9\n") == "Wrote 6 B to a/b."
    assert backend.read("a/b") == "caf\u00e9\n"


def test_an_edit_replaces_one_piece() -> None:
    backend = StateBackend({"x": "one two one"})
    edit = tools(backend)["edit_file"]
    assert edit(path="x", old_text="two", new_text="2") == "Replaced 1 in x."
    assert edit(path="x", old_text="one", new_text="1", replace_all=True) == "Replaced 2 in x."
    assert backend.read("x") == "1 2 1"


class Racing(StateBackend):
    """Files of which another one has changed each before it is edited."""

    def edit(self, path: SandboxPath, old: str | bytes, new: str | bytes, *, replace_all: bool = False) -> EditResult:
        self.write(path, "one")
        return super().edit(path, old, new, replace_all=replace_all)


def test_an_edit_of_what_changed_at_that_moment_is_not_taken_for_known() -> None:
    edited = tools(Racing({"x": "one one one"}))
    edited["read_file"](path="x")
    assert edited["edit_file"](path="x", old_text="one", new_text="two") == "Replaced 1 in x."
    refused(edited["edit_file"](path="x", old_text="two", new_text="three"), "has changed")


def test_an_edit_that_fits_nowhere_or_too_often_says_how_often_and_what_to_do() -> None:
    backend = StateBackend({"x": "one two one"})
    edit = tools(backend)["edit_file"]
    refused(edit(path="x", old_text="three", new_text="3"), "does not occur", "without the line numbers")
    refused(edit(path="x", old_text="one", new_text="1"), "occurs 2 times", "replace_all")
    refused(edit(path="x", old_text="one", new_text="one"), "the same")
    refused(edit(path="x", old_text="", new_text="1"), "empty")
    assert backend.read("x") == "one two one"


@pytest.mark.parametrize("shown", ["read", "written", "edited"])
def test_what_another_one_changed_since_is_left_as_it_is_until_it_is_read_again(shown: str) -> None:
    backend = StateBackend({"x": "one\n"})
    console = tools(backend)
    if shown == "written":
        console["write_file"](path="x", content="one\n")
    else:
        console["read_file"](path="x")
    if shown == "edited":
        console["edit_file"](path="x", old_text="one", new_text="1")
    backend.write("x", "one, by somebody else\n")
    refused(console["edit_file"](path="x", old_text="one", new_text="1"), "has changed", "read it again")
    refused(console["write_file"](path="./x", content="mine"), "has changed", "read it again")
    assert backend.read("x") == "one, by somebody else\n"
    console["read_file"](path="x")
    assert console["edit_file"](path="x", old_text="one", new_text="1") == "Replaced 1 in x."
    assert console["write_file"](path="x", content="mine") == "Wrote 4 B to x."


def test_content_decides_not_the_clock(tmp_path: Path) -> None:
    console = tools(LocalBackend(tmp_path))
    (tmp_path / "x").write_text("one")
    console["read_file"](path="x")
    stat = os.stat(tmp_path / "x")
    (tmp_path / "x").write_text("two")
    os.utime(tmp_path / "x", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    refused(console["write_file"](path="x", content="mine"), "has changed")
    (tmp_path / "x").unlink()
    (tmp_path / "x").write_text("one")
    assert console["write_file"](path="x", content="mine") == "Wrote 4 B to x."


def test_what_was_never_read_may_be_changed(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("one")
    console = tools(LocalBackend(tmp_path))
    assert console["edit_file"](path="x", old_text="one", new_text="1") == "Replaced 1 in x."
    assert console["write_file"](path="x", content="2") == "Wrote 1 B to x."


def test_what_is_gone_since_may_be_written_anew() -> None:
    backend = StateBackend({"x": "one", "d/y": "two"})
    console = tools(backend)
    console["read_file"](path="x")
    console["read_file"](path="d/y")
    backend.remove("x")
    backend.remove("d", recursive=True)
    refused(console["edit_file"](path="x", old_text="one", new_text="1"), "no such file")
    assert console["write_file"](path="x", content="1") == "Wrote 1 B to x."
    assert console["write_file"](path="d/y", content="1") == "Wrote 1 B to d/y."


def test_a_file_that_outgrew_the_limit_has_changed() -> None:
    backend = StateBackend({"x": "one"})
    backend.max_read_bytes = 100
    console = tools(backend)
    console["read_file"](path="x")
    backend.write("x", "x" * 200)
    refused(console["write_file"](path="x", content=""), "has changed")


@pytest.mark.parametrize(("read", "written"), [("x", "link"), ("link", "x"), ("d/../x", "up/x"), ("up/link", "x")])
def test_one_file_is_known_by_all_names_that_lead_to_it(read: str, written: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("one")
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "d").mkdir()
    (tmp_path / "up").symlink_to(".")
    console = tools(LocalBackend(tmp_path))
    console["read_file"](path=read)
    (tmp_path / "x").write_text("one, by somebody else")
    refused(console["write_file"](path=written, content="mine"), f"{written} has changed")
    refused(console["edit_file"](path=written, old_text="one", new_text="1"), f"{written} has changed")
    console["read_file"](path=written)
    assert console["edit_file"](path=read, old_text="one", new_text="1") == f"Replaced 1 in {read}."
    assert console["write_file"](path=written, content="mine") == f"Wrote 4 B to {written}."


def test_a_link_that_leads_elsewhere_by_now_leads_to_what_was_never_read(tmp_path: Path) -> None:
    for name in "xy":
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("x")
    console = tools(LocalBackend(tmp_path))
    console["read_file"](path="link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("y")
    assert console["write_file"](path="link", content="mine") == "Wrote 4 B to link."
    assert console["write_file"](path="x", content="mine") == "Wrote 4 B to x."


@pytest.mark.parametrize("fallback", [None, "deny"])
def test_what_may_be_written_and_not_read_is_not_known(fallback: str | None) -> None:
    rules = PermissionRuleset(
        read=OperationPermissions(rules=[PermissionRule("out/**", "ask" if fallback else "deny")])
    )
    backend: Backend = StateBackend()
    guard = guarding(backend, rules, ask_fallback="deny") if fallback else guarding(backend, rules)
    write = tools(guard)["write_file"]
    assert [write(path="out/x", content=content) for content in "12"] == ["Wrote 1 B to out/x."] * 2
    assert backend.read("out/x") == "2"


def test_a_person_who_refuses_the_look_refuses_the_call() -> None:
    backend = StateBackend()
    rules = PermissionRuleset(read=OperationPermissions("ask"))
    write = tools(backend, rules, ask=lambda *question: False)["write_file"]
    write(path="x", content="1")
    refused(write(path="x", content="2"), "read x: not approved")
    assert backend.read("x") == "1"


def test_to_look_where_a_name_leads_asks_nobody(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append((operation, target))
        return True

    rules = PermissionRuleset(read=OperationPermissions("ask"))
    guard = guarding(LocalBackend(tmp_path), rules, ask=ask)
    assert tools(guard, rules)["write_file"](path="x", content="1") == "Wrote 1 B to x."
    assert asked == []


def test_nothing_larger_than_can_be_read_is_written() -> None:
    backend = StateBackend({"x": "one" * 10})
    backend.max_read_bytes = 30
    console = tools(backend)
    refused(console["write_file"](path="y", content="x" * 31), "content has 31 characters, more than 30")
    refused(console["write_file"](path="y", content="\u00e9" * 16), "holds 32 bytes, more than 30")
    refused(console["edit_file"](path="x", old_text="o", new_text="oo", replace_all=True), "more than 30 bytes")
    assert (backend.exists("y"), backend.read("x")) == (False, "one" * 10)


def test_a_backend_may_be_shared_and_each_console_has_its_own_view() -> None:
    backend: Backend = StateBackend({"x": "one"})
    first, second = tools(backend), tools(backend)
    first["read_file"](path="x")
    second["read_file"](path="x")
    second["write_file"](path="x", content="two")
    refused(first["write_file"](path="x", content="three"), "has changed")


@pytest.mark.parametrize("path", ["d", "x/y", "../up", "\ud800"], ids=["directory", "beneath", "above", "surrogate"])
def test_what_cannot_be_written_is_told_with_what_to_do(path: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "x").touch()
    refused(tools(LocalBackend(tmp_path))["write_file"](path=path, content=""), ";")


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    console = tools(StateBackend())
    refused(console["write_file"](path="x", content="\ud800"), "UTF-8")
    assert "UTF-8" in text(console["edit_file"](path="x", old_text="a", new_text="\ud800"))
