"""``run_in_background`` and what goes with it: ``read_output``, ``kill_process``, ``list_processes``."""

from __future__ import annotations

from sandbox_kit.console.cutting import cut_line
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import Parameter
from sandbox_kit.console.processes import BackgroundProcess
from sandbox_kit.console.results import Result
from sandbox_kit.console.running import CWD, LONGEST_COMMAND
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError, printable

__all__ = ["KILL_PROCESS", "LIST_PROCESSES", "READ_OUTPUT", "RUN_IN_BACKGROUND"]

_MOST_CHARACTERS = 30_000
_SHOWN_OF_COMMAND = 200
_MOST_SECONDS = 60
_KILLED_WITHIN = 5.0


def _run_in_background(desk: Desk, command: str, cwd: str) -> Result:
    started = desk.processes.start(command, lambda: desk.sandbox.spawn(command, cwd=cwd))
    return f"Started as process {started.number}: read_output(process_id={started.number}) shows what it prints."


def _read_output(desk: Desk, process_id: int, wait: float) -> Result:
    started = desk.processes.get(process_id)
    text, left, dropped = started.read(_MOST_CHARACTERS, wait)
    lines = [_state(started)]
    if dropped:
        lines.append(f"({dropped:,} characters of older output were dropped)")
    lines.append(text.removesuffix("\n") or "(no new output)")
    if left:
        lines.append(f"... {left:,} more characters: read_output(process_id={process_id})")
    return "\n".join(lines)


def _kill_process(desk: Desk, process_id: int) -> Result:
    started = desk.processes.get(process_id)
    if not started.runs:
        return _state(started)
    started.process.kill()
    try:
        started.process.wait(_KILLED_WITHIN)
    except (SandboxTimeoutError, SandboxUnavailableError):
        return f"Process {process_id} was told to end."
    return f"Process {process_id} was killed."


def _list_processes(desk: Desk) -> Result:
    lines = [f"{_state(started)} {_command(started)}" for started in desk.processes.all()]
    return "\n".join(lines) or "Nothing was started in the background."


def _state(started: BackgroundProcess) -> str:
    return f"process {started.number}: {started.state}"


def _command(started: BackgroundProcess) -> str:
    return f"({cut_line(printable(started.command), _SHOWN_OF_COMMAND)})"


_PROCESS_ID = Parameter("process_id", "integer", "The number that run_in_background gave.")

RUN_IN_BACKGROUND = ToolDefinition(
    name="run_in_background",
    description=(
        "Start a shell command and return at once, for servers and for what takes long. It runs until it ends, "
        "is killed by kill_process, or the sandbox stops."
    ),
    parameters=(Parameter("command", "string", "The command line.", longest=LONGEST_COMMAND), CWD),
    run=_run_in_background,
    operations=("execute",),
    needs="spawn",
)

READ_OUTPUT = ToolDefinition(
    name="read_output",
    description=(
        "Tell whether a background process runs, and show whole lines that it has printed since the last time, "
        "standard error too."
    ),
    parameters=(
        _PROCESS_ID,
        Parameter(
            "wait",
            "number",
            f"How long to wait for output, in seconds, from 0 to {_MOST_SECONDS}. Default 1.",
            1,
            least=0,
            most=_MOST_SECONDS,
        ),
    ),
    run=_read_output,
    operations=("execute",),
    needs="spawn",
    asks=False,
)

KILL_PROCESS = ToolDefinition(
    name="kill_process",
    description="End a background process, with all that it started.",
    parameters=(_PROCESS_ID,),
    run=_kill_process,
    operations=("execute",),
    needs="spawn",
    asks=False,
)

LIST_PROCESSES = ToolDefinition(
    name="list_processes",
    description="List what was started by run_in_background, and how each of them is.",
    parameters=(),
    run=_list_processes,
    operations=("execute",),
    needs="spawn",
    asks=False,
)
