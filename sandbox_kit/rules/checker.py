"""Verdicts: what a ruleset says of an operation on paths or on a command, and which rule says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from attrs import evolve, field, frozen

from sandbox_kit.errors import ApprovalRequiredError, InvalidArgumentError, PermissionDeniedError
from sandbox_kit.paths import within
from sandbox_kit.rules.commands import split_command
from sandbox_kit.rules.compiled import CommandRules, Outcome, PathRules, Place, strictest
from sandbox_kit.rules.globs import literal_prefix, normal_path
from sandbox_kit.rules.ruleset import PATH_OPERATIONS, PermissionRuleset
from sandbox_kit.types import Operation, Verdict

__all__ = ["PermissionChecker"]


def _as_work_dir(value: str) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise InvalidArgumentError(f"work_dir: {value!r} is not absolute")
    return normal_path(value)


def _check_ruleset(_: object, __: object, value: PermissionRuleset) -> None:
    if not isinstance(value, PermissionRuleset):
        raise InvalidArgumentError(f"ruleset: {value!r} is not a PermissionRuleset")


@frozen(slots=False, unsafe_hash=False)
class PermissionChecker:
    """Holds operations to a ruleset; pure, and safe to use from several threads.

    The first rule that matches a name decides on it, and the strictest verdict over all names
    holds: deny, then ask, then allow. A deny or ask holds for all beneath a match, an allow for
    the path itself.

    Args:
        ruleset: the rules.
        work_dir: the absolute directory where relative patterns and names start.
        case_sensitive: False where the file system folds case; a deny or ask then also holds for
            every other spelling, an allow still as it is written.

    Raises:
        InvalidArgumentError: *work_dir* is not absolute, or holds a NUL; *ruleset* is none.
    """

    ruleset: PermissionRuleset = field(validator=_check_ruleset)
    work_dir: str = field(default="/", converter=_as_work_dir)
    case_sensitive: bool = True
    _aliases: tuple[tuple[str, str], ...] = field(default=(), kw_only=True, repr=False)
    _prefixes: Mapping[str, tuple[str, ...]] = field(factory=dict, kw_only=True, repr=False)
    _operations: dict[str, PathRules] = field(init=False, factory=dict, repr=False, eq=False)
    _compiled: dict[object, PathRules] = field(init=False, factory=dict, repr=False, eq=False)

    # -- judging

    def verdict(self, operation: Operation, *names: str) -> Verdict:
        """Return the strictest verdict over all *names*.

        Args:
            operation: what is to be done.
            names: of one target, relative to the work directory or absolute; command lines for ``execute``.

        Returns:
            The verdict, with the rule that decided and the normal name, or the text, that it matched.

        Raises:
            InvalidArgumentError: the operation is unknown, there is no name, or one is no text or holds a NUL.
        """
        found, name = self._decide(operation, names)
        if operation != "execute":
            name = normal_path(name, self.work_dir)
        return Verdict(found.action, operation, found.rule, name)

    def verdicts(self, operation: Operation, *names: str) -> list[Verdict]:
        """Return what decides on each of *names*, then what refuses one by a rule in the operator's spelling of it.

        Args:
            operation: of a path.
            names: as in :meth:`verdict`.

        Raises:
            InvalidArgumentError: as :meth:`verdict`.
        """
        decided = self._decided(self._rules(operation), names)
        return [Verdict(each.action, operation, each.rule, normal_path(name, self.work_dir)) for each, name in decided]

    def check(self, operation: Operation, *names: str) -> None:
        """Return if *operation* is allowed on all *names*.

        Raises:
            PermissionDeniedError: a rule or default denies it.
            ApprovalRequiredError: a rule or default asks.
            InvalidArgumentError: as :meth:`verdict`.
        """
        found, _ = self._decide(operation, names)
        if found.strictness:
            error = PermissionDeniedError if found.action == "deny" else ApprovalRequiredError
            raise error(operation, names[0], found.rule)

    def allows(self, operation: Operation, *names: str) -> bool:
        """Whether *operation* is allowed on all *names*.

        Raises:
            InvalidArgumentError: as :meth:`verdict`.
        """
        return not self._decide(operation, names)[0].strictness

    def rules_only(self, operation: Operation, *names: str) -> Verdict | None:
        """Return the strictest verdict by a rule over *names*; None where no rule matches any.

        Args:
            operation: of a path.
            names: as in :meth:`verdict`.

        Raises:
            InvalidArgumentError: as :meth:`verdict`.
        """
        rules = self._rules(operation)
        decided = [each for each in self._decided(rules, names) if each[0].rule is not None]
        if not decided:
            return None
        found, name = max(decided, key=strictest)
        return Verdict(found.action, operation, found.rule, normal_path(name, self.work_dir))

    def command_verdict(
        self,
        line: str,
        simple_commands: Sequence[Sequence[str]] | None,
        candidates: Sequence[Sequence[str]] = (),
    ) -> Verdict:
        """Return the verdict on a command line.

        A deny or ask holds if the whole line or any simple command matches; an allow needs every
        simple command. The first rule that matches decides on each, and the strictest holds.

        Args:
            line: the whole command line.
            simple_commands: for each, its texts: as written first; None when the line cannot be split.
            candidates: what was found of them in a line that cannot be split.

        Raises:
            InvalidArgumentError: *line* holds a NUL.
        """
        found, text = self._commands.decide(_without_nul(line), simple_commands, candidates)
        return Verdict(found.action, "execute", found.rule, text)

    # -- what can come out

    def can_refuse(self, operation: Operation) -> bool:
        """Whether any path or command can come out as deny or ask, by rule or default.

        Raises:
            InvalidArgumentError: the operation is unknown.
        """
        return self._commands.can_refuse() if operation == "execute" else self._rules(operation).can_refuse()

    def may_allow_beneath(self, operation: Operation, directory: str) -> bool:
        """Whether a path strictly beneath *directory* may be allowed; True when in doubt.

        Args:
            operation: of a path.
            directory: as a name in :meth:`verdict`.

        Raises:
            InvalidArgumentError: the operation is unknown, or *directory* holds a NUL.
        """
        return self._rules(operation).may_allow_beneath(normal_path(directory, self.work_dir))

    # -- where names lead

    @cached_property
    def literal_prefixes(self) -> frozenset[str]:
        """The absolute literal prefixes of its deny and ask rules on paths."""
        rules = {rule for operation in PATH_OPERATIONS for rule in self.ruleset.rules_for(operation)}
        refusing = [rule for rule in rules if rule.action != "allow"]
        prefixes = (literal_prefix(steps) for rule in refusing for steps in self._place.patterns(rule))
        return frozenset(prefix for prefix in prefixes if prefix is not None)

    def with_prefixes(self, mapping: Mapping[str, Sequence[str]]) -> PermissionChecker:
        """Return a checker whose deny and ask rules also hold with their literal prefix resolved.

        An allow holds as written only: what the sandbox makes of a name never widens one.

        Args:
            mapping: for a literal prefix, the names that it resolves to in the sandbox; all absolute.
        """
        resolved = {normal_path(prefix): tuple(map(normal_path, reals)) for prefix, reals in mapping.items()}
        return evolve(self, prefixes=resolved)

    def with_alias(self, given: str, real: str) -> PermissionChecker:
        """Return a checker that takes rules beneath *given* as rules beneath *real*, too.

        An allow then holds beneath *real* instead, a deny or ask in both.

        Args:
            given: a directory as the operator spells it, out of reach of what runs in the sandbox; absolute.
            real: its real name; absolute.
        """
        alias = (normal_path(given), normal_path(real))
        return self if alias[0] == alias[1] else evolve(self, aliases=(*self._aliases, alias))

    @property
    def has_alias(self) -> bool:
        """Whether a name may have another spelling, by which another rule decides on it."""
        return bool(self._aliases)

    def _decide(self, operation: Operation, names: Sequence[str]) -> tuple[Outcome, str]:
        rules = self._known(operation)
        if rules is not None and len(names) == 1 and not self._aliases:
            return rules.decide(names[0]), names[0]
        if not names:
            raise InvalidArgumentError("no name to judge")
        if operation == "execute":
            return max(map(self._decide_line, names), key=strictest)
        return max(self._decided(self._rules(operation), names), key=strictest)

    def _decided(self, rules: PathRules, names: Sequence[str]) -> list[tuple[Outcome, str]]:
        """Return what decides on each name, and what refuses it by a rule in the operator's spelling of it."""
        decided = [(rules.decide(name), name) for name in names]
        for given, real in self._aliases:
            inside = [name for name in (normal_path(each, self.work_dir) for each in names) if within(name, real)]
            spelled = [(rules.decide(given + name[len(real) :]), name) for name in inside]
            decided += [each for each in spelled if each[0].rule is not None and each[0].strictness]
        return decided

    def _decide_line(self, line: str) -> tuple[Outcome, str]:
        split = split_command(_without_nul(line))
        commands = None if split.commands is None else [command.texts for command in split.commands]
        return self._commands.decide(line, commands, [command.texts for command in split.candidates])

    def _rules(self, operation: Operation) -> PathRules:
        rules = self._known(operation)
        return self._compile(operation) if rules is None else rules

    def _known(self, operation: Operation) -> PathRules | None:
        """Return the rules of *operation* where they were compiled before."""
        return self._operations.get(operation) if isinstance(operation, str) else None

    def _compile(self, operation: Operation) -> PathRules:
        """Compile the rules of *operation*, once for all operations that have the same."""
        if operation not in PATH_OPERATIONS:
            raise InvalidArgumentError(f"{operation!r} is none of {', '.join(PATH_OPERATIONS)}")
        rules, default = self.ruleset.rules_for(operation), self.ruleset.default_for(operation)
        compiled = self._compiled.get((rules, default)) or PathRules(rules, default, self._place)
        self._compiled[rules, default] = self._operations[operation] = compiled
        return compiled

    @cached_property
    def _commands(self) -> CommandRules:
        return CommandRules(self.ruleset.rules_for("execute"), self.ruleset.default_for("execute"))

    @cached_property
    def _place(self) -> Place:
        return Place(self.work_dir, self.case_sensitive, self._aliases, self._prefixes)


def _without_nul(line: str) -> str:
    if not isinstance(line, str):
        raise InvalidArgumentError(f"a command line is a str, not {type(line).__name__}")
    if "\0" in line:
        raise InvalidArgumentError(f"NUL in command {line!r}")
    return line
