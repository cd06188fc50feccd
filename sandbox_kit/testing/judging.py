"""The questions that primitives ask before they act, for whoever enforces rules."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.primitives import Authorize, Operations, Query
from sandbox_kit.search.dialect import parse
from sandbox_kit.testing.base import Conformance, Recorder, fill, paths, snapshot
from sandbox_kit.types import FileInfo, Identity, Operation

__all__ = ["JudgingConformance"]

Call = Callable[[Backend, Authorize, str], object]
WRITE: Operations = ("write",)


def read(backend: Backend, authorize: Authorize, path: str) -> bytes:
    with backend._open_read(path, operations=("read",), authorize=authorize) as stream:
        return stream.read()


def write(backend: Backend, authorize: Authorize, path: str) -> None:
    with backend._open_write(path, operations=WRITE, authorize=authorize) as out:
        out.write(b"changed")


def search(backend: Backend, authorize: Authorize, path: str) -> list[object]:
    query = Query(parse("x"))
    with backend._search(query, path, operations=("grep", "read"), authorize=authorize) as matches:
        return list(matches)


def walk(backend: Backend, authorize: Authorize, path: str) -> list[object]:
    return list(backend._scandir(path, operations=("ls",), authorize=authorize, depth=None))


LOOKING: dict[str, Call] = {
    "resolve": lambda backend, authorize, path: backend._resolve((path,), operations=("read",), authorize=authorize),
    "stat": lambda backend, authorize, path: backend._stat(path, operations=("ls",), authorize=authorize),
    "scandir": walk,
    "readlink": lambda backend, authorize, path: backend._readlink(path, operations=("read",), authorize=authorize),
    "open_read": read,
    "search": search,
}
CHANGING: dict[str, Call] = {
    "open_write": write,
    "mkdir": lambda backend, authorize, path: backend._mkdir(path, operations=WRITE, authorize=authorize),
    "symlink": lambda backend, authorize, path: backend._symlink("d", path, operations=WRITE, authorize=authorize),
    "remove": lambda backend, authorize, path: backend._remove(
        path, operations=WRITE, authorize=authorize, recursive=True
    ),
    "rename": lambda backend, authorize, path: backend._rename(
        path, "moved", operations=("read", "write"), authorize=authorize
    ),
}
CHANGES: dict[str, tuple[str, str]] = {
    "a new file": ("open_write", "new/deep/file"),
    "an old file": ("open_write", "d/f"),
    "directories": ("mkdir", "new/deep"),
    "a file removed": ("remove", "h"),
    "a tree removed": ("remove", "d"),
    "a file moved": ("rename", "h"),
    "a tree moved": ("rename", "d"),
}


class JudgingConformance(Conformance):
    """Every name is asked for before anything leaves or changes."""

    @pytest.fixture
    def tree(self, backend: Backend) -> Backend:
        fill(backend, {"d/f": "x", "d/e/g": "x", "d/.env": "x", "h": "x"})
        return backend

    @pytest.mark.parametrize("name", [*LOOKING, *CHANGING])
    def test_a_refusal_comes_before_any_look(self, tree: Backend, name: str) -> None:
        before = snapshot(tree)
        for path in ("missing/x", "h/x", "h", "d"):
            with pytest.raises(PermissionDeniedError):
                {**LOOKING, **CHANGING}[name](tree, Recorder(refuse=path.rpartition("/")[2]), path)
        assert snapshot(tree) == before

    @pytest.mark.parametrize(("source", "target"), [("x", "h/y"), ("h/x", "y"), ("missing/x", "missing/y"), ("x", "h")])
    def test_both_names_of_a_move_are_asked_for_before_any_look(self, tree: Backend, source: str, target: str) -> None:
        for name in (source, target):
            with pytest.raises(PermissionDeniedError):
                tree._rename(
                    source, target, operations=("read", "write"), authorize=Recorder(refuse=name.rpartition("/")[2])
                )

    @pytest.mark.parametrize("name", ["resolve", "stat", "open_read", "open_write", "remove"])
    def test_the_first_question_is_the_name_as_typed(self, tree: Backend, name: str) -> None:
        recorder = Recorder()
        {**LOOKING, **CHANGING}[name](tree, recorder, "d/../h")
        first, last = recorder.questions[0], recorder.questions[-1]
        assert (first.names, first.identity, first.found) == ((self.absolute(tree, "h"),), None, False)
        assert last.names[0] == self.absolute(tree, "h")

    @pytest.mark.parametrize("change", CHANGES)
    def test_the_last_question_about_the_target_alone_has_its_identity(self, tree: Backend, change: str) -> None:
        name, path = CHANGES[change]
        recorder = Recorder()
        CHANGING[name](tree, recorder, path)
        *others, last = recorder.questions
        earlier = [question for question in others if question.names[0] == self.absolute(tree, path)]
        assert earlier
        assert [question for question in earlier if question.identity is not None] == []
        assert isinstance(last.identity, Identity)
        assert last.identity.name in last.names

    @pytest.mark.parametrize("name", ["remove", "rename"])
    def test_each_entry_of_a_tree_is_asked_for_with_its_identity(self, tree: Backend, name: str) -> None:
        beneath = ("d/f", "d/e", "d/e/g", "d/.env")
        identities = tree._resolve(beneath, operations=("read",), authorize=Recorder(), follow=False)
        recorder = Recorder()
        CHANGING[name](tree, recorder, "d")
        told = {(question.names[0], question.identity) for question in recorder.questions[:-1] if question.identity}
        tops = ("d",) if name == "remove" else ("d", "moved")
        expected = {
            (self.absolute(tree, top + path.removeprefix("d")), identity)
            for top in tops
            for path, identity in zip(beneath, identities, strict=True)
        }
        assert told == expected

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_refusal_at_any_question_changes_nothing(self, tree: Backend, change: str) -> None:
        name, path = CHANGES[change]
        before = snapshot(tree)
        asked = 0
        while self.refused(tree, CHANGING[name], path, asked):
            assert snapshot(tree) == before
            asked += 1
        assert asked >= 2
        assert snapshot(tree) != before

    def refused(self, backend: Backend, call: Call, path: str, at: int) -> bool:
        """Make *call*, with the question number *at* refused; return whether it was asked."""
        try:
            call(backend, Recorder(refuse_at=at), path)
        except PermissionDeniedError:
            return True
        return False

    @pytest.mark.parametrize(("name", "path"), [("stat", "h"), ("open_read", "h"), ("scandir", "d")])
    def test_a_refusal_at_any_question_gives_nothing_away(self, tree: Backend, name: str, path: str) -> None:
        recorder = Recorder()
        LOOKING[name](tree, recorder, path)
        named = sum(not question.found for question in recorder.questions)
        assert named >= 2
        for at in range(named):
            assert self.refused(tree, LOOKING[name], path, at)

    def test_each_operation_is_asked_for_first_and_last(self, tree: Backend) -> None:
        recorder = Recorder()
        with tree._open_write("h", operations=("edit", "write"), authorize=recorder) as out:
            out.write(b"y")
        operations = [question.operation for question in recorder.questions]
        assert operations[:2] == operations[-2:] == ["edit", "write"]

    @pytest.mark.parametrize(
        ("name", "path", "expected"),
        [
            ("open_write", "new/deep/file", {"new", "new/deep", "new/deep/file"}),
            ("mkdir", "new/deep", {"new", "new/deep"}),
            ("remove", "d", {"d", "d/f", "d/e", "d/e/g", "d/.env"}),
        ],
    )
    def test_every_name_that_changes_is_asked_for(
        self, tree: Backend, name: str, path: str, expected: set[str]
    ) -> None:
        recorder = Recorder()
        CHANGING[name](tree, recorder, path)
        assert self.asked(recorder, "write") == {self.absolute(tree, path) for path in expected}

    def test_a_move_asks_for_old_and_new_names(self, tree: Backend) -> None:
        recorder = Recorder()
        tree._rename("d", "moved", operations=("read", "write"), authorize=recorder)
        old = {self.absolute(tree, path) for path in ("d", "d/f", "d/e", "d/e/g", "d/.env")}
        new = {self.absolute(tree, path) for path in ("moved", "moved/f", "moved/e", "moved/e/g", "moved/.env")}
        assert self.asked(recorder, "read") == old
        assert self.asked(recorder, "write") == old | new

    def test_parents_to_be_made_are_resolved_too(self, tree: Backend) -> None:
        recorder = Recorder()
        tree._resolve(("d/f", "new/file"), operations=WRITE, authorize=recorder)
        expected = {self.absolute(tree, path) for path in ("d/f", "new", "new/file")}
        assert self.asked(recorder, "write") == expected
        assert not tree.exists("new")

    def test_resolving_tells_names_and_objects(self, tree: Backend) -> None:
        there, gone = tree._resolve(("d/e/../f", "new/x"), operations=("read",), authorize=Recorder())
        assert there.name.endswith("/d/f")
        assert there.inode
        assert (gone.name.endswith("/new/x"), gone.device, gone.inode) == (True, 0, 0)

    def test_a_walk_leaves_out_what_is_refused_and_goes_on_beneath(self, tree: Backend) -> None:
        recorder = Recorder(hide={"e", ".env"})
        entries = list(tree._scandir("d", operations=("ls",), authorize=recorder, depth=None))
        assert sorted(paths(entry for entry in entries if isinstance(entry, FileInfo))) == ["d/e/g", "d/f"]
        assert entries.count(None) == 2

    def test_a_search_leaves_out_what_is_refused(self, tree: Backend) -> None:
        with tree._search(
            Query(parse("x"), hidden=True), ".", operations=("grep", "read"), authorize=Recorder(hide={"f", ".env"})
        ) as matches:
            assert sorted(match.path for match in matches) == ["d/e/g", "h"]
            assert matches.skipped == ()

    def test_a_walk_is_judged_at_the_call(self, tree: Backend) -> None:
        with pytest.raises(PermissionDeniedError):
            tree._scandir("d", operations=("ls",), authorize=Recorder(refuse_at=0))
        with pytest.raises(PermissionDeniedError):
            tree._search(Query(parse("x")), "d", operations=("grep",), authorize=Recorder(refuse_at=0))
        with pytest.raises(PermissionDeniedError):
            tree._open_write("d/f", operations=WRITE, authorize=Recorder(refuse_at=0))

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_question_may_use_the_backend(self, tree: Backend, change: str) -> None:
        name, path = CHANGES[change]
        seen: list[bool] = []

        def look(
            operation: Operation,
            names: tuple[str, ...],
            *,
            identity: Identity | None = None,
            found: bool = False,
            hop: bool = False,
        ) -> bool:
            other = threading.Thread(target=lambda: seen.append(tree.exists(".")), daemon=True)
            other.start()
            other.join(self.hang_guard)
            return True

        CHANGING[name](tree, look, path)
        assert seen
        assert all(seen)

    def absolute(self, backend: Backend, path: str) -> str:
        return f"{backend.work_dir.rstrip('/')}/{path}"

    def asked(self, recorder: Recorder, operation: str) -> set[str]:
        """Return each name as typed that *operation* was asked for."""
        return {question.names[0] for question in recorder.questions if question.operation == operation}
