"""One job for one item: files in, the work, files out, and an end whatever happens."""

from __future__ import annotations

import pickle
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import (
    SECRETS,
    CommandFailedError,
    CommandTimeoutError,
    InvalidArgumentError,
    Job,
    JobError,
    JobResult,
    Sandbox,
    SandboxClosedError,
    SandboxSpec,
    SandboxTimeoutError,
    register_backend,
)
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.jobs.inputs import Content

from .works import HANGS_AFTER, Unpicklable, echo, leave, names, raise_unpicklable

PIXELS = b"\x89PNG\r\n\x1a\n\x00\xff" * 5
LIMITS = (0.3, 3.0, HANGS_AFTER)
LOCAL = SandboxSpec("local")
GUARDED = SandboxSpec("local", {}, SECRETS, "inspected")

pytestmark = pytest.mark.usefixtures("tidy")


class HangsAtStart(LocalSandbox):
    """A sandbox whose start goes on only when it is let."""

    let = threading.Event()
    ended = threading.Event()

    def start(self) -> HangsAtStart:
        self.let.wait(HANGS_AFTER)
        return super().start()

    def stop(self, purge: bool = False) -> None:
        super().stop(purge)
        if self.let.is_set():
            self.ended.set()


register_backend("test-hangs-at-start", f"{__name__}:HangsAtStart")


def test_a_command_has_its_result() -> None:
    result = Job(LOCAL, "cat; echo {item}; exit 3")("a b", 7)
    assert (result.index, result.value.stdout, result.value.exit_code) == (7, "a b\n", 3)
    assert result.error is None
    assert not result.ok
    with pytest.raises(CommandFailedError):
        result.check()


def test_a_function_has_what_it_returns() -> None:
    result = Job(LOCAL, echo)("x")
    assert result.ok
    assert result.check() is result
    assert result.value == "x"
    assert result.seconds > 0


def test_each_call_finds_an_empty_workspace() -> None:
    job = Job(LOCAL, names)
    assert [job(item).value for item in range(3)] == [[], [], []]


def test_a_result_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="use"):
        bool(JobResult(0))


def test_files_go_in(tmp_path: Path) -> None:
    one = tmp_path / "tree" / "below" / "pixels"
    one.parent.mkdir(parents=True)
    one.write_bytes(PIXELS)
    files: dict[str, Content] = {"in/text": "é\n", "in/bytes": PIXELS, "in/one": one, "all": tmp_path / "tree"}
    result = Job(LOCAL, "cat in/text in/bytes in/one all/below/pixels", files=files)("x")
    assert result.value.stdout_bytes == "é\n".encode() + PIXELS * 3


def test_files_may_depend_on_the_item() -> None:
    result = Job(LOCAL, "cat {item}", files=lambda item: {item: f"of {item}"})("a b")
    assert result.value.stdout == "of a b"


def test_a_function_of_files_that_returns_none_is_an_error() -> None:
    result = Job(LOCAL, "true", files=lambda item: None)("x")  # type: ignore[arg-type, return-value]
    assert isinstance(result.error, InvalidArgumentError)


def test_a_value_that_is_too_long_for_a_command_is_an_error_of_its_item() -> None:
    for work in ("echo {item} | wc -c", ["echo", "{item}"]):
        long, short = LOCAL.map(work, ["x" * 200_000, "x"])
        assert isinstance(long.error, InvalidArgumentError)
        assert "use stdin or a file" in str(long.error)
        assert short.ok


def test_an_error_is_the_results_own() -> None:
    def work(sandbox: Sandbox, item: str) -> None:
        raise LookupError(item)

    result = Job(LOCAL, work)("x")
    assert isinstance(result.error, LookupError)
    assert result.error.args == ("x",)
    assert "in work" in result.traceback
    with pytest.raises(LookupError):
        result.check()
    assert isinstance(pickle.loads(pickle.dumps(result)).error, LookupError)


def test_an_error_that_does_not_pickle_has_a_stand_in() -> None:
    result = Job(LOCAL, raise_unpicklable)("x")
    assert isinstance(result.error, JobError)
    assert (result.error.kind, result.error.text) == (Unpicklable.__name__, "with a lock")
    assert "raise_unpicklable" in result.error.traceback == result.traceback
    again = pickle.loads(pickle.dumps(result))
    assert str(again.error) == "Unpicklable: with a lock"


def test_leaving_is_an_error_of_the_item() -> None:
    result = Job(LOCAL, leave)("x")
    assert isinstance(result.error, SystemExit)


@pytest.mark.parametrize("options", [{}, {"sandboxes": 2}, {"timeout": HANGS_AFTER}], ids=["here", "threads", "timed"])
@pytest.mark.parametrize("kind", [GeneratorExit, CancelledError, BaseException])
def test_whatever_work_raises_is_an_error_of_its_item(kind: type[BaseException], options: dict[str, Any]) -> None:
    def work(sandbox: Sandbox, item: int) -> int:
        if item == 1:
            raise kind
        return item

    results = LOCAL.map(work, range(3), **options)
    assert [result.value for result in results] == [0, None, 2]
    assert type(results[1].error) is kind


def over_its_limit(work: Any, begun: Callable[[BaseException | None], object]) -> BaseException | None:
    """The error of *work* that never ends; a machine too busy for it to have *begun* gives it longer."""
    for limit in LIMITS:
        error = Job(LOCAL, work, timeout=limit)("x").error
        if begun(error):
            return error
    raise AssertionError("it never began")


def test_a_command_over_the_limit_is_killed_and_tells_what_it_printed() -> None:
    error = over_its_limit(
        "echo begun; sleep 1000", lambda error: isinstance(error, CommandTimeoutError) and error.result.stdout
    )
    assert isinstance(error, CommandTimeoutError)
    assert error.timeout in LIMITS
    assert error.result.stdout == "begun\n"


def test_a_shorter_limit_of_the_sandbox_holds() -> None:
    result = Job(SandboxSpec("local", {"default_timeout": 0.2}), "sleep 1000", timeout=HANGS_AFTER)("x")
    assert isinstance(result.error, CommandTimeoutError)
    assert result.error.timeout == 0.2


def test_a_function_over_the_limit_loses_its_sandbox() -> None:
    begun, failed = threading.Event(), threading.Event()

    def work(sandbox: Sandbox, item: object) -> None:
        begun.set()
        try:
            sandbox.execute("sleep 1000")
        except SandboxClosedError:
            failed.set()

    error = over_its_limit(work, lambda error: begun.is_set())
    assert isinstance(error, SandboxTimeoutError)
    assert failed.wait(HANGS_AFTER)


def test_a_function_that_needs_no_sandbox_is_left_when_its_time_is_up() -> None:
    go_on = threading.Event()
    result = Job(LOCAL, lambda sandbox, item: go_on.wait(HANGS_AFTER), timeout=0.1)("x")
    assert not go_on.is_set()
    assert isinstance(result.error, SandboxTimeoutError)
    assert result.error.timeout == 0.1
    go_on.set()


def test_a_start_that_hangs_is_over_in_time_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_kit.jobs.attempt._DISCARDED_WITHIN", 0.1)
    result = Job(SandboxSpec("test-hangs-at-start"), "true", timeout=0.1)("x")
    assert isinstance(result.error, SandboxTimeoutError)
    HangsAtStart.ended.clear()
    HangsAtStart.let.set()
    assert HangsAtStart.ended.wait(HANGS_AFTER)


def test_no_more_sandboxes_are_there_at_once_than_told() -> None:
    lock = threading.Lock()
    running: list[int] = [0]
    most: list[int] = [0]

    def work(sandbox: Sandbox, item: object) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    job = Job(LOCAL, work, sandboxes=2)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(job, range(24)))
    assert all(result.ok for result in results)
    assert most[0] <= 2


def test_a_copy_has_room_with_its_original() -> None:
    inside = threading.Barrier(2, timeout=HANGS_AFTER)
    job = Job(LOCAL, lambda sandbox, item: inside.wait(), sandboxes=2)
    with ThreadPoolExecutor(2) as threads:
        assert all(result.ok for result in threads.map(job, range(2)))
    command = Job(LOCAL, "true")
    assert pickle.loads(pickle.dumps(command)).key == command.key != Job(LOCAL, "true").key


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"spec": "local"}, "spec"),
        ({"work": 7}, "work"),
        ({"work": "echo '{item}'"}, "work"),
        ({"files": 7}, "files"),
        ({"files": {"a": 7}}, "files"),
        ({"files": {7: "a"}}, "files"),
        ({"artifacts": [7]}, "artifacts"),
        ({"artifacts": [""]}, "artifacts"),
        ({"artifact_limit": 0}, "artifact_limit"),
        ({"timeout": 0}, "timeout"),
        ({"sandboxes": 0}, "sandboxes"),
        ({"sandboxes": True}, "sandboxes"),
    ],
)
def test_what_makes_no_job_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        Job(**{"spec": LOCAL, "work": "true", **values})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [(SandboxSpec("state"), "runs no commands"), (SandboxSpec("local", {"root": "/"}), "leave id and workspace out")],
)
def test_a_sandbox_that_is_not_a_jobs_own_is_its_error(spec: SandboxSpec, problem: str) -> None:
    result = Job(spec, "true")("x")
    with pytest.raises(InvalidArgumentError, match=problem):
        result.check()


def test_json_brings_a_job_unchanged(tmp_path: Path) -> None:
    files: dict[str, Content] = {"a": "text", "b": b"\xff", "c": tmp_path}
    job = Job(
        GUARDED, ["echo", "{item}"], files=files, artifacts="out/*", artifacts_to=tmp_path, timeout=3, sandboxes=2
    )
    assert Job.from_dict(job.to_dict()) == job
    line = Job(LOCAL, "echo {item}")
    assert Job.from_dict({"spec": LOCAL.to_dict(), "work": "echo {item}"}) == line == Job.from_dict(line.to_dict())


@pytest.mark.parametrize("job", [Job(LOCAL, echo), Job(LOCAL, "true", files=lambda item: {})], ids=["work", "files"])
def test_json_has_no_functions(job: Job) -> None:
    with pytest.raises(InvalidArgumentError, match="function"):
        job.to_dict()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (None, "is a mapping"),
        ({"work": "true"}, "with a spec and work"),
        ({"spec": LOCAL.to_dict(), "work": "true", "other": 1, "more": 2}, "no more, other"),
        ({"spec": LOCAL.to_dict(), "work": "true", "files": {"a": {"base64": "?"}}}, "base64"),
        ({"spec": LOCAL.to_dict(), "work": "true", "files": {"a": {"copy": 7}}}, "'a': is a text"),
        ({"spec": LOCAL.to_dict(), "work": "true", "files": 7}, "files"),
    ],
    ids=["none", "no spec", "unknown keys", "no base64", "no path", "no mapping"],
)
def test_a_document_that_is_no_job_is_refused(values: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        Job.from_dict(values)
