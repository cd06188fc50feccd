"""Files in memory: construction, the document, folding of case, and changes between question and act."""

from __future__ import annotations

import copy
import json
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.state import StateBackend
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
)
from sandbox_kit.primitives import Authorize, allow
from sandbox_kit.types import Identity, Operation, Skipped

PNG = b"\x89PNG\r\n\x1a\n\0\xff"


def at_the_last_question(change: Callable[[], object]) -> Authorize:
    """Return an authorize that makes *change* once all names are known."""

    def authorize(
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        if identity is not None:
            change()
        return True

    return authorize


class TestConstruction:
    def test_files_are_given_by_path(self) -> None:
        state = StateBackend({"a/b.txt": "text", "/abs/c": PNG, "./d//e/": "x"}, work_dir="/w")
        assert [entry.path for entry in state.glob("**")] == ["a", "a/b.txt", "d", "d/e"]
        assert state.read_bytes("/abs/c") == PNG
        assert [entry.path for entry in state.ls("/")] == [".", "/abs"]

    @pytest.mark.parametrize("files", [["x"], 5, "x", [("a", "b")], []])
    def test_files_that_are_no_mapping_are_refused(self, files: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^files: "):
            StateBackend(files)

    @pytest.mark.parametrize("value", [None, 5, b"a"])
    def test_patterns_and_paths_of_another_type_are_refused(self, value: Any) -> None:
        state = StateBackend({"f": "x"})
        calls: list[Callable[[], object]] = [
            lambda: state.grep(value),
            lambda: state.glob(value),
            lambda: state.grep("x", glob=value or 4),
            lambda: state.glob("*", value),
            lambda: state.grep("x", value),
            lambda: state.read(value),
        ]
        for call in calls:
            with pytest.raises(InvalidArgumentError):
                call()

    def test_an_empty_path_is_seen_in_the_message(self) -> None:
        with pytest.raises(PathIsDirectoryError, match=r"^'': is a directory$"):
            StateBackend().read("")

    @pytest.mark.parametrize("work_dir", ["/", "/w", "/w/", "/a/../w", "//w/."])
    def test_the_work_directory_is_made_and_normalised(self, work_dir: str) -> None:
        state = StateBackend({"f": "x"}, work_dir=work_dir)
        assert state.work_dir == ("/" if work_dir == "/" else "/w")
        assert state.read(f"{state.work_dir}/f") == "x"

    @pytest.mark.parametrize("work_dir", ["", ".", "w", "w/x", "/a\0b", 1, None])
    def test_a_bad_work_directory_is_refused(self, work_dir: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            StateBackend(work_dir=work_dir)

    @pytest.mark.parametrize("files", [{"a\0": "x"}, {1: "x"}, {"a": 1}, {"a": None}, {"a": "\ud800"}])
    def test_bad_files_are_refused(self, files: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            StateBackend(files)

    @pytest.mark.parametrize(
        ("files", "error"),
        [
            ({"a": "", "a/b": ""}, PathNotDirectoryError),
            ({"a/b": "", "a": ""}, PathIsDirectoryError),
            ({"": ""}, PathIsDirectoryError),
            ({"x" * 256: ""}, PathError),
        ],
    )
    def test_files_that_cannot_be_together_are_refused(self, files: dict[str, str], error: type[PathError]) -> None:
        with pytest.raises(error):
            StateBackend(files)

    @pytest.mark.parametrize("limit", [0, -1, "many", None, 1.5])
    def test_a_bad_read_limit_is_refused(self, limit: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            StateBackend(max_read_bytes=limit)

    def test_a_read_limit_may_have_a_unit(self) -> None:
        assert StateBackend(max_read_bytes="2k").max_read_bytes == 2048

    def test_no_two_share_an_id(self) -> None:
        assert len({StateBackend().id for _ in range(100)}) == 100

    def test_two_dots_stop_at_the_root(self) -> None:
        state = StateBackend({"f": "x"}, work_dir="/w")
        assert state.read("../../../w/f") == "x"
        state.write("../../g", "y")
        assert state.read("/g") == "y"

    def test_what_the_work_directory_lies_in_stays(self) -> None:
        state = StateBackend({"f": "x"}, work_dir="/a/b")
        for path in ("/", "/a", "/a/b", ".", "..", "../.."):
            with pytest.raises(InvalidArgumentError):
                state.remove(path, recursive=True)
            with pytest.raises(InvalidArgumentError):
                state.move(path, "/c")
        state.write("/a/sibling", "x")
        state.remove("/a/sibling")
        assert state.read("f") == "x"

    def test_a_path_has_at_most_4095_bytes(self) -> None:
        state = StateBackend()
        deep = "/".join(["x" * 254] * 16)
        state.write(deep, "deep")
        assert state.read(deep) == "deep"
        with pytest.raises(PathError, match="too long"):
            state.exists("y" + deep + "/" + "x" * 14)
        state.remove("x" * 254, recursive=True)

    def test_a_tree_may_be_deep(self) -> None:
        state = StateBackend({"/".join(["d"] * 1500): "deep"})
        assert len(state.glob("**")) == 1500
        assert StateBackend.from_dict(state.to_dict()).to_dict() == state.to_dict()


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
undecodable = st.binary(min_size=1, max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
components = (names | undecodable.filter(lambda name: "/" not in name and "\0" not in name)).filter(
    lambda name: name not in {".", ".."}
)


class TestDocument:
    @given(st.dictionaries(st.lists(components, min_size=1, max_size=3).map("/".join), st.binary(max_size=30)))
    def test_a_round_trip_through_json_is_exact(self, files: dict[str, bytes]) -> None:
        state = StateBackend(work_dir="/w")
        for path, data in files.items():
            try:
                state.write(path, data)
            except (PathNotDirectoryError, PathIsDirectoryError):
                continue
        document = state.to_dict()
        text = json.dumps(document, ensure_ascii=False).encode("utf-8")
        again = StateBackend.from_dict(json.loads(text))
        assert again.to_dict() == document
        assert [(info, info.is_dir or again.read_bytes(info.path)) for info in again.glob("**")] == [
            (info, info.is_dir or state.read_bytes(info.path)) for info in state.glob("**")
        ]

    def test_text_is_readable_and_the_rest_base64(self) -> None:
        state = StateBackend({"t": "grüße\r\n", "p": PNG, "z": "a\0b", "caf\udce9": ""})
        content = {str(entry["path"]): entry.get("content") for entry in state.to_dict()["entries"]}
        assert content["/t"] == "grüße\r\n"
        assert content["/p"] == {"base64": "iVBORw0KGgoA/w=="}
        assert content["/z"] == {"base64": "YQBi"}
        assert content["{'base64': 'L2NhZuk='}"] == ""

    def test_directories_modes_and_times_are_kept(self) -> None:
        state = StateBackend(work_dir="/w", case_sensitive=False, max_read_bytes=77)
        state.mkdir("empty/inner")
        with state._open_write("run", operations=("write",), authorize=allow, mode=0o750) as out:
            out.write(b"x")
        again = StateBackend.from_dict(state.to_dict())
        assert again.glob("**") == state.glob("**")
        assert again.stat("run").mode == 0o750
        assert (again.work_dir, again.max_read_bytes, again.capabilities) == ("/w", 77, state.capabilities)

    def test_a_document_may_be_short(self) -> None:
        state = StateBackend.from_dict({"format": "sandbox_kit.state/1", "entries": [{"path": "/a/b", "content": "x"}]})
        assert (state.read("a/b"), state.stat("a/b").mode, state.stat("a").mode) == ("x", 0o644, 0o755)

    def test_the_copy_is_another_one(self) -> None:
        state = StateBackend({"f": "old"})
        for again in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state), copy.copy(state)):
            assert again.to_dict() == state.to_dict()
            assert again.id != state.id
            again.write("f", "new")
            assert state.read("f") == "old"

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"more": 1}, "the document: has an unknown key 'more'"),
            ({"format": "sandbox_kit.state/2"}, "format: is 'sandbox_kit.state/1'"),
            ({"work_dir": "w"}, "work_dir: 'w' is not absolute"),
            ({"work_dir": "/w/../x"}, "work_dir: "),
            ({"work_dir": 1}, "work_dir: is a text"),
            ({"case_sensitive": 1}, "case_sensitive: is true or false"),
            ({"max_read_bytes": 0}, "max_read_bytes: is a positive integer"),
            ({"max_read_bytes": True}, "max_read_bytes: "),
            ({"entries": {}}, "entries: is a list"),
            ({"entries": ["x"]}, "entries[0]: is an object, not str"),
            ({"entries": [{}]}, "entries[0]: needs a key 'path'"),
            ({"entries": [{"path": "/a"}, {"path": "/a", "x": 1}]}, "entries[1]: has an unknown key 'x'"),
            ({"entries": [{"path": "a"}]}, "entries[0].path: 'a' is not absolute"),
            ({"entries": [{"path": "/a/"}]}, "entries[0].path: "),
            ({"entries": [{"path": "/a\0"}]}, "entries[0].path: "),
            ({"entries": [{"path": "/\ud800"}]}, "entries[0].path: UTF-8 cannot hold"),
            ({"entries": [{"path": "/" + "x" * 256}]}, "entries[0].path: file name too long"),
            ({"entries": [{"path": {"base64": "?"}}]}, "entries[0].path: is no base64"),
            ({"entries": [{"path": {"base64": "é"}}]}, "entries[0].path: is no base64"),
            ({"entries": [{"path": {"base64": 1}}]}, "entries[0].path: is a text or"),
            ({"entries": [{"path": {"base64": "L2E=", "x": 1}}]}, "entries[0].path: is a text or"),
            ({"entries": [{"path": "/a", "content": 1}]}, "entries[0].content: is a text or"),
            ({"entries": [{"path": "/a", "mode": "644"}]}, "entries[0].mode: is permission bits"),
            ({"entries": [{"path": "/a", "mode": 0o10000}]}, "entries[0].mode: "),
            ({"entries": [{"path": "/a", "mode": True}]}, "entries[0].mode: "),
            ({"entries": [{"path": "/a", "mtime": "now"}]}, "entries[0].mtime: is a finite number"),
            ({"entries": [{"path": "/a", "mtime": math.nan}]}, "entries[0].mtime: "),
            ({"entries": [{"path": "/a", "mtime": True}]}, "entries[0].mtime: "),
            ({"entries": [{"path": "/a", "mtime": 10**400}]}, "entries[0].mtime: is a finite number"),
            ({"entries": [{"path": "/a", "mtime": -(10**5000)}]}, "entries[0].mtime: is a finite number"),
            ({"entries": [{"path": "/a", "mode": 10**5000}]}, "entries[0].mode: is permission bits"),
            ({"max_read_bytes": -(10**5000)}, "max_read_bytes: is a positive integer"),
            ({"case_sensitive": 10**5000}, "case_sensitive: is true or false"),
            ({"entries": [{"path": "/a"}, {"path": "/a"}]}, "entries[1].path: stands twice"),
            ({"entries": [{"path": "/a", "content": ""}, {"path": "/a"}]}, "entries[1].path: stands twice"),
            ({"entries": [{"path": "/a"}, {"path": "/a", "content": ""}]}, "entries[1].path: stands twice"),
            ({"entries": [{"path": "/a", "content": ""}, {"path": "/a/b"}]}, "entries[1].path: not a directory"),
        ],
    )
    def test_a_document_of_another_form_is_refused(self, change: dict[str, Any], problem: str) -> None:
        document = {"format": "sandbox_kit.state/1", "entries": [], **change}
        with pytest.raises(InvalidArgumentError) as caught:
            StateBackend.from_dict(document)
        assert str(caught.value).startswith(problem)

    @pytest.mark.parametrize("document", [None, [], "x", {}, {"entries": []}, {"format": "sandbox_kit.state/1"}])
    def test_what_is_no_document_is_refused(self, document: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="the document"):
            StateBackend.from_dict(document)

    def test_names_that_fold_to_one_stand_twice(self) -> None:
        entries = [{"path": "/a", "content": ""}, {"path": "/A", "content": ""}]
        document = {"format": "sandbox_kit.state/1", "entries": entries}
        assert len(StateBackend.from_dict(document).ls()) == 2
        with pytest.raises(InvalidArgumentError, match="stands twice"):
            StateBackend.from_dict({**document, "case_sensitive": False})

    def test_a_subclass_stays_one(self) -> None:
        class Mine(StateBackend):
            pass

        assert type(Mine.from_dict(StateBackend().to_dict())) is Mine


class TestFoldedCase:
    @pytest.fixture
    def state(self) -> StateBackend:
        return StateBackend({"Docs/Readme": "x"}, work_dir="/Home", case_sensitive=False)

    def test_a_name_keeps_its_spelling(self, state: StateBackend) -> None:
        state.write("DOCS/README", "y")
        assert [entry.path for entry in state.ls("docs")] == ["docs/Readme"]
        assert state.read("Docs/Readme") == "y"

    def test_authorize_hears_both_spellings(self, state: StateBackend) -> None:
        heard: list[tuple[str, ...]] = []

        def authorize(operation: Operation, names: tuple[str, ...], **rest: Any) -> bool:
            heard.append(names)
            return True

        with state._open_read("docs/README", operations=("read",), authorize=authorize) as stream:
            stream.read()
        list(state._scandir("docs", operations=("ls",), authorize=authorize))
        assert heard == [
            ("/Home/docs/README",),
            ("/Home/docs/README", "/Home/Docs/Readme"),
            ("/Home/docs",),
            ("/Home/docs", "/Home/Docs"),
            ("/Home/docs/Readme", "/Home/Docs/Readme"),
        ]

    def test_another_spelling_is_a_new_name(self, state: StateBackend) -> None:
        state.move("Docs/Readme", "Docs/README")
        assert [entry.name for entry in state.ls("Docs")] == ["README"]
        state.move("Docs", "docs")
        assert [entry.name for entry in state.ls()] == ["docs"]
        for target in ("docs", "Docs/README"):
            state.write("other", "")
            with pytest.raises(PathExistsError):
                state.move("other", target)
        with pytest.raises(PathExistsError):
            state.move("docs", "docs")
        with pytest.raises(InvalidArgumentError):
            state.move("docs", "DOCS/x")

    def test_the_work_directory_is_kept_in_any_spelling(self, state: StateBackend) -> None:
        with pytest.raises(InvalidArgumentError):
            state.remove("/home", recursive=True)
        with pytest.raises(InvalidArgumentError):
            state.move("/home", "/HOME")

    def test_a_rules_prefix_has_a_real_name(self, state: StateBackend) -> None:
        assert state._resolve_prefixes(["/home/DOCS"]) == ("/Home/Docs",)
        assert state._resolve_prefixes(["/home/missing"]) == ("/home/missing",)
        assert state._resolve_prefixes(["/home/docs/readme/x"]) == ("/home/docs/readme/x",)
        assert state._as_given() == "/Home"


class TestChangesBetweenQuestionAndAct:
    @pytest.fixture
    def state(self) -> StateBackend:
        return StateBackend({"d/f": "x", "d/e/g": "y", "h": "z"})

    def test_a_parent_that_goes_is_not_made_again(self, state: StateBackend) -> None:
        gone = at_the_last_question(lambda: state.remove("d", recursive=True))
        with (
            pytest.raises(PathNotFoundError),
            state._open_write("d/new", operations=("write",), authorize=gone) as out,
        ):
            out.write(b"x")
        assert not state.exists("d")

    def test_a_directory_that_comes_is_no_file(self, state: StateBackend) -> None:
        come = at_the_last_question(lambda: state.mkdir("new"))
        with pytest.raises(PathIsDirectoryError), state._open_write("new", operations=("write",), authorize=come):
            pass
        with pytest.raises(PathExistsError):
            state._mkdir(
                "x", operations=("write",), authorize=at_the_last_question(lambda: state.write("x", "not a directory"))
            )

    def test_a_file_that_goes_is_written_again(self, state: StateBackend) -> None:
        gone = at_the_last_question(lambda: state.remove("h"))
        with state._open_write("h", operations=("write",), authorize=gone) as out:
            out.write(b"again")
        assert state.read("h") == "again"

    def test_an_entry_that_comes_is_neither_removed_nor_moved(self, state: StateBackend) -> None:
        come = at_the_last_question(lambda: state.write("d/unseen", "kept"))
        with pytest.raises(SandboxConflictError):
            state._remove("d", operations=("write",), authorize=come, recursive=True)
        state.remove("d/unseen")
        with pytest.raises(SandboxConflictError):
            state._rename("d", "moved", operations=("read", "write"), authorize=come)
        assert [entry.path for entry in state.glob("**")] == ["d", "d/e", "d/e/g", "d/f", "d/unseen", "h"]

    def test_what_goes_cannot_be_removed_or_moved(self, state: StateBackend) -> None:
        gone = at_the_last_question(lambda: state.remove("h"))
        with pytest.raises(PathNotFoundError):
            state._remove("h", operations=("write",), authorize=gone, recursive=False)
        state.write("h", "z")
        with pytest.raises(PathNotFoundError):
            state._rename("h", "moved", operations=("read", "write"), authorize=gone)

    def test_a_directory_that_fills_is_not_removed(self, state: StateBackend) -> None:
        state.mkdir("empty")
        fill = at_the_last_question(lambda: state.write("empty/f", "kept"))
        with pytest.raises(PathIsDirectoryError):
            state._remove("empty", operations=("write",), authorize=fill, recursive=False)
        assert state.read("empty/f") == "kept"

    def test_a_name_that_is_taken_is_not_taken_over(self, state: StateBackend) -> None:
        taken = at_the_last_question(lambda: state.write("moved", "kept"))
        with pytest.raises(PathExistsError):
            state._rename("d", "moved", operations=("read", "write"), authorize=taken)
        assert state.read("moved") == "kept"

    def test_a_new_spelling_of_a_judged_name_is_a_conflict(self) -> None:
        state = StateBackend({"Docs/f": "x", "h": "y"}, case_sensitive=False)
        respell = at_the_last_question(lambda: state.move("Docs", "DOCS"))
        with pytest.raises(SandboxConflictError):
            state._remove("docs/f", operations=("write",), authorize=respell, recursive=False)
        state.move("DOCS", "Docs")
        with pytest.raises(SandboxConflictError):
            state._rename("h", "docs/h", operations=("read", "write"), authorize=respell)
        assert state.read("h") == "y"

    def test_what_was_opened_is_read_whole(self, state: StateBackend) -> None:
        gone = at_the_last_question(lambda: state.remove("h"))
        with state._open_read("h", operations=("read",), authorize=gone) as stream:
            assert stream.read() == b"z"
            assert not stream.writable()

    def test_a_directory_that_goes_during_a_walk_is_told(self, state: StateBackend) -> None:
        walk = state._scandir(".", operations=("ls",), authorize=allow, depth=None)
        next(walk)
        state.remove("d", recursive=True)
        assert [entry for entry in walk if isinstance(entry, Skipped)] == [Skipped("d", "changed while it was walked")]

    def test_a_directory_that_a_file_replaces_during_a_walk_is_told(self, state: StateBackend) -> None:
        walk = state._scandir(".", operations=("ls",), authorize=allow, depth=None)
        next(walk)
        state.remove("d", recursive=True)
        state.write("d", "a file")
        assert Skipped("d", "changed while it was walked") in list(walk)

    def test_a_parent_that_a_file_replaces_during_a_walk_is_told(self) -> None:
        state = StateBackend({"a/b/c/d": "x"})
        walk = state._scandir("a", operations=("ls",), authorize=allow, depth=None)
        next(walk)
        state.remove("a", recursive=True)
        state.write("a", "a file")
        assert list(walk) == [Skipped("a/b", "changed while it was walked")]


class TestThreads:
    def test_no_edit_is_lost(self) -> None:
        state = StateBackend({"f": "#"})

        def work(number: int) -> None:
            while True:
                try:
                    state.edit("f", "#", f"{number} #")
                except SandboxConflictError:
                    continue
                return

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(map(int, state.read("f").split()[:-1])) == list(range(20))


def test_a_time_may_be_a_whole_number() -> None:
    document = StateBackend({"a": "x"}).to_dict()
    for entry in document["entries"]:
        entry["mtime"] = 1_700_000_000
    assert StateBackend.from_dict(document).stat("a").mtime == 1_700_000_000.0
