"""An operator's rules: which operation is allowed, asked about or denied on which path or command.

Everything is validated when it is built: a rule that is wrong never becomes one that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from attrs import evolve, field, frozen

from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathNotFoundError,
    PolicyError,
    printable,
)
from sandbox_kit.rules.command_pattern import compile_command
from sandbox_kit.rules.globs import parse_glob
from sandbox_kit.rules.inert import (
    TOO_MANY_ALTERNATIVES,
    inert_command_rules,
    inert_path_rules,
    too_many_alternatives,
)
from sandbox_kit.types import Action, Operation

__all__ = ["OPERATIONS", "PATH_OPERATIONS", "OperationPermissions", "PermissionRule", "PermissionRuleset"]

OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
PATH_OPERATIONS: Final = tuple(name for name in OPERATIONS if name != "execute")
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

MAX_DOCUMENT = 16 * 2**20


def check_action(value: object) -> Action:
    """Return *value*, an action.

    Raises:
        InvalidArgumentError: it is none.
    """
    for action in ACTIONS:
        if value == action:
            return action
    raise InvalidArgumentError(f"{value!r} is none of {', '.join(ACTIONS)}")


def check_text(value: object) -> str:
    """Return *value*, a string.

    Raises:
        InvalidArgumentError: it is none.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{value!r} is not a string")
    return value


def check_path_pattern(value: object) -> str:
    """Return *value*, the pattern of a path.

    Raises:
        InvalidArgumentError: it is no string.
        PatternError: it is malformed, ambiguous, or could never match anything.
    """
    return parse_glob(check_text(value)).source


def check_command_pattern(value: object) -> str:
    """Return *value*, the pattern of a command.

    Raises:
        InvalidArgumentError: it is no string.
        PatternError: it is malformed.
    """
    return compile_command(check_text(value)).source


@frozen
class PermissionRule:
    """What happens to an operation on what a pattern matches.

    Attributes:
        pattern: a path pattern; among the rules of ``execute``, a command pattern. A deny or ask
            also holds for all beneath a match, an allow for the path itself.
        action: ``"allow"``, ``"ask"`` or ``"deny"``.
        description: for people.
        command: whether *pattern* is a command's. Only to be given where it is not a valid path
            pattern; rules given to ``execute`` are taken as commands in any case.

    Raises:
        PatternError: the pattern is refused.
        InvalidArgumentError: the action is none, or something is of the wrong type.
    """

    pattern: str
    action: Action = field(converter=check_action)
    description: str = field(default="", converter=check_text)
    command: bool = field(default=False, kw_only=True, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise InvalidArgumentError(f"pattern: {self.pattern!r} is not a string")
        check = check_command_pattern if self.command else check_path_pattern
        check(self.pattern)

    def __str__(self) -> str:
        return f"{self.action} {self.pattern}"


def _as_rules(value: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    if not isinstance(value, Iterable):
        raise InvalidArgumentError(f"rules: {value!r} is no sequence of rules")
    rules = tuple(value)
    for rule in rules:
        if not isinstance(rule, PermissionRule):
            raise InvalidArgumentError(f"{rule!r} is not a PermissionRule")
    return rules


def _as_default(value: Action | None) -> Action | None:
    return None if value is None else check_action(value)


@frozen
class OperationPermissions:
    """The rules of one operation.

    Attributes:
        default: what happens where no rule matches; None for the ruleset's default.
        rules: the first that matches decides.

    Raises:
        InvalidArgumentError: the default is no action, or a rule is no rule.
    """

    default: Action | None = field(default=None, converter=_as_default)
    rules: tuple[PermissionRule, ...] = field(default=(), converter=_as_rules)


def _as_paths(value: OperationPermissions | None) -> OperationPermissions | None:
    if value is not None and not isinstance(value, OperationPermissions):
        raise InvalidArgumentError(f"{value!r} is not an OperationPermissions")
    for rule in value.rules if value else ():
        check_path_pattern(rule.pattern)
    return value


def _as_commands(value: OperationPermissions | None) -> OperationPermissions | None:
    if value is None:
        return None
    if not isinstance(value, OperationPermissions):
        raise InvalidArgumentError(f"{value!r} is not an OperationPermissions")
    return evolve(value, rules=[evolve(rule, command=True) for rule in value.rules])


@frozen
class PermissionRuleset:
    """The rules of every operation.

    Attributes:
        default: what happens where neither a rule nor an operation's own default decides.
        rules: follow the own rules of each path operation; they are not for commands.
        read: the rules of one operation; None for *rules* and *default* alone. So for the others.

    Raises:
        PolicyError: a rule is certainly covered by an earlier one of its operation with another action.
        InvalidArgumentError: something is of the wrong type.
        PatternError: a pattern is not one for where it stands.
    """

    default: Action = field(default="allow", converter=check_action)
    rules: tuple[PermissionRule, ...] = field(default=(), converter=_as_rules)
    read: OperationPermissions | None = field(default=None, converter=_as_paths)
    write: OperationPermissions | None = field(default=None, converter=_as_paths)
    edit: OperationPermissions | None = field(default=None, converter=_as_paths)
    execute: OperationPermissions | None = field(default=None, converter=_as_commands)
    ls: OperationPermissions | None = field(default=None, converter=_as_paths)
    glob: OperationPermissions | None = field(default=None, converter=_as_paths)
    grep: OperationPermissions | None = field(default=None, converter=_as_paths)

    def __attrs_post_init__(self) -> None:
        for rule in self.rules:
            check_path_pattern(rule.pattern)
        operations = [self.permissions(operation).rules for operation in PATH_OPERATIONS]
        if too_many_alternatives(rule.pattern for rules in (self.rules, *operations) for rule in rules):
            raise PolicyError([TOO_MANY_ALTERNATIVES])
        problems = list(self._inert())
        if problems:
            raise PolicyError(problems)

    def permissions(self, operation: Operation) -> OperationPermissions:
        """The own rules and default of *operation*; empty when it has none."""
        own: dict[Operation, OperationPermissions | None] = {
            "read": self.read,
            "write": self.write,
            "edit": self.edit,
            "execute": self.execute,
            "ls": self.ls,
            "glob": self.glob,
            "grep": self.grep,
        }
        return own[operation] or OperationPermissions()

    def __repr__(self) -> str:
        count = len(self.rules) + sum(len(self.permissions(operation).rules) for operation in OPERATIONS)
        return f"PermissionRuleset(default={self.default!r}, {count} rules)"

    def default_for(self, operation: Operation) -> Action:
        """What happens to *operation* where no rule matches."""
        return self.permissions(operation).default or self.default

    def rules_for(self, operation: Operation) -> tuple[PermissionRule, ...]:
        """The rules of *operation*, in the order in which they are tried."""
        own = self.permissions(operation).rules
        return own if operation == "execute" else own + self.rules

    def to_dict(self) -> dict[str, Any]:
        """The ruleset as a document of plain values, without what is left at its default."""
        from sandbox_kit.rules.documents import dump_ruleset

        return dump_ruleset(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PermissionRuleset:
        """Build a ruleset from what :meth:`to_dict` returns.

        Args:
            document: the attributes by name. Operations and rules are mappings of theirs; a bare action
                in place of an operation is its default.

        Raises:
            PolicyError: with every problem of the document, each with its place.
        """
        from sandbox_kit.rules.documents import load_ruleset

        return load_ruleset(document)

    @classmethod
    def from_file(cls, path: str | Path) -> PermissionRuleset:
        """Build a ruleset from a file of the host.

        Args:
            path: UTF-8; JSON or TOML by its suffix, at most 16 MiB.

        Raises:
            PolicyError: with every problem of the document, each with the file's name and its place.
            PathNotFoundError: there is no such file.
            PathAccessError: it cannot be opened.
            NotRegularFileError: it is no file.
            PathError: another failure to read it, such as a name that is too long.
        """
        from sandbox_kit.rules.documents import parse_document

        try:
            return cls.from_dict(parse_document(_read_file(Path(path)), Path(path).suffix))
        except PolicyError as error:
            raise PolicyError(f"{printable(str(path))}: {problem}" for problem in error.problems) from error

    def _inert(self) -> Iterator[str]:
        """A sentence for each rule that can never decide; what operations have in common is looked at once."""
        yield from _sentences(inert_path_rules(self.rules), _placed("rules", self.rules))
        known: dict[tuple[PermissionRule, ...], list[tuple[int, int]]] = {}
        for operation in PATH_OPERATIONS:
            own = self.permissions(operation).rules
            if own not in known:
                known[own] = [*inert_path_rules(own, self.rules)]
            yield from _sentences(known[own], _placed(f"{operation}.rules", own) + _placed("rules", self.rules))
        commands = self.permissions("execute").rules
        yield from _sentences(inert_command_rules(commands), _placed("execute.rules", commands))


def _placed(place: str, rules: Iterable[PermissionRule]) -> list[tuple[str, PermissionRule]]:
    return [(f"{place}[{index}]", rule) for index, rule in enumerate(rules)]


def _sentences(pairs: Iterable[tuple[int, int]], placed: Sequence[tuple[str, PermissionRule]]) -> Iterator[str]:
    for inert, earlier in pairs:
        (place, rule), (wide_place, wide) = placed[inert], placed[earlier]
        yield f"{place}: {rule} can never decide, {wide_place} covers it: {wide}"


def _read_file(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise NotRegularFileError(str(path)) if path.exists() else PathNotFoundError(str(path))
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
    except PermissionError:
        raise PathAccessError(str(path)) from None
    except PathError:
        raise
    except (OSError, ValueError) as error:
        raise PathError(str(path), str(error)) from error
    if len(content) > MAX_DOCUMENT:
        raise PolicyError([f"more than {MAX_DOCUMENT} bytes"])
    return content
