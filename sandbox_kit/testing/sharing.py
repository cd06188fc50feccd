"""What callers share: one backend between threads, and records between processes."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import SandboxError
from sandbox_kit.testing.base import Conformance, fill, paths

__all__ = ["SharingConformance"]

THREADS = 6
ROUNDS = 15


def together(task: Callable[[int], None]) -> None:
    """Run *task* in THREADS threads that begin at once; raise what one of them raised."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> None:
        barrier.wait(20)
        task(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(begin, range(THREADS)))


class SharingConformance(Conformance):
    """Threads do not disturb each other; what a call returns travels."""

    def test_each_backend_has_an_id_of_its_own(
        self, backend: Backend, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        another = self.make_backend(tmp_path_factory.mktemp("another"))
        assert isinstance(backend.id, str)
        assert backend.id
        assert another.id not in ("", backend.id)

    def test_threads_use_files_of_their_own(self, backend: Backend) -> None:
        def work(number: int) -> None:
            for turn in range(ROUNDS):
                path = f"shared/{number}/{turn}"
                backend.write(path, f"turn of {number}: {turn}")
                backend.edit(path, "turn of", "end of")
                assert backend.read(path) == f"end of {number}: {turn}"

        together(work)
        assert len(backend.glob("shared/*/*")) == THREADS * ROUNDS

    def test_a_reader_finds_one_content_or_the_other(self, backend: Backend) -> None:
        contents = [bytes([65 + number]) * 70_000 for number in range(THREADS)]
        backend.write("f", contents[0])

        def work(number: int) -> None:
            for _ in range(ROUNDS):
                if number % 2:
                    backend.write("f", contents[number])
                else:
                    assert backend.read_bytes("f") in contents

        together(work)
        assert paths(backend.ls()) == ["f"]

    def test_the_same_directories_are_made_at_once(self, backend: Backend) -> None:
        def work(number: int) -> None:
            for turn in range(ROUNDS):
                backend.mkdir(f"d/{turn}/e")

        together(work)
        assert len(backend.ls("d")) == ROUNDS

    def test_one_of_many_moves_wins(self, backend: Backend) -> None:
        fill(backend, {f"from/{number}": str(number) for number in range(THREADS)})
        refused: list[FileExistsError] = []

        def work(number: int) -> None:
            try:
                backend.move(f"from/{number}", "to")
            except FileExistsError as error:
                refused.append(error)

        together(work)
        assert len(refused) == THREADS - 1
        assert len(backend.ls("from")) == THREADS - 1

    def test_a_walk_outlives_what_others_remove(self, backend: Backend) -> None:
        fill(backend, {f"{name}/f": "needle\n" for name in ("kept", *(f"d{number}" for number in range(10)))})

        def work(number: int) -> None:
            if number == 0:
                for victim in range(10):
                    backend.remove(f"d{victim}", recursive=True)
            else:
                assert "kept/f" in paths(backend.glob("**"))
                assert "kept/f" in {match.path for match in backend.grep("needle")}

        together(work)
        assert paths(backend.ls()) == ["kept"]

    def test_records_travel(self, backend: Backend) -> None:
        backend.write("d/f", "needle\n")
        for record in (
            backend.stat("d/f"),
            backend.ls(),
            backend.glob("**"),
            list(backend.grep("needle")),
            backend.edit("d/f", "needle", "thread"),
            backend.capabilities,
        ):
            assert pickle.loads(pickle.dumps(record)) == record
            assert copy.deepcopy(record) == record

    def test_errors_travel(self, backend: Backend) -> None:
        backend.write("f", "x")
        for call in (
            lambda: backend.read("missing"),
            lambda: backend.read("f/x"),
            lambda: backend.edit("f", "y", "z"),
            lambda: backend.glob("["),
            lambda: backend.grep("("),
            lambda: backend.read("f", offset=-1),
        ):
            with pytest.raises(SandboxError) as caught:
                call()
            again = pickle.loads(pickle.dumps(caught.value))
            assert type(again) is type(caught.value)
            assert vars(again) == vars(caught.value)
