"""One path pattern: parsed, explained, matched in linear time.

A pattern is a row of positions, one before each segment and one at its end. Matching keeps
the set of positions that a path can have reached, as the bits of one integer, and moves all
of them one name at a time: nothing backtracks, whatever the pattern.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from attrs import field, frozen

from sandbox_kit.errors import InvalidArgumentError, PatternError
from sandbox_kit.rules.globsyntax import Alternative, Anchor, decode_escaped, parse_alternatives
from sandbox_kit.rules.segments import Gap, Segment, Step

__all__ = [
    "Glob",
    "PathFilter",
    "Positions",
    "Steps",
    "WalkGlob",
    "compile_filter_glob",
    "compile_walk_glob",
    "literal_prefix",
    "moved_steps",
    "normal_path",
    "parse_glob",
    "path_names",
]

Steps = tuple[Step, ...]

# What is kept of parsed patterns, in alternatives; so many characters weigh as much as one.
MAX_PARSED = 16_384
CHARS_AS_HEAVY = 64


def normal_path(path: str, work_dir: str = "/") -> str:
    """Return *path* absolute, in NFC, without ``//``, ``.``, ``..`` and a trailing slash.

    Bytes in it that surrogateescape stands for are decoded where they are UTF-8.

    Args:
        path: POSIX, relative to *work_dir* unless it starts with a slash; ``..`` is taken lexically.
        work_dir: absolute and normal itself.

    Raises:
        InvalidArgumentError: it is no text, or holds a NUL or a lone surrogate that surrogateescape does not make.
    """
    if not isinstance(path, str):
        raise InvalidArgumentError(f"a name is a str, not {type(path).__name__}")
    if "\0" in path:
        raise InvalidArgumentError(f"NUL in path {path!r}")
    if path[:1] != "/":
        path = f"{work_dir}/{path}"
    if not path.isascii():
        path = unicodedata.normalize("NFC", _decoded(path))
    if "//" in path or "/." in path or path[-1] == "/":
        return _clean(path)
    return path


def _decoded(path: str) -> str:
    try:
        return decode_escaped(path)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"a path cannot hold the character at {error.start}: {path!r}") from error


def _clean(path: str) -> str:
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)


def path_names(path: str) -> list[str]:
    """The names of a normal absolute path, outermost first; none for ``"/"``."""
    return path.split("/")[1:] if path != "/" else []


@frozen
class Glob:
    """A parsed pattern.

    Attributes:
        source: the pattern, as it was given.
        alternatives: what it means, one entry for each combination of its braces.
    """

    source: str
    alternatives: tuple[Alternative, ...] = field(repr=False)

    def steps(self, work_dir: str = "/") -> tuple[Steps, ...]:
        """Each alternative as the steps from the root, a trailing slash as ``**``."""
        return tuple(_absolute(alternative, work_dir) for alternative in self.alternatives)

    def literal_prefixes(self, work_dir: str = "/") -> frozenset[str]:
        """The literal prefix of each alternative that has one."""
        return frozenset(filter(None, map(literal_prefix, self.steps(work_dir))))

    def matches(self, path: str, work_dir: str = "/") -> bool:
        """Whether it matches the normal absolute *path* itself."""
        return PathFilter(self, work_dir).matches(path)

    def covers(self, path: str, work_dir: str = "/") -> bool:
        """Whether it matches the normal absolute *path* or a directory that it lies beneath."""
        return PathFilter(self, work_dir).covers(path)


class _Parsed:
    """The patterns parsed last: forgotten all at once when they weigh too much.

    Threads that meet here can at worst count a weight too little, until then.
    """

    def __init__(self) -> None:
        self._globs: dict[str, Glob] = {}
        self._weight = 0

    def get(self, pattern: str) -> Glob:
        glob = self._globs.get(pattern)
        if glob is None:
            glob = Glob(pattern, parse_alternatives(pattern))
            self._keep(glob)
        return glob

    def _keep(self, glob: Glob) -> None:
        weight = len(glob.alternatives) + len(glob.source) // CHARS_AS_HEAVY
        if weight > MAX_PARSED:
            return
        if self._weight + weight > MAX_PARSED:
            self._globs.clear()
            self._weight = 0
        self._globs[glob.source] = glob
        self._weight += weight


_PARSED = _Parsed()


def parse_glob(pattern: str) -> Glob:
    """Parse a rule's pattern.

    Args:
        pattern: ``NAME`` and ``**/x`` hold at any depth, ``a/b`` and ``./x`` from the work directory,
            ``/x`` from the root.

    Raises:
        PatternError: it is malformed, ambiguous, or could never match anything.
        InvalidArgumentError: it is no text.
    """
    if not isinstance(pattern, str):
        raise InvalidArgumentError(f"a pattern is a str, not {type(pattern).__name__}")
    return _PARSED.get(pattern)


def _absolute(alternative: Alternative, work_dir: str) -> Steps:
    steps = alternative.segments
    if alternative.anchor is Anchor.WORK_DIR:
        steps = (*path_names(work_dir), *steps)
    if alternative.anchor is Anchor.ANYWHERE and steps[0] is not Gap.GLOBSTAR:
        steps = (Gap.GLOBSTAR, *steps)
    if alternative.directory and steps[-1] is not Gap.GLOBSTAR:
        steps = (*steps, Gap.GLOBSTAR)
    return steps


def moved_steps(steps: Steps, directory: str, other: str) -> Steps | None:
    """*steps* beneath *other* in place of *directory*, both absolute and normal; None for steps that are not."""
    above = tuple(path_names(directory))
    return (*path_names(other), *steps[len(above) :]) if steps[: len(above)] == above else None


def literal_prefix(steps: Steps) -> str | None:
    """The absolute path that the leading literal names spell, or None when there are none."""
    names: list[str] = []
    for step in steps:
        if not isinstance(step, str):
            break
        names.append(step)
    return "/" + "/".join(names) if names else None


@frozen(eq=False)
class Positions:
    """The positions of several patterns, laid out as the bits of one integer, in order.

    Attributes:
        start: the positions before any name.
        loops: the positions that a name may pass by without leaving them.
        finals: the ends of the patterns.
        waits: for each distinct segment, the positions before it.
        ends: the end of each pattern, as the bit's index, in order.
    """

    start: int
    loops: int
    finals: int
    waits: dict[Segment, int]
    ends: tuple[int, ...]

    @classmethod
    def lay_out(cls, patterns: Iterable[tuple[Steps, bool]]) -> Positions:
        """Lay out pairs of steps and whether all beneath a match counts as matched too."""
        start = loops = finals = bit = 0
        waits: dict[Segment, int] = {}
        ends = []
        for steps, beneath in patterns:
            start |= 1 << bit
            for step in steps:
                if isinstance(step, Gap):
                    loops |= 1 << bit
                else:
                    waits[step] = waits.get(step, 0) | 1 << bit
                    bit += 1
            loops |= beneath << bit
            finals |= 1 << bit
            ends.append(bit)
            bit += 1
        return cls(start, loops, finals, waits, tuple(ends))

    def waiting_for(self, name: str) -> int:
        """The positions whose next segment matches *name*."""
        found = self.waits.get(name, 0)
        for segment, bits in self.waits.items():
            if not isinstance(segment, str) and segment.matches(name):
                found |= bits
        return found

    def run(self, names: Sequence[str]) -> Iterator[int]:
        """The positions reached before the first name, then after each."""
        reached = self.start
        yield reached
        known: dict[str, int] = {}
        for name in names:
            if name not in known:
                known[name] = self.waiting_for(name)
            reached = (reached & known[name]) << 1 | reached & self.loops
            yield reached


class PathFilter:
    """Which absolute paths a pattern selects.

    Args:
        glob: the pattern.
        work_dir: where a relative one starts; absolute and normal.
        given: another name of *work_dir*, which absolute patterns may start with; absolute and normal.
    """

    def __init__(self, glob: Glob, work_dir: str = "/", given: str | None = None) -> None:
        patterns = glob.steps(work_dir)
        moved = [moved_steps(steps, given, work_dir) for steps in patterns if given is not None]
        self._positions = Positions.lay_out((steps, False) for steps in (*patterns, *moved) if steps is not None)

    def matches(self, path: str) -> bool:
        """Whether the pattern matches the normal absolute *path* itself."""
        *_, reached = self._positions.run(path_names(path))
        return bool(reached & self._positions.finals)

    def covers(self, path: str) -> bool:
        """Whether the pattern matches the normal absolute *path* or a directory that it lies beneath."""
        finals = self._positions.finals
        return any(reached & finals for reached in self._positions.run(path_names(path)))


def compile_filter_glob(pattern: str, work_dir: str = "/", given: str | None = None) -> PathFilter:
    """Compile the ``glob=`` of a search: the semantics of a rule's pattern.

    Args:
        pattern: as in :func:`parse_glob`.
        work_dir: where a relative pattern starts; absolute.
        given: another name of *work_dir*, which an absolute pattern may start with; absolute.

    Raises:
        PatternError: as :func:`parse_glob`.
    """
    return PathFilter(parse_glob(pattern), normal_path(work_dir), None if given is None else normal_path(given))


class WalkGlob:
    """Which entries of a tree a pattern selects, and where a walk has to look for them.

    A walk carries a state, an integer: :attr:`start` at the directory that it starts from, then
    what :meth:`enter` returns for each entry. A link is selected by the state of any other entry;
    whether and how to walk on beneath it is decided by the state entered with ``link=True``.

    Args:
        alternatives: the steps of each, from the start of the walk.
        directories: for each alternative, whether it selects directories only.

    Attributes:
        depth: how many levels beneath the start anything can be selected at; None for any number.
    """

    def __init__(self, alternatives: Sequence[Sequence[Step]], directories: Sequence[bool]) -> None:
        endless = any(Gap.GLOBSTAR in steps for steps in alternatives)
        self.depth = None if endless else max(len(steps) for steps in alternatives)
        self._positions = Positions.lay_out((tuple(steps), False) for steps in alternatives)
        ends = zip(self._positions.ends, directories, strict=True)
        self._files = sum(1 << end for end, directory in ends if not directory)

    @property
    def start(self) -> int:
        """The state at the start of a walk."""
        return self._positions.start

    def enter(self, state: int, name: str, *, link: bool = False) -> int:
        """The state at the entry *name* of a directory.

        Args:
            state: the directory's.
            name: one name.
            link: whether to step across a link, which ``**`` does not do.
        """
        if not name.isascii():
            name = unicodedata.normalize("NFC", name)
        passed = 0 if link else state & self._positions.loops
        return (state & self._positions.waiting_for(name)) << 1 | passed

    def selects(self, state: int, *, is_dir: bool) -> bool:
        """Whether the entry that has *state* is selected; a trailing slash selects directories only."""
        return bool(state & (self._positions.finals if is_dir else self._files))

    def matches(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether the entry at *path*, relative to the start and without ``.`` or ``..``, is selected."""
        state = self.start
        for name in filter(None, path.split("/")):
            state = self.enter(state, name)
        return self.selects(state, is_dir=is_dir)

    def continues(self, state: int) -> bool:
        """Whether anything beneath the entry that has *state* can be selected."""
        return bool(state & (self._positions.loops | ~self._positions.finals))

    def literals(self, state: int) -> tuple[str, ...] | None:
        """The only names that can go on from *state*, sorted; None when the directory must be listed.

        It must be for a name outside ASCII too, which a file system may spell in another normal form.
        """
        if state & self._positions.loops:
            return None
        active = [segment for segment, bits in self._positions.waits.items() if bits & state]
        names = [segment for segment in active if isinstance(segment, str) and segment.isascii()]
        return tuple(sorted(names)) if len(names) == len(active) else None


def compile_walk_glob(pattern: str, *starts: str) -> WalkGlob:
    """Compile the pattern of ``glob()``, relative to the directory where the walk starts.

    A pattern without a slash selects direct children, ``**`` is zero or more directories (so
    that ``**`` selects the start itself too), and a trailing slash selects directories only.

    Args:
        pattern: the syntax of :func:`parse_glob`.
        starts: names of that directory, absolute; an absolute pattern beneath one is taken as relative to it.

    Raises:
        PatternError: it is malformed, climbs by ``..``, or is absolute and not beneath any of *starts*.
    """
    alternatives = parse_glob(pattern).alternatives
    return WalkGlob(
        [_relative(alternative, pattern, starts) for alternative in alternatives],
        [alternative.directory for alternative in alternatives],
    )


def _relative(alternative: Alternative, pattern: str, starts: Sequence[str]) -> Steps:
    steps = alternative.segments
    if alternative.anchor is not Anchor.ROOT:
        return steps
    for start in starts:
        below = moved_steps(steps, normal_path(start), "/")
        if below is not None:
            return below
    raise PatternError("absolute pattern", pattern, 0)
