"""What another puts in the place of what was judged: it is neither replaced, moved nor removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathError, PermissionDeniedError, SandboxConflictError
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.primitives import Operations, allow
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.testing.base import Conformance, fill, snapshot
from sandbox_kit.types import Identity

__all__ = ["ReplacingConformance"]

WRITE: Operations = ("write",)
ASKING = PermissionRuleset("allow", rules=[PermissionRule("./d/**", "ask")])


def put(backend: Backend, path: str) -> None:
    """Give *path* to another file, as somebody else would."""
    backend.write("another", "another's")
    if backend.exists(path):
        backend.remove(path)
    backend.move("another", path)


def write_late(files: Backend, backend: Backend, path: str, expect: Identity | None = None) -> None:
    """Write to *path*, which another file gets before that is complete."""
    with files._open_write(path, operations=WRITE, authorize=allow, expect=expect) as out:
        out.write(b"last")
        put(backend, path)


class ReplacingConformance(Conformance):
    """An approval, and what a call has seen, are good for one object by its name and for no other."""

    @pytest.mark.parametrize("existing", [True, False])
    def test_a_file_that_comes_while_another_is_written_is_a_conflict(self, backend: Backend, existing: bool) -> None:
        fill(backend, {"f": "first"} if existing else {})
        (expect,) = backend._resolve(("f",), operations=WRITE, authorize=allow)
        with pytest.raises(SandboxConflictError):
            write_late(backend, backend, "f", expect)
        assert {name: content for name, (_, content) in snapshot(backend).items()} == {"f": b"another's"}

    @pytest.mark.parametrize("existing", [True, False])
    def test_an_approved_write_replaces_nothing_else(self, backend: Backend, existing: bool) -> None:
        fill(backend, {"d/f": "first", "d/g": ""} if existing else {"d/g": ""})
        guard = GuardedBackend(backend, ASKING, ask=lambda *question: True)
        with pytest.raises(SandboxConflictError):
            write_late(guard, backend, "d/f")
        assert backend.read("d/f") == "another's"
        guard.write("d/f", "approved anew")
        assert backend.read("d/f") == "approved anew"

    def test_a_write_that_nobody_had_to_approve_is_the_last(self, backend: Backend) -> None:
        guard = GuardedBackend(backend, PermissionRuleset("allow"))
        for files in (backend, guard):
            write_late(files, backend, "f")
            assert backend.read("f") == "last"
            backend.remove("f")

    @pytest.mark.parametrize("act", ["remove", "move"])
    @pytest.mark.parametrize("path", ["d/f", "d/e/g"])
    def test_another_entry_of_an_approved_tree_is_asked_for_anew(self, backend: Backend, act: str, path: str) -> None:
        fill(backend, {"d/f": "x", "d/e/g": "x", "d/h": "x"})
        questions: list[str] = []

        def ask(operation: str, target: str, reason: str) -> bool:
            questions.append(target)
            if len(questions) == 1:
                put(backend, path)
            return len(questions) == 1

        guard = GuardedBackend(backend, ASKING, ask=ask)
        with pytest.raises(PermissionDeniedError):
            guard.remove("d", recursive=True) if act == "remove" else guard.move("d", "moved")
        assert len(questions) == 2
        assert backend.read(path) == "another's"
        assert sorted(match.path for match in backend.grep("^x$")) == sorted({"d/f", "d/e/g", "d/h"} - {path})

    @pytest.mark.parametrize("act", ["remove", "move"])
    def test_a_whole_tree_is_one_question(self, backend: Backend, act: str) -> None:
        fill(backend, {"d/f": "x", "d/e/g": "x", "d/h": "x"})
        questions: list[str] = []

        def ask(operation: str, target: str, reason: str) -> bool:
            questions.append(target)
            return True

        inner = GuardedBackend(backend, ASKING, ask=lambda *question: True)
        guard = GuardedBackend(inner, ASKING, ask=ask)
        guard.remove("d", recursive=True) if act == "remove" else guard.move("d", "moved")
        assert len(questions) == 1
        assert backend.exists("d") is False

    @pytest.mark.parametrize("swapped", ["a", "c"])
    def test_an_upload_that_fails_removes_what_it_made_and_nothing_else(
        self, backend: Backend, host: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
    ) -> None:
        for name in ("a", "b/x", "c/x", "d"):
            (host / name).parent.mkdir(exist_ok=True)
            (host / name).write_text(name)
        opened = Path.open

        def fail_at_the_end(path: Path, *arguments: Any, **options: Any) -> Any:
            if path == host / "c/x":
                self.swap(backend, f"up/{swapped}")
                raise OSError(5, "the disk broke", str(path))
            return opened(path, *arguments, **options)

        monkeypatch.setattr(Path, "open", fail_at_the_end)
        with pytest.raises((PathError, SandboxConflictError)):
            backend.upload(host, "up")
        assert set(snapshot(backend)) == {"up", f"up/{swapped}"}

    def swap(self, backend: Backend, path: str) -> None:
        """Put another entry of the same kind in the place of *path*."""
        if not backend.stat(path).is_dir:
            put(backend, path)
            return
        backend.mkdir("another")
        backend.remove(path)
        backend.move("another", path)
