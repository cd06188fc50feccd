"""Jobs in the workers of loky and joblib."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import ModuleType

import pytest
from jobs.remains import gone, next_process
from jobs.works import SLEEPS, die_at_one

from sandbox_kit import Job, SandboxPolicy, SandboxSpec, SessionManager

from .agreement import check_map
from .handles import HANDLES, every_handle, use, use_session

LOCAL = SandboxSpec("local")


def test_a_map_does_what_it_does_everywhere(loky_executor: Executor) -> None:
    check_map(loky_executor)


def test_a_function_that_only_this_process_has_goes_along(loky_executor: Executor) -> None:
    offset = 5
    results = LOCAL.map(lambda sandbox, item: item + offset, range(3), executor=loky_executor)
    assert [result.check().value for result in results] == [5, 6, 7]


def test_a_worker_that_is_killed_fails_its_items_and_leaves_nothing(
    library: Callable[[str], ModuleType], own_tmp: Path
) -> None:
    items = [{"number": number, "marker": str(own_tmp / "loky")} for number in range(3)]
    with library("loky").ProcessPoolExecutor(1) as executor:
        results = LOCAL.map(die_at_one, items, executor=executor)
    assert isinstance(results[1].error, BrokenProcessPool)
    assert gone(SLEEPS)
    next_process()
    assert list(own_tmp.glob("sandbox-kit-*")) == []


def test_joblib_calls_a_job_as_any_function(library: Callable[[str], ModuleType], own_tmp: Path) -> None:
    joblib = library("joblib")
    job = Job(LOCAL, "echo {item}")
    results = joblib.Parallel(n_jobs=2)(joblib.delayed(job)(item, index) for index, item in enumerate("abc"))
    assert [(result.index, result.check().value.stdout) for result in results] == [(0, "a\n"), (1, "b\n"), (2, "c\n")]
    library("joblib.externals.loky").get_reusable_executor().shutdown(wait=True)


def test_a_session_is_opened_in_the_worker_by_its_id(loky_executor: Executor, tmp_path: Path) -> None:
    with SessionManager(SandboxPolicy(), workspace_root=tmp_path) as manager, manager.open("shared") as session:
        session.write("file.txt", "x")
        with pytest.raises(Exception, match="pickle") as caught:
            loky_executor.submit(use, session).result(timeout=60)
        assert "open the session by its id" in str(caught.value.__cause__)
        assert loky_executor.submit(use_session, tmp_path, "shared").result(timeout=60) == "x"


@every_handle
def test_a_handle_works_there(name: str, loky_executor: Executor, own_tmp: Path) -> None:
    handle, expected = HANDLES[name](own_tmp)
    assert loky_executor.submit(use, handle).result(timeout=60) == expected
