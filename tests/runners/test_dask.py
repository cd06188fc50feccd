"""Jobs in the workers of a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.remains import gone, next_process
from jobs.works import SLEEPS, die_at_one

from sandbox_kit import Job, SandboxSpec

from .agreement import check_map
from .handles import HANDLES, every_handle, use

LOCAL = SandboxSpec("local")


def test_a_map_does_what_it_does_everywhere(dask_client: Any) -> None:
    with dask_client.get_executor() as executor:
        check_map(executor)


def test_a_function_that_only_this_process_has_goes_along(dask_client: Any) -> None:
    offset = 5
    with dask_client.get_executor() as executor:
        results = LOCAL.map(lambda sandbox, item: item + offset, range(3), executor=executor)
    assert [result.check().value for result in results] == [5, 6, 7]


def test_the_same_items_are_done_again_in_another_map(dask_client: Any, tmp_path: Path) -> None:
    with dask_client.get_executor() as executor:
        seconds = [LOCAL.map("echo {item}", ["a", "a"], executor=executor)[0].seconds for _ in range(2)]
    assert len(set(seconds)) == 2


def test_a_client_submits_a_job_as_any_function(dask_client: Any) -> None:
    result = dask_client.submit(Job(LOCAL, "echo {item}"), "a", 3).result(timeout=60)
    assert (result.index, result.check().value.stdout) == (3, "a\n")


def test_a_worker_that_is_killed_has_its_item_done_again_and_leaves_nothing(dask_client: Any, own_tmp: Path) -> None:
    items = [{"number": number, "marker": str(own_tmp / "dask")} for number in range(4)]
    with dask_client.get_executor() as executor:
        results = LOCAL.map(die_at_one, items, executor=executor)
    assert Path(own_tmp, "dask").exists()
    assert [result.check().value for result in results] == [0, 1, 2, 3]
    assert gone(SLEEPS)
    next_process()
    assert list(own_tmp.glob("sandbox-kit-*")) == []


@every_handle
def test_a_handle_works_there(name: str, dask_client: Any, own_tmp: Path) -> None:
    handle, expected = HANDLES[name](own_tmp)
    assert dask_client.submit(use, handle).result(timeout=60) == expected
