"""What a map does, whoever carries it out."""

from __future__ import annotations

from concurrent.futures import Executor

from jobs.works import echo, fail_at_three, names, raise_unpicklable

from sandbox_kit import JobError, PermissionRule, PermissionRuleset, SandboxSpec

PIXELS = b"\x89PNG\r\n\x1a\n\x00\xff" * 500
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])
SPEC = SandboxSpec("local", {}, RULES, "inspected")


def check_map(executor: Executor) -> None:
    """See that results come in order, files byte for byte, and errors with their items."""
    _check_results(executor)
    _check_files(executor)
    _check_errors(executor)


def _check_results(executor: Executor) -> None:
    told: list[tuple[int, int | None]] = []
    results = SPEC.map(echo, range(6), executor=executor, progress=lambda *seen: told.append(seen))
    assert [result.check().value for result in results] == list("012345")
    assert told == [(done, 6) for done in range(1, 7)]
    assert [result.value for result in SPEC.map(names, range(4), executor=executor)] == [[]] * 4


def _check_files(executor: Executor) -> None:
    items = [{"name": f"it's {number}"} for number in range(3)]
    results = SPEC.map("cp in {name}", items, executor=executor, files={"in": PIXELS}, artifacts="it*")
    assert [result.check().artifacts for result in results] == [{item["name"]: PIXELS} for item in items]


def _check_errors(executor: Executor) -> None:
    results = SPEC.map(fail_at_three, range(5), executor=executor)
    assert [result.value for result in results] == [0, 1, 2, None, 4]
    assert isinstance(results[3].error, LookupError)
    assert "in fail_at_three" in results[3].traceback
    (result,) = SPEC.map(raise_unpicklable, ["x"], executor=executor)
    assert isinstance(result.error, JobError)
    (result,) = SPEC.map("sleep {item}", [1000], executor=executor, timeout=0.2)
    assert isinstance(result.error, TimeoutError)
