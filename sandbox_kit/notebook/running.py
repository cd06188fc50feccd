"""Commands in a cell: their output as it arrives, then what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from sandbox_kit import arguments
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError, SandboxError
from sandbox_kit.html.fragments import Markup, line, note, span, text
from sandbox_kit.html.records import ending
from sandbox_kit.notebook.cell import Cell, opened
from sandbox_kit.notebook.changes import Files, compare, look
from sandbox_kit.notebook.once import show_once
from sandbox_kit.notebook.pictures import pictures
from sandbox_kit.notebook.shell import running_shell
from sandbox_kit.paths import SandboxPath
from sandbox_kit.types import CommandResult

__all__ = ["run"]

_LONGEST = 1000


def run(
    sandbox: Sandbox,
    command: str | Sequence[SandboxPath],
    *,
    timeout: float | None = None,
    cwd: SandboxPath | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | BinaryIO | None = None,
    user: str | int | None = None,
    max_output: int | str = arguments.MAX_OUTPUT,
    check: bool = False,
    changes: bool = True,
) -> CommandResult:
    """Run a command to its end and show it in the cell: what it prints as it arrives, then the files it changed.

    Pictures among these are shown as such. All is looked at through *sandbox*, so what its rules hide is
    not shown. Of a long output the beginning and the end are shown. Interrupting the kernel
    kills the command's whole tree and leaves the sandbox usable. Outside a notebook it prints.

    Args:
        sandbox: started.
        command, timeout, cwd, env, stdin, user, max_output, check: as for :meth:`Sandbox.execute`.
        changes: whether to look for changed files, which takes a walk of the workspace before and one after.

    Returns:
        The result, whole; as the value of the same cell a notebook does not show it again.

    Raises:
        InvalidArgumentError: *sandbox* is no sandbox, or as for :meth:`Sandbox.execute`.
        CommandTimeoutError, CommandFailedError, UnsupportedError: as for :meth:`Sandbox.execute`.
        KeyboardInterrupt: the kernel was interrupted.
    """
    if not isinstance(sandbox, Sandbox):
        raise InvalidArgumentError(f"sandbox: {sandbox!r} runs no commands")
    shell = running_shell()
    before = _look(sandbox) if changes else None
    with opened(shell) as cell:
        result = _told(
            cell,
            lambda: sandbox.execute(
                command,
                timeout=timeout,
                cwd=cwd,
                env=env,
                stdin=stdin,
                user=user,
                on_output=cell.add,
                max_output=max_output,
            ),
        )
        if before is not None:
            cell.tell(ending(result), *_changed(sandbox, before))
    if shell is not None and not shell.prints_only:
        show_once(shell, result)
    return result.check() if check else result


def _told(cell: Cell, execute: Callable[[], CommandResult]) -> CommandResult:
    """Return what *execute* does, and tell in *cell* how it ended."""
    try:
        result = execute()
    except BaseException as error:
        cell.tell(_cut_short(error))
        raise
    cell.tell(ending(result))
    return result


def _cut_short(error: BaseException) -> Markup:
    if isinstance(error, KeyboardInterrupt):
        return line(span(text("interrupted"), "sbk-bad"), text("the command was ended"))
    return line(span(text(type(error).__name__), "sbk-bad"), text(str(error), _LONGEST))


def _look(sandbox: Sandbox) -> Files | SandboxError:
    try:
        return look(sandbox)
    except SandboxError as error:
        return error


def _changed(sandbox: Sandbox, before: Files | SandboxError) -> Iterator[Markup]:
    """Yield what became of the files that were there *before*, and their pictures; or why it is not known."""
    after = before if isinstance(before, SandboxError) else _look(sandbox)
    if isinstance(before, SandboxError) or isinstance(after, SandboxError):
        yield note(f"what changed is not known: {after}")
        return
    changes = compare(before, after)
    shown = changes.table()
    if shown is not None:
        yield shown
    yield from pictures(sandbox, [*changes.made, *changes.changed])
