"""Whatever is done to files in memory and to files in a directory, both answer alike."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import SandboxError
from sandbox_kit.primitives import allow
from sandbox_kit.types import FileInfo, Listing

NAMES = ["a", "b", ".c", "d e", "ü"]
MAX_READ = 64

steps = st.sampled_from([*NAMES, ".", ""])
inner = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
respelled = st.builds(
    lambda before, step, after, end: "/".join([before, step, after]) + end,
    inner,
    st.sampled_from([".", "", "a/..", "b/..", "x/.."]),
    inner,
    st.sampled_from(["", "/", "/."]),
)
paths = inner | respelled | steps
contents = st.sampled_from(
    [b"", b"x", b"one\ntwo\nthree\n", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\n", b"\xff\0one\n", b"one" * 30]
)
texts = st.sampled_from(["one", "two", "x", "\r\n", "zz"])
PATTERNS = ["*", "**", "**/*", "a/*", "*/b", "**/.c", "[!a]*", "{a,b}/**", "d e", "a/**/b", "*/"]


def entry(info: FileInfo) -> tuple[object, ...]:
    """Leave out what differs by nature: the time."""
    return (info.name, info.path, info.is_dir, info.size, info.mode, info.is_symlink)


def plain(result: object) -> object:
    """Return what can be compared of a result."""
    if isinstance(result, FileInfo):
        return entry(result)
    if isinstance(result, Listing):
        return [entry(info) for info in result], result.skipped
    return result


class Agreement(RuleBasedStateMachine):
    """The same calls on both, one after the other."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp()).resolve()
        self.root.chmod(0o755)
        self.local = LocalBackend(self.root, max_read_bytes=MAX_READ)
        self.state = StateBackend(work_dir=str(self.root), max_read_bytes=MAX_READ)

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def both(self, call: Callable[[Backend], object]) -> None:
        assert self.answer(self.state, call) == self.answer(self.local, call)

    def answer(self, backend: Backend, call: Callable[[Backend], object]) -> object:
        """Return the result of *call*, or the class of its error and what it tells."""
        try:
            return plain(call(backend))
        except SandboxError as error:
            told = {name: value for name, value in vars(error).items() if name in {"path", "count", "limit"}}
            return type(error), told

    @rule(path=paths, data=contents)
    def write(self, path: str, data: bytes) -> None:
        self.both(lambda backend: backend.write(path, data))

    @rule(path=paths, old=texts, new=texts, replace_all=st.booleans())
    def edit(self, path: str, old: str, new: str, replace_all: bool) -> None:
        self.both(lambda backend: backend.edit(path, old, new, replace_all=replace_all))

    @rule(path=paths, offset=st.integers(0, 3), limit=st.none() | st.integers(0, 2))
    def read(self, path: str, offset: int, limit: int | None) -> None:
        self.both(lambda backend: backend.read(path, offset=offset, limit=limit))

    @rule(path=paths)
    def read_bytes(self, path: str) -> None:
        self.both(lambda backend: backend.read_bytes(path))

    @rule(path=paths)
    def look(self, path: str) -> None:
        self.both(lambda backend: backend.stat(path))
        self.both(lambda backend: backend.exists(path))
        self.both(lambda backend: backend.ls(path))

    @rule(path=paths, pattern=st.sampled_from(PATTERNS))
    def glob(self, path: str, pattern: str) -> None:
        self.both(lambda backend: backend.glob(pattern, path))

    @rule(path=paths, pattern=st.sampled_from(["one", "^two$", ".", "(?i)ONE"]), hidden=st.booleans())
    def grep(self, path: str, pattern: str, hidden: bool) -> None:
        self.both(
            lambda backend: sorted(
                (match.path, match.line_number, match.line, match.before, match.after, match.binary)
                for match in backend.grep(pattern, path, hidden=hidden, context=1)
            )
        )

    @rule(path=paths)
    def mkdir(self, path: str) -> None:
        self.both(lambda backend: backend.mkdir(path))

    @rule(path=paths, recursive=st.booleans())
    def remove(self, path: str, recursive: bool) -> None:
        self.both(lambda backend: backend.remove(path, recursive=recursive))

    @rule(source=paths, goal=paths)
    def move(self, source: str, goal: str) -> None:
        """Compare the answers where the source can be moved; else it is open which name is to blame."""
        if self.state.exists(source) and self.state.stat(source).path != ".":
            self.both(lambda backend: backend.move(source, goal))
            return
        for backend in (self.state, self.local):
            with pytest.raises(SandboxError):
                backend.move(source, goal)

    @rule(path=paths, mode=st.sampled_from([0o600, 0o755]))
    def chmod(self, path: str, mode: int) -> None:
        """Write with a mode, as an upload does."""

        def upload(backend: Backend) -> None:
            with backend._open_write(path, operations=("write",), authorize=allow, mode=mode) as out:
                out.write(b"#!")

        self.both(upload)

    @rule(path=paths)
    def resolve(self, path: str) -> None:
        def resolve(backend: Backend) -> object:
            (identity,) = backend._resolve((path,), operations=("write",), authorize=allow)
            return identity.name, identity.inode != 0

        self.both(resolve)

    @rule(path=paths)
    def export(self, path: str) -> None:
        def length(backend: Backend) -> int:
            with backend.export(path) as stream:
                return len(stream.read())

        self.both(length)

    @invariant()
    def the_trees_are_the_same(self) -> None:
        if hasattr(self, "root"):
            self.both(lambda backend: backend.glob("**"))


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_state_and_local_answer_alike() -> None:
    run_state_machine_as_test(Agreement, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))
