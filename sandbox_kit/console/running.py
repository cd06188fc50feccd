"""``execute``."""

from __future__ import annotations

from sandbox_kit.console.cutting import keep_ends
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import LONGEST_NAME, Parameter
from sandbox_kit.console.results import ErrorText, Result
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import CommandTimeoutError
from sandbox_kit.types import CommandResult

__all__ = ["CWD", "EXECUTE", "LONGEST_COMMAND"]

LONGEST_COMMAND = 100_000
"""In characters; Linux takes 128 KiB for one argument of a program."""

_MOST_CHARACTERS = 20_000
_USUAL_SECONDS, _MOST_SECONDS = 120, 3_600
_SEE_ALL = "to see all, run it again with its output redirected to a file, and use read_file"


def _execute(desk: Desk, command: str, timeout: float | None, cwd: str) -> Result:
    sandbox = desk.sandbox
    usual = _USUAL_SECONDS if sandbox.default_timeout is None else sandbox.default_timeout
    try:
        result = sandbox.execute(command, timeout=timeout or usual, cwd=cwd)
    except CommandTimeoutError as error:
        advice = "give a longer timeout, or use run_in_background"
        return ErrorText(_told(f"Error: killed after its time limit of {error.timeout:g} s: {advice}", error.result))
    return _told(f"exit code {result.exit_code}", result)


def _told(outcome: str, result: CommandResult) -> str:
    streams = {"stdout": result.stdout, "stderr": result.stderr}
    parts = [f"{name}:\n{keep_ends(text, _MOST_CHARACTERS, _SEE_ALL)}" for name, text in streams.items() if text]
    if result.truncated:
        parts.append(f"(there was more output than is kept: {_SEE_ALL})")
    return "\n".join([outcome, *(part.removesuffix("\n") for part in parts or ["(no output)"])])


CWD = Parameter(
    "cwd", "string", "The directory that it starts in. Default the work directory.", ".", longest=LONGEST_NAME
)

EXECUTE = ToolDefinition(
    name="execute",
    description=(
        "Run a shell command (/bin/sh) to its end, and return its exit code, standard output and standard error. "
        "What it leaves running is killed: use run_in_background for that. Of long output the beginning and the end "
        "are shown. There is no terminal and no input."
    ),
    parameters=(
        Parameter("command", "string", "The command line.", longest=LONGEST_COMMAND),
        Parameter(
            "timeout",
            "number",
            f"Its time limit in seconds, from 1 to {_MOST_SECONDS:,}. Default {_USUAL_SECONDS}, or the sandbox's own.",
            None,
            least=1,
            most=_MOST_SECONDS,
        ),
        CWD,
    ),
    run=_execute,
    operations=("execute",),
    needs="commands",
)
