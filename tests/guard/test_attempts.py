"""Attempts to reach what the rules deny: by files on disk, in memory, and by commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PatternError
from sandbox_kit.guard import CommandMode, guarding
from sandbox_kit.rules.ruleset import PermissionRuleset

from .attempts import CASES, Case, Stage, attempt

COMMANDS = ("execute", "spawn")


def is_command(case: Case) -> bool:
    return any(verb in COMMANDS for verb, *_ in case["attempt"])


def chosen(*, commands: bool, in_memory: bool = False) -> pytest.MarkDecorator:
    cases = [case for case in CASES if "platform" not in case and is_command(case) is commands]
    if in_memory:
        cases = [case for case in cases if not needs_links(case)]
    elif not commands:
        cases = [case for case in cases if "only" not in case]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def races(case: Case) -> bool:
    return bool(case["attempt"][0][0] == "race")


def needs_links(case: Case) -> bool:
    """Whether the attempt goes through a symbolic link, be it one of the kernel's own."""
    return races(case) or "/proc/" in str(case["attempt"]) or any("ln " in line for line in case["setup"])


def staged(tmp_path: Path, case: Case) -> Stage:
    return Stage(tmp_path, case)


def guarded_attempt(stage: Stage, backend: Backend, commands: CommandMode = "auto") -> None:
    """Make the attempt under the case's rules, and hold it to what is expected of it."""
    try:
        guarded = guarding(backend, stage.ruleset(), commands=commands)
    except PatternError:
        assert "at construction" in stage.case.get("note", "")
        return
    outcome = attempt(stage, guarded)
    if stage.case["expect"] == "kernel-only" and commands != "confined":
        return
    assert not outcome.reached(stage, backend), (outcome.texts, outcome.names)
    if stage.case["expect"] == "refused" and commands != "confined" and not races(stage.case):
        assert outcome.errors


def assert_control(stage: Stage, backend: Backend) -> None:
    """Without rules the attempt succeeds, or it would prove nothing.

    One that takes a pattern for an option has no control: nothing makes it one.
    """
    no_control = "no_control" in stage.case or stage.case["proof"] == "oracle-grep"
    if no_control or "PatternError" in stage.case.get("note", ""):
        return
    outcome = attempt(stage, backend)
    assert outcome.reached(stage, backend), (outcome.texts, outcome.names, outcome.errors)


@chosen(commands=False)
def test_a_denied_file_on_disk_is_out_of_reach(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    guarded_attempt(stage, LocalBackend(stage.workspace))


@chosen(commands=False)
def test_the_file_on_disk_is_within_reach_without_rules(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    assert_control(stage, LocalBackend(stage.workspace))


@chosen(commands=False, in_memory=True)
def test_a_denied_file_in_memory_is_out_of_reach(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    guarded_attempt(stage, stage.in_memory())


@chosen(commands=False, in_memory=True)
def test_the_file_in_memory_is_within_reach_without_rules(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    assert_control(stage, stage.in_memory())


@pytest.mark.skipif(sys.platform == "win32", reason="commands are POSIX")
@chosen(commands=True)
def test_a_command_line_that_names_a_denied_file_is_refused(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    with LocalSandbox(stage.workspace) as sandbox:
        guarded_attempt(stage, sandbox, "inspected")


@pytest.mark.needs("bwrap")
@chosen(commands=True)
def test_the_kernel_keeps_a_denied_file_from_a_command(tmp_path: Path, case: Case) -> None:
    if "hard link" in case["why"] or "git" in case["id"]:
        pytest.skip("stays open, and the threat model says so")
    stage = staged(tmp_path, case)
    with LocalSandbox(stage.workspace) as sandbox:
        guarded_attempt(stage, sandbox, "confined")


@pytest.mark.skipif(sys.platform == "win32", reason="commands are POSIX")
@chosen(commands=True)
def test_the_command_succeeds_without_rules(tmp_path: Path, case: Case) -> None:
    stage = staged(tmp_path, case)
    with LocalSandbox(stage.workspace) as sandbox:
        assert_control(stage, guarding(sandbox, PermissionRuleset("allow"), commands="inspected"))
