"""A map does the same in every way that needs no other library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import SandboxSpec

from .remains import workspaces_in
from .works import echo, fail_at_three, names, raise_unpicklable

LOCAL = SandboxSpec("local")

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all sandboxes of these tests have their workspaces; it fails if one is left."""
    with workspaces_in(tmp_path_factory.mktemp("tmp")) as place:
        yield place
    assert list(place.glob("sandbox-kit-*")) == []


@pytest.fixture(scope="module", params=["here", "own threads", "threads", "fork", "spawn"])
def executor(request: pytest.FixtureRequest, place: Path) -> Iterator[dict[str, Any]]:
    """What to pass on to have a map done in one of the ways."""
    if request.param == "here":
        yield {}
    elif request.param == "own threads":
        yield {"sandboxes": 2}
    else:
        threads = ThreadPoolExecutor(2) if request.param == "threads" else None
        with threads or ProcessPoolExecutor(2, mp_context=get_context(request.param)) as pool:
            yield {"executor": pool, "sandboxes": 2}


def values(results: list[Any]) -> list[Any]:
    return [result.check().value for result in results]


def test_results_are_in_the_order_of_the_items(executor: dict[str, Any]) -> None:
    results = LOCAL.map(echo, range(5), **executor)
    assert [result.index for result in results] == list(range(5))
    assert values(results) == list("01234")


def test_a_command_is_filled_in_for_each_item(executor: dict[str, Any]) -> None:
    items = [{"name": "a b", "n": 1}, {"name": "it's", "n": 2}]
    results = LOCAL.map("printf %s {name} >{n}; cat *", items, artifacts="*", **executor)
    assert [result.value.stdout for result in results] == ["a b", "it's"]
    assert [result.artifacts for result in results] == [{"1": b"a b"}, {"2": b"it's"}]


def test_each_item_finds_an_empty_workspace(executor: dict[str, Any]) -> None:
    assert values(LOCAL.map(names, range(4), **executor)) == [[], [], [], []]


def test_an_error_is_that_of_its_item(executor: dict[str, Any]) -> None:
    results = LOCAL.map(fail_at_three, range(5), **executor)
    assert [result.value for result in results] == [0, 1, 2, None, 4]
    assert isinstance(results[3].error, LookupError)
    assert "in fail_at_three" in results[3].traceback


def test_an_error_that_does_not_pickle_comes_as_text(executor: dict[str, Any]) -> None:
    (result,) = LOCAL.map(raise_unpicklable, ["x"], **executor)
    assert str(result.error) == "Unpicklable: with a lock"


@pytest.mark.parametrize("executor", ["fork", "spawn"], indirect=True)
def test_an_item_that_cannot_be_passed_on_is_an_error_of_its_own(executor: dict[str, Any]) -> None:
    results = LOCAL.map(echo, ["a", threading.Lock(), "b"], **executor)
    assert [result.value for result in results] == ["a", None, "b"]
    assert isinstance(results[1].error, TypeError)


def test_a_time_limit_holds_for_each(executor: dict[str, Any]) -> None:
    results = LOCAL.map("sleep {item}", [1000, 2000], timeout=0.2, **executor)
    assert [isinstance(result.error, TimeoutError) for result in results] == [True, True]


def test_progress_is_told_in_the_calling_thread(executor: dict[str, Any]) -> None:
    told: list[tuple[int, int | None]] = []
    threads: set[int] = set()

    def progress(done: int, total: int | None) -> None:
        told.append((done, total))
        threads.add(threading.get_ident())

    LOCAL.map("true", [1, 2, 3], progress=progress, **executor)
    LOCAL.map("true", iter([1]), progress=progress, **executor)
    assert told == [(1, 3), (2, 3), (3, 3), (1, None)]
    assert threads == {threading.get_ident()}


def test_no_items_have_no_results(executor: dict[str, Any]) -> None:
    assert LOCAL.map("true", [], **executor) == []


def test_what_progress_raises_ends_the_map(executor: dict[str, Any]) -> None:
    def progress(done: int, total: int | None) -> None:
        raise LookupError("enough")

    def take(item: int) -> int:
        taken.append(item)
        return item

    taken: list[int] = []
    with pytest.raises(LookupError, match="enough"):
        LOCAL.map("true", map(take, range(1000)), window=4, progress=progress, **executor)
    assert len(taken) <= 5
