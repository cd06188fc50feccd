"""The one regex dialect of grep: the same lines match on every backend.

A pattern is Python's syntax, searched for within one line at a time:

- **Text.** A pattern matches characters, UTF-8. NUL, line feed, carriage return and bytes that are
  not UTF-8 are matched by nothing: not by ``.``, ``\\s`` or ``[^x]``. Asking for one of the three by
  itself is refused; in a set it is left out, so ``[^\\r\\n]`` is ``.``.
- **Line.** It ends at ``\\n``; ``^`` and ``\\A`` are its start, ``$`` and ``\\Z`` its end, before the
  ``\\r`` of a CRLF; they come first and last in their alternative. A BOM is the first character of the first line.
- **ASCII.** ``\\d \\w \\s \\b`` and their opposites count ASCII digits, letters, blanks.
- **Case.** With ``ignore_case``, a leading ``(?i)`` or within ``(?i:...)``, a character also stands
  for its own lower and upper case form, where that is one character.
- **Repetition** up to 1000; greedy or lazy is the same here, as only whether a line matches counts.
- **Refused** with :class:`~sandbox_kit.errors.PatternError`: backreferences, lookaround, atomic and
  conditional groups, possessive repetition, other flags, comments, octal escapes, POSIX classes,
  and patterns that are too large or too deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from attrs import field, frozen

from sandbox_kit.errors import InvalidArgumentError, PatternError
from sandbox_kit.search.automaton import Automaton
from sandbox_kit.search.clock import Clock
from sandbox_kit.search.emit import AsciiWriter, GrepWriter, PythonWriter, RipgrepWriter
from sandbox_kit.search.parser import parse_literal, parse_regex
from sandbox_kit.search.syntax import Node, literal, required, size, trim, ways

__all__ = ["GREP_ENV", "Dialect", "parse"]

GREP_ENV = {"LC_ALL": "C"}
"""What GNU grep needs in its environment to see bytes."""

_MAX_STEPS = 256
_MAX_OPTION = 128 * 1024 - 1
"""The bytes of the longest argument that Linux takes, without its NUL."""

_SURELY_FITS = 4_000
"""A size, in byte ranges, that no engine spells in more than that."""


@frozen(slots=False)
class Dialect:
    """A pattern that every engine understands alike.

    Attributes:
        pattern: as it was given.
        fixed: whether it is a plain string.
        ignore_case: whether case was to be ignored throughout.
    """

    pattern: str
    fixed: bool
    ignore_case: bool
    _node: Node = field(repr=False, eq=False)

    @cached_property
    def literal(self) -> bytes | None:
        """The string that is all there is to search for; None for any other pattern."""
        return literal(self._node)

    @cached_property
    def required_literal(self) -> bytes | None:
        """A string that is in every line that matches; None where none is known."""
        return required(self._node)

    @cached_property
    def linear(self) -> bool:
        """Whether a backtracking engine takes at most a fixed number of steps from each place in the text."""
        return ways(self._node) * size(self._node) <= _MAX_STEPS

    def to_python(self, *, ascii_only: bool = False) -> re.Pattern[bytes]:
        """Return the pattern for ``re``, to search the bytes of one line or of many, with their line ends.

        A search can take exponential time unless :attr:`linear`.

        Args:
            ascii_only: whether it will see ASCII alone, for which there is a faster form.
        """
        writer = AsciiWriter() if ascii_only else PythonWriter()
        return re.compile(writer.write(self._node).encode("latin-1"), re.MULTILINE)

    def to_ripgrep(self) -> list[str]:
        """Return the pattern as ripgrep's option."""
        return [f"--regexp={RipgrepWriter().write(self._node)}"]

    def to_grep(self) -> list[str]:
        """Return the pattern as options of GNU grep, to be run with :data:`GREP_ENV`.

        Bytes that are not UTF-8 are surrogate escapes, which :func:`os.fsencode` undoes.
        """
        program = GrepWriter().write(self._node).encode("latin-1")
        return ["--extended-regexp", "--regexp=" + program.decode("utf-8", "surrogateescape")]

    def _fits(self) -> bool:
        """Whether an argument of a program can hold each of its forms."""
        if size(self._node) <= _SURELY_FITS:
            return True
        options = (*self.to_ripgrep(), *self.to_grep())
        return all(len(option.encode("utf-8", "surrogateescape")) <= _MAX_OPTION for option in options)

    def matcher(self, clock: Clock | None = None) -> Callable[[bytes], bool]:
        """Return a function that tells whether a line matches, given its bytes up to the ``\\n``.

        It takes linear time whatever the pattern and the line, and is for one thread.

        Args:
            clock: limits the time of each match; None sets no limit.
        """
        if not self.linear:
            automaton = Automaton(self._node)
            return lambda line: automaton.matches(line.removesuffix(b"\r"), clock)
        search = self.to_python().search
        return lambda line: search(line) is not None


def parse(pattern: str, *, fixed: bool = False, ignore_case: bool = False) -> Dialect:
    """Return *pattern* in the dialect.

    Args:
        pattern: a regular expression, or a plain string.
        fixed: whether it is a plain string.
        ignore_case: whether to ignore case.

    Raises:
        PatternError: it is malformed, too large, or asks for what the dialect does not have.
        InvalidArgumentError: it is no text.
    """
    if not isinstance(pattern, str):
        raise InvalidArgumentError(f"a pattern is a str, not {type(pattern).__name__}")
    reader = parse_literal if fixed else parse_regex
    dialect = Dialect(pattern, fixed, ignore_case, trim(reader(pattern, ignore_case=ignore_case)))
    if not dialect._fits():
        raise PatternError("the pattern is too large to be handed to a program", pattern)
    return dialect
