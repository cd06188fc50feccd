"""The rules of one operation, compiled: which of them decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from attrs import field, frozen

from sandbox_kit.rules.command_index import CommandIndex
from sandbox_kit.rules.command_pattern import CommandPattern, compile_command
from sandbox_kit.rules.folding import folded_paths, folded_steps
from sandbox_kit.rules.globs import Steps, literal_prefix, moved_steps, normal_path, parse_glob, path_names
from sandbox_kit.rules.globset import GlobSet, Member
from sandbox_kit.rules.ruleset import PermissionRule
from sandbox_kit.rules.segments import Gap
from sandbox_kit.types import Action

__all__ = ["CommandRules", "Outcome", "PathRules", "Place", "strictest"]

MAX_REMEMBERED = 8192
MAX_KEY = 4096
"""The longest name, in characters, that is remembered."""

STRICTNESS: Final[Mapping[Action, int]] = {"allow": 0, "ask": 1, "deny": 2}

# Where a program's bare name finds it: there, a rule for the name is as good as one for the path.
_PROGRAM_DIRECTORIES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")


class Outcome(NamedTuple):
    """What a rule or a default decides.

    Attributes:
        strictness: 0 for an allow, 1 for an ask, 2 for a deny.
        action: the same as a word.
        rule: as text, such as ``"deny **/.env"``; None for a default.
    """

    strictness: int
    action: Action
    rule: str | None


def strictest(decided: tuple[Outcome, str]) -> tuple[int, bool]:
    """The key by which the strictest of several outcomes is the greatest; a rule tells more than a default."""
    return decided[0].strictness, decided[0].rule is not None


def _outcomes(rules: Iterable[PermissionRule], default: Action) -> tuple[Outcome, ...]:
    decided = [Outcome(STRICTNESS[rule.action], rule.action, str(rule)) for rule in rules]
    return (*decided, Outcome(STRICTNESS[default], default, None))


@frozen
class Place:
    """Where a ruleset is applied.

    Attributes:
        work_dir: where relative patterns and names start; absolute and normal.
        case_sensitive: whether two names that differ in case are two files.
        aliases: pairs of a directory as the operator spells it and its real name.
        prefixes: literal prefixes of rules, each with the real names that it resolves to.
    """

    work_dir: str = "/"
    case_sensitive: bool = True
    aliases: tuple[tuple[str, str], ...] = ()
    prefixes: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def patterns(self, rule: PermissionRule) -> list[Steps]:
        """The alternatives of *rule* from the root: as written, and in the operator's other spelling.

        An allow has the real spelling in place of the other, a deny or ask has both.
        """
        patterns: list[Steps] = []
        for steps in parse_glob(rule.pattern).steps(self.work_dir):
            moved = [found for given, real in self.aliases if (found := moved_steps(steps, given, real))]
            patterns += [steps, *moved] if rule.action != "allow" or not moved else moved
        return patterns

    def resolved(self, rule: PermissionRule) -> Iterator[Steps]:
        """:meth:`patterns` and, for a deny or ask, each with its literal prefix resolved."""
        for steps in self.patterns(rule):
            yield steps
            prefix = literal_prefix(steps)
            if rule.action != "allow" and prefix is not None:
                for real in self.prefixes.get(prefix, ()):
                    yield (*path_names(real), *steps[len(path_names(prefix)) :])


class PathRules:
    """The rules of one path operation.

    Args:
        rules: in the order in which they are tried.
        default: what happens where none matches.
        place: where they are applied.
    """

    def __init__(self, rules: Sequence[PermissionRule], default: Action, place: Place) -> None:
        self._outcomes = _outcomes(rules, default)
        self._rules = tuple(rules)
        self._place = place
        members = [Member(i, steps, r.action != "allow") for i, r in enumerate(rules) for steps in place.resolved(r)]
        self._written = GlobSet(members)
        self._folded = None if place.case_sensitive else GlobSet(_folded(members))
        self._memory: dict[str, Outcome] = {}

    def decide(self, name: str) -> Outcome:
        """Return what decides on *name*.

        Raises:
            InvalidArgumentError: *name* is no text, or holds a NUL.
        """
        found = self._memory.get(name) if isinstance(name, str) else None
        if found is None:
            found = self._outcomes[self._first(normal_path(name, self._place.work_dir))]
            if len(name) <= MAX_KEY:
                self._remember(name, found)
        return found

    def _remember(self, name: str, found: Outcome) -> None:
        if len(self._memory) >= MAX_REMEMBERED:
            self._memory.clear()
        self._memory[name] = found

    def _first(self, path: str) -> int:
        default = len(self._rules)
        first = self._written.first(path)
        if self._folded is None:
            return default if first is None else first
        folded = [self._folded.first(spelling) for spelling in folded_paths(path)]
        return min(default if index is None else index for index in (first, *folded))

    def can_refuse(self) -> bool:
        """Whether any path can come out as an ask or a deny."""
        for rule in self._rules:
            if rule.action != "allow":
                return True
            if (Gap.GLOBSTAR,) in self._place.patterns(rule):
                return False
        return self._outcomes[-1].strictness > 0

    def may_allow_beneath(self, directory: str) -> bool:
        """Whether a path beneath *directory*, absolute and normal, may be allowed."""
        cover, alive = self._written.beneath(directory)
        covers = [cover]
        if self._folded is not None:
            covers += [self._folded.beneath(spelling)[0] for spelling in folded_paths(directory)]
        end = min(len(self._rules) if index is None else index for index in covers)
        return any(self._outcomes[index].strictness == 0 for index in (*(i for i in alive if i < end), end))


def _folded(members: Iterable[Member]) -> Iterator[Member]:
    """The members that refuse, for folded paths; an allow holds as written only."""
    for member in members:
        if member.beneath:
            for steps in folded_steps(member.steps):
                yield Member(member.index, steps, beneath=True)


class CommandRules:
    """The rules of ``execute``.

    Args:
        rules: in the order in which they are tried.
        default: what happens where none matches.
    """

    def __init__(self, rules: Sequence[PermissionRule], default: Action) -> None:
        self._outcomes = _outcomes(rules, default)
        self._patterns = [compile_command(rule.pattern) for rule in rules]
        self._index = CommandIndex(self._patterns)

    def decide(
        self, line: str, commands: Sequence[Sequence[str]] | None, candidates: Sequence[Sequence[str]] = ()
    ) -> tuple[Outcome, str]:
        """Return what decides on a command line, and the text that it decides on.

        Each simple command is decided by the first rule that matches it, or by the default. The whole
        line is decided by a deny or ask that matches it, unless one allow before that matches every
        simple command. The strictest holds.

        Args:
            line: the whole command line.
            commands: the texts of each simple command, as written first; None when the line cannot be split.
            candidates: what was found of them in such a line; no allow holds there.
        """
        found = candidates if commands is None else commands
        votes = [(self._first(texts, refusing=commands is None), texts[0]) for texts in found]
        refused = self._refused_line(line, commands or ())
        if refused is not None or not votes:
            votes.append((len(self._patterns) if refused is None else refused, line))
        return max(((self._outcomes[index], text) for index, text in votes), key=strictest)

    def _candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, bool, CommandPattern]]:
        """The rules that may match one of *texts*, in order: index, whether it is an allow, pattern."""
        for index in self._index.candidates(texts):
            yield index, self._outcomes[index].strictness == 0, self._patterns[index]

    def _first(self, texts: Sequence[str], *, refusing: bool) -> int:
        """The first rule that matches a simple command, of all or of those that refuse."""
        for index, allows, pattern in self._candidates(texts):
            if (_allows(pattern, texts) and not refusing) if allows else any(map(pattern.matches, texts)):
                return index
        return len(self._patterns)

    def _refused_line(self, line: str, commands: Sequence[Sequence[str]]) -> int | None:
        """The first rule that refuses the whole line, unless one allow before holds for every simple command."""
        refusing = (i for i, allows, pattern in self._candidates([line]) if not allows and pattern.matches(line))
        refused = next(refusing, None)
        if refused is None or not commands:
            return refused
        for index, allows, pattern in self._candidates(commands[0]):
            if index < refused and allows and all(_allows(pattern, texts) for texts in commands):
                return None
        return refused

    def can_refuse(self) -> bool:
        """Whether any command can come out as an ask or a deny."""
        return any(outcome.strictness for outcome in self._outcomes)


def _allows(pattern: CommandPattern, texts: Sequence[str]) -> bool:
    """Whether an allow holds: for the text as written, or by the bare name of a program that is where it belongs."""
    program = texts[0].partition(" ")[0]
    trusted = program.rpartition("/")[0] in _PROGRAM_DIRECTORIES
    return any(map(pattern.matches, texts if trusted else texts[:1]))
