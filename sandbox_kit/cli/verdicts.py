"""``check``: what the rules say of a path or command, found out by the guard's own means, without acting."""

from __future__ import annotations

from argparse import Namespace

from attrs import asdict, frozen

from sandbox_kit.arguments import command
from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.backends.local.confine import obstacle
from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.running import command_of
from sandbox_kit.cli.screen import COLOUR_OF, Screen
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.errors import PathError, PathEscapeError, PermissionDeniedError
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.inspection import inspect
from sandbox_kit.judge import Approvals, Judge
from sandbox_kit.judged_command import JudgedCommand
from sandbox_kit.paths import check_path, within
from sandbox_kit.primitives import Operations, allow
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.compiled import STRICTNESS
from sandbox_kit.types import Action, Identity, Operation

__all__ = ["check"]

_CONSULTED: dict[str, Operations] = {"edit": ("edit", "read", "write"), "grep": ("grep", "read")}


@frozen
class Finding:
    """What was decided about one name.

    Attributes:
        action: ``"allow"``, ``"ask"`` or ``"deny"``.
        operation: the operation that was judged.
        name: the name, command or part of a command that decided.
        rule: the rule, as text, or what else refuses; None for a default.
        why: what *name* has to do with the target.
    """

    action: Action
    operation: str
    name: str
    rule: str | None
    why: str


class Recorder(Judge):
    """A judge that notes every verdict and lets everything pass.

    Attributes:
        findings: in order.
    """

    def __init__(self, checker: PermissionChecker, command: JudgedCommand | None = None) -> None:
        super().__init__(checker, Approvals(None, "error"), allow, "", command)
        self.findings: list[Finding] = []
        self._first: str | None = None
        self._named: set[str] = set()
        self._of_command = command is not None

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        self._first = self._first or names[0]
        for name in names:
            verdict = self.verdict(operation, (name,), hop)
            if verdict is not None:
                why = self._why(operation, verdict.name, hop, real=len(names) > 1)
                self.note(Finding(verdict.action, operation, verdict.name, verdict.rule, why))
        self._named.update(names)
        return True

    def note(self, finding: Finding) -> None:
        """Add *finding*, once."""
        if finding not in self.findings:
            self.findings.append(finding)

    def _why(self, operation: Operation, name: str, hop: bool, real: bool) -> str:
        if operation == "execute":
            return "the command" if name == self._first else "a part of the command"
        if self._of_command:
            return "where the command starts" if operation == "ls" else "a path that the command names"
        if hop:
            return "a symbolic link on the way"
        if name == self._first:
            return "the path as typed"
        is_parent = operation == "write" and not real and any(within(known, name) for known in self._named - {name})
        return "a directory that would be made" if is_parent else "where the path really leads"


def check(args: Namespace, screen: Screen) -> int:
    """Say which rule decides, by which name, and why."""
    files = LocalBackend(args.root)
    checker = GuardedBackend(files, load_rules(args.rules)).checker
    if args.operation == "execute":
        target, findings = _of_command(files, checker, args)
    else:
        target, findings = _of_path(files, checker, args)
    decisive = max(findings, key=_weight)
    if args.json:
        screen.json({"target": target, **asdict(decisive), "findings": [asdict(finding) for finding in findings]})
    else:
        _print(screen, f"{args.operation} {target}", decisive)
        for finding in findings if args.verbose else ():
            _print_finding(screen, finding)
    return ExitCode.DONE if decisive.action == "allow" else ExitCode.NO


def _weight(finding: Finding) -> tuple[int, bool]:
    """Order by strictness; a rule tells more of a refusal than a default does."""
    return STRICTNESS[finding.action], finding.action != "allow" and finding.rule is not None


def _of_path(files: LocalBackend, checker: PermissionChecker, args: Namespace) -> tuple[str, list[Finding]]:
    if len(args.words) != 1:
        raise UsageError(f"check {args.operation} takes one path")
    path, recorder = check_path(args.words[0]), Recorder(checker)
    operations = _CONSULTED.get(args.operation, (args.operation,))
    try:
        files._resolve((path,), operations=operations, authorize=recorder)
    except PathEscapeError as error:
        recorder.note(Finding("deny", args.operation, path, error.reason, "the path as typed"))
    except PathError:
        pass
    return path, recorder.findings


def _of_command(files: LocalBackend, checker: PermissionChecker, args: Namespace) -> tuple[str, list[Finding]]:
    confined = args.commands != "inspected" and obstacle(files.work_dir) is None
    asked = JudgedCommand(command(command_of(args)), unconfined=args.commands == "auto" and not confined)
    line, known, recorder = asked.line, checker.literal_prefixes, Recorder(checker, asked)
    recorder("execute", (line.line,))
    files._resolve((".",), operations=("ls",), authorize=recorder)
    try:
        inspect(files, line, files.work_dir, files.work_dir, recorder, confined=confined, known=known)
    except PermissionDeniedError as error:
        recorder.note(Finding("deny", "execute", line.line, error.message, "the command"))
    return asked.text, recorder.findings


def _print(screen: Screen, target: str, finding: Finding) -> None:
    screen.line(f"{screen.paint(finding.action, COLOUR_OF[finding.action], bold=True)}: {screen.name(target)}")
    screen.line(f"  rule: {screen.name(finding.rule) if finding.rule else 'none matches, the default decides'}")
    screen.line(f"  name: {screen.name(finding.name)}")
    screen.line(f"  why:  it is {finding.why}")


def _print_finding(screen: Screen, finding: Finding) -> None:
    action = screen.paint(f"{finding.action:<5}", COLOUR_OF[finding.action])
    rule = screen.name(finding.rule or "by default")
    screen.line(f"  {action} {finding.operation:<7} {screen.name(finding.name)}: {rule} ({finding.why})")
