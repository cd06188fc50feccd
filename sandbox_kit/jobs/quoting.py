"""Where in a shell's line a quoted word means just itself: outside of all quotes, and of what reads them otherwise."""

from __future__ import annotations

__all__ = ["LineReader"]

_WORD_ENDS = " \t\n;|&()"


class LineReader:
    """Reads a line of POSIX shell from its beginning, and tells whether a quoted word may stand next.

    It understands quotes, backslashes, comments and plain ``${NAME}``. What gives quotes another meaning
    for what follows, such as a here-document, backquotes, arithmetic or ``"$( )"``, it does not follow: from
    there on nothing may stand. Nor may it right after ``>&``, where bash expands a word twice.
    """

    def __init__(self) -> None:
        self._quote = ""
        self._previous = "\n"
        self._escaped = self._comment = self._parameter = self._duplicating = self._lost = False
        self._at_word = True

    @property
    def bare(self) -> bool:
        """Whether a quoted word may stand here."""
        inside = self._quote or self._escaped or self._comment or self._parameter or self._previous == "$"
        return not inside and not self._duplicating and not self._lost

    def read(self, text: str) -> None:
        """Go on over *text*."""
        for char in text:
            self._read_one(char)
            self._previous = char

    def read_word(self) -> None:
        """Go on over a quoted word."""
        self._previous, self._at_word = "'", False

    def _read_one(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
            self._at_word = self._at_word and char == "\n"
        elif self._comment:
            self._comment, self._at_word = char != "\n", True
        elif self._parameter:
            self._parameter = char != "}"
            self._lost |= char in "'\"`$\\(<"
        elif self._quote == "'":
            self._quote = "" if char == "'" else "'"
        elif char == "\\":
            self._escaped = True
        elif self._previous + char == "${":
            self._parameter = True
        elif self._quote:
            self._quote = "" if char == '"' else '"'
            self._lost |= char == "`" or self._previous + char == "$("
        else:
            self._read_bare(char)

    def _read_bare(self, char: str) -> None:
        self._comment = char == "#" and self._at_word
        self._at_word = char in _WORD_ENDS
        self._quote = char if char in "'\"" else ""
        if char not in " \t":
            self._duplicating = self._previous + char in (">&", "<&")
        self._lost |= char == "`" or self._previous + char in ("<<", "((", "$'", '$"')
