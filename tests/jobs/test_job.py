"""One job for one item: files in, the work, files out, and an end whatever happens."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import (
    CommandFailedError,
    CommandTimeoutError,
    InvalidArgumentError,
    Job,
    JobError,
    JobResult,
    LimitExceededError,
    PermissionDeniedError,
    PermissionRule,
    PermissionRuleset,
    Sandbox,
    SandboxSpec,
    SandboxTimeoutError,
    Skipped,
    register_backend,
)
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.jobs.inputs import Content

from .works import HANGS_AFTER, Unpicklable, echo, leave, names, raise_unpicklable

PIXELS = b"\x89PNG\r\n\x1a\n\x00\xff" * 5
HIDE = "for f in x*; do mv $f .${{f#x}}; done"
"""Gives files names that no rule can see beforehand."""

DENIED = "read .p: denied by rule deny **/.p"
LOCAL = SandboxSpec("local")
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])
GUARDED = SandboxSpec("local", {}, RULES, "inspected")

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


def test_artifacts_come_back_byte_for_byte() -> None:
    command = "mkdir -p out/deep; cp pixels out/chart.png; cp pixels out/deep/b; ln -s chart.png out/link; echo > other"
    result = Job(LOCAL, command, files={"pixels": PIXELS}, artifacts=["out/**", "out/*.png"])("x")
    assert result.check().artifacts == {"out/chart.png": PIXELS, "out/deep/b": PIXELS}
    assert result.skipped == ()
    assert result.folder is None


def test_artifacts_go_into_a_directory_for_each_item(tmp_path: Path) -> None:
    job = Job(LOCAL, "mkdir out; echo {item} >out/a; cp pixels out", files={"pixels": PIXELS}, artifacts="out/*",
              artifacts_to=tmp_path / "new" / "all")  # fmt: skip
    first, second = job("x", 0), job("y", 1)
    assert (first.folder, first.artifacts) == (tmp_path / "new" / "all" / "0", {})
    assert second.folder is not None
    assert (second.folder / "out" / "a").read_text() == "y\n"
    assert (second.folder / "out" / "pixels").read_bytes() == PIXELS
    assert sorted(path.name for path in (tmp_path / "new" / "all").iterdir()) == ["0", "1"]


def test_a_job_that_is_done_again_has_the_directory_anew(tmp_path: Path) -> None:
    for name in ("first", "second"):
        result = Job(LOCAL, "touch {item}", artifacts="*", artifacts_to=tmp_path / "all")(name)
    assert result.folder is not None
    assert [path.name for path in result.folder.iterdir()] == ["second"]


def test_what_rules_refuse_neither_comes_back_nor_goes_in() -> None:
    result = Job(GUARDED, HIDE, files={"xenv": "secret", "a": ""}, artifacts="*")("x")
    assert set(result.check().artifacts) == {"a"}
    result = Job(GUARDED, "true", files={".env": "secret"})("x")
    assert isinstance(result.error, PermissionDeniedError)


def test_a_file_that_may_be_seen_and_not_read_is_told_of(tmp_path: Path) -> None:
    rules = PermissionRuleset.from_dict({"read": {"rules": [{"pattern": "**/.p", "action": "deny"}]}})
    spec = SandboxSpec("local", {}, rules, "inspected")
    for place in (None, tmp_path / "all"):
        result = Job(spec, HIDE, files={"xp": "", "a": "", "c": ""}, artifacts="*", artifacts_to=place)("x").check()
        assert result.skipped == (Skipped(".p", DENIED),)
    assert result.folder is not None
    assert sorted(path.name for path in result.folder.iterdir()) == ["a", "c"]


@pytest.mark.parametrize("to", [None, "all"])
def test_artifacts_over_the_limit_are_an_error_beside_the_value(to: str | None, tmp_path: Path) -> None:
    place = None if to is None else tmp_path / to
    result = Job(LOCAL, "head -c 600 /dev/zero >a; cp a b", artifacts="*", artifact_limit=1000, artifacts_to=place)("x")
    assert isinstance(result.error, LimitExceededError)
    assert result.error.limit == 1000
    assert (result.value.ok, result.ok, result.artifacts, result.folder) == (True, False, {}, None)
    assert not (tmp_path / "all" / "0").exists()


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


def test_a_command_over_the_limit_is_killed_and_tells_what_it_printed() -> None:
    result = Job(LOCAL, "echo begun; sleep 1000", timeout=0.5)("x")
    assert isinstance(result.error, CommandTimeoutError)
    assert (result.error.timeout, result.error.result.stdout) == (0.5, "begun\n")


def test_a_shorter_limit_of_the_sandbox_holds() -> None:
    result = Job(SandboxSpec("local", {"default_timeout": 0.2}), "sleep 1000", timeout=HANGS_AFTER)("x")
    assert isinstance(result.error, CommandTimeoutError)
    assert result.error.timeout == 0.2


def test_a_function_over_the_limit_loses_its_sandbox() -> None:
    failures: list[BaseException] = []
    failed = threading.Event()

    def work(sandbox: Sandbox, item: object) -> None:
        try:
            sandbox.execute("sleep 1000")
            sandbox.execute("sleep 1000")
        except BaseException as error:
            failures.append(error)
        failed.set()

    result = Job(LOCAL, work, timeout=0.3)("x")
    assert isinstance(result.error, SandboxTimeoutError)
    assert failed.wait(HANGS_AFTER)
    assert len(failures) == 1


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
    assert most == [2]


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
