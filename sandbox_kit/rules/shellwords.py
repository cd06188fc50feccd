"""The words of shell text: quotes removed, expansions marked, patterns kept.

A word is held *coded*, as one string: an active ``* ? [ ] { } , ~`` stands bare, a quoted one has a
backslash before it, and what only the running shell knows (``$X``, ``$(cmd)``) stands as typed between two
NULs, which no command can hold.

Source: POSIX.1-2017 XCU 2.2 (quoting), 2.6 (expansions); the Bash manual for ``$'..'`` and ``$".."``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from attrs import frozen

from sandbox_kit.errors import SandboxError

__all__ = ["MAX_DEPTH", "ShellSyntaxError", "Word", "WordReader", "decode_ansi", "escape", "plain", "without_marks"]

MAX_DEPTH = 16
MAX_PARTS = 1 << 14

_SPECIAL = re.compile(r"[\\*?\[\]{},~]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BARE_RUN = re.compile(r"[^ \t\n'\"\\$`;&|<>()]+")
_BARE_WORD = re.compile(r"[^ \t\n'\"\\$`;&|<>()]++(?![^ \t\n;&|<>()])")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_HEREDOC_RUN = re.compile(r"[^\\$`]+")
_PARAMETER_RUN = re.compile(r"[^}'\"\\$`]+")
_ARITHMETIC_RUN = re.compile(r"[^()'\"\\$`]+")
_BACKQUOTED = re.compile(r"(?:[^`\\]++|\\.)*+", re.DOTALL)
_ANSI_QUOTED = re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)
_BACKSLASHED = re.compile(r"(?:\\[^\n])+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_WORD_ENDS = " \t\n;&|<>()"

_ANSI_ESCAPE = re.compile(
    r"\\(?:x\{?([0-9A-Fa-f]{1,2})\}?|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_BYTES = re.compile("[\udc80-\udcff]+")
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ShellSyntaxError(SandboxError, ValueError):
    """Shell text that cannot be split: it is broken, over a cap, or shells read it differently."""


@frozen
class Word:
    """One word.

    Attributes:
        code: the word, coded as the module describes.
        quoted: whether any of it was quoted.
        head: the bare text that it starts with; a keyword, a number or an assignment is known by it.
    """

    code: str
    quoted: bool = False
    head: str = ""

    def is_bare(self, *texts: str) -> bool:
        """Whether it is one of *texts* and nothing of it was quoted or expanded."""
        return not self.quoted and self.head == self.code and self.head in texts


def escape(text: str) -> str:
    """The code of a literal *text*."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def without_marks(code: str) -> str:
    """The code with expansions as typed: a glob that a file tree can be matched against."""
    return code.replace("\0", "")


def plain(code: str) -> str:
    """The text that *code* stands for, expansions as typed."""
    text = without_marks(code)
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def decode_ansi(text: str) -> str:
    """The text that the inside of ``$'..'`` stands for; a NUL ends it."""
    decoded = _ANSI_ESCAPE.sub(_ansi_char, text).partition("\0")[0]
    return _BYTES.sub(lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"), decoded)


def _check_size(parts: list[str]) -> None:
    if len(parts) > MAX_PARTS:
        raise ShellSyntaxError("a word of too many parts")


def _ansi_char(match: re.Match[str]) -> str:
    byte, octal, short, long, control, other = match.groups()
    if byte or octal:
        number = int(byte, 16) if byte else int(octal, 8) & 0xFF
        return chr(number) if number < 0x80 else chr(0xDC00 + number)
    if short or long:
        number = int(short or long, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    if control:
        return chr(ord(control) & 0x1F)
    return _ANSI_LETTERS.get(other, other)


class WordReader(ABC):
    """Reads words from one text, from ``pos`` on.

    Args:
        text: the shell text.
        bash: whether ``$'..'`` and ``$[..]`` are quotes and arithmetic; a plain POSIX shell has neither.
        level: how deep the text is nested in others.
    """

    def __init__(self, text: str, bash: bool, level: int) -> None:
        self.text = text
        self.bash = bash
        self.level = level
        self.pos = 0

    @abstractmethod
    def read_commands(self, closer: str) -> None:
        """Read commands up to *closer*, and past it."""

    @abstractmethod
    def read_nested(self, text: str) -> None:
        """Read the commands of another text that the shell would run in passing."""

    def descend(self) -> None:
        """Go one level down; the caller takes it back when done.

        Raises:
            ShellSyntaxError: that is too deep.
        """
        self.level += 1
        if self.level > MAX_DEPTH:
            raise ShellSyntaxError("nested too deep")

    def peek(self) -> str:
        """The next character.

        Raises:
            ShellSyntaxError: the text is at its end.
        """
        if self.pos >= len(self.text):
            raise ShellSyntaxError("the text ends inside a quote or an expansion")
        return self.text[self.pos]

    def take(self, pattern: re.Pattern[str]) -> str:
        """What *pattern* matches here, ``""`` for nothing; reading goes on after it."""
        match = pattern.match(self.text, self.pos)
        if match is None:
            return ""
        self.pos = match.end()
        return match[0]

    def skip_continuations(self) -> None:
        """Go past every backslash-newline that stands here."""
        while self.text.startswith("\\\n", self.pos):
            self.pos += 2

    def read_word(self) -> Word:
        """The word that starts here; its code is empty if none does."""
        whole = _BARE_WORD.match(self.text, self.pos)
        if whole is not None:
            self.pos = whole.end()
            return Word(whole[0], head=whole[0])
        self.skip_continuations()
        head, quoted = self.take(_BARE_RUN), False
        parts = [head]
        while self.pos < len(self.text) and (char := self.text[self.pos]) not in _WORD_ENDS:
            if bare := self.take(_BARE_RUN):
                parts.append(bare)
            elif self.text.startswith("\\\n", self.pos):
                self.pos += 2
            else:
                quoted = quoted or char in "'\"\\" or self.text[self.pos + 1 : self.pos + 2] in ("'", '"')
                parts.append(self._bare_special(char))
                _check_size(parts)
        return Word("".join(parts), quoted, head)

    def read_heredoc(self) -> None:
        """Read the expansions in a here-document whose delimiter is not quoted."""
        while self.pos < len(self.text):
            if not self.take(_HEREDOC_RUN):
                self._quoted_special(self.peek())

    def read_arithmetic(self) -> None:
        """Read to the ``))`` of arithmetic, and past it.

        Raises:
            ShellSyntaxError: the parentheses do not close as those of arithmetic do.
        """
        depth = 0
        while depth >= 0:
            if self.take(_ARITHMETIC_RUN):
                continue
            char = self.peek()
            if char in "()":
                depth += 1 if char == "(" else -1
                self.pos += 1
            elif char == "'":
                raise ShellSyntaxError("a single quote in arithmetic: shells differ")
            else:
                self._bare_special(char)
        if self.peek() != ")":
            raise ShellSyntaxError("arithmetic or nested subshells: shells differ")
        self.pos += 1

    def _bare_special(self, char: str) -> str:
        """The code of what starts with *char*, outside double quotes."""
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            return self._backslashed()
        return self._dollar(quoted=False) if char == "$" else self._backquoted(quoted=False)

    def _quoted_special(self, char: str) -> str:
        """The code of what starts with *char*, inside double quotes."""
        if char == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            self.pos += 2
            return "" if following == "\n" else escape(following if following in '$`"\\' else char + following)
        return self._dollar(quoted=True) if char == "$" else self._backquoted(quoted=True)

    def _backslashed(self) -> str:
        run = self.take(_BACKSLASHED)
        if run:
            return escape(_ESCAPED.sub(r"\1", run))
        self.pos += 2
        return "" if self.pos <= len(self.text) else escape("\\")

    def _single_quoted(self) -> str:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise ShellSyntaxError("unclosed single quote")
        content = self.text[self.pos + 1 : end]
        self.pos = end + 1
        return escape(content)

    def _double_quoted(self) -> str:
        self.pos += 1
        parts: list[str] = []
        while (char := self.peek()) != '"':
            parts.append(escape(self.take(_QUOTED_RUN)) or self._quoted_special(char))
            _check_size(parts)
        self.pos += 1
        return "".join(parts)

    def _backquoted(self, quoted: bool) -> str:
        start = self.pos
        self.pos += 1
        inner = self.take(_BACKQUOTED)
        if self.peek() != "`":
            raise ShellSyntaxError("unclosed backquote")
        self.pos += 1
        self.read_nested(re.sub(r'\\([`\\$"])' if quoted else r"\\([`\\$])", r"\1", inner))
        return self._marked(start)

    def _marked(self, start: int) -> str:
        return f"\0{escape(self.text[start : self.pos])}\0"

    def _dollar(self, quoted: bool) -> str:
        start = self.pos
        self.pos += 1
        self.skip_continuations()
        following = self.text[self.pos : self.pos + 1]
        if following == "(":
            self._substitution()
        elif following == "{":
            self._parameter(quoted)
        elif following == "[" and self.bash:
            raise ShellSyntaxError("$[..]: shells differ")
        elif following == "'" and self.bash and not quoted:
            return self._ansi_quoted()
        elif following == '"' and not quoted:
            return self._double_quoted()
        elif not self.take(_NAME):
            return "$"
        return self._marked(start)

    def _ansi_quoted(self) -> str:
        self.pos += 1
        inner = self.take(_ANSI_QUOTED)
        if self.peek() != "'":
            raise ShellSyntaxError("unclosed $'")
        self.pos += 1
        return escape(decode_ansi(inner))

    def _substitution(self) -> None:
        self.pos += 1
        self.skip_continuations()
        self.descend()
        if self.text.startswith("(", self.pos):
            self.pos += 1
            self.read_arithmetic()
        else:
            self.read_commands(")")
        self.level -= 1

    def _parameter(self, quoted: bool) -> None:
        self.pos += 1
        self.descend()
        if self.peek() in " \t\n|(":
            raise ShellSyntaxError("${ cmd; }: shells differ")
        while (char := self.peek()) != "}":
            if self.take(_PARAMETER_RUN):
                continue
            if char == "'" and quoted:
                raise ShellSyntaxError("a single quote inside a quoted ${..}: shells differ")
            if char in "'\"" or not quoted:
                self._bare_special(char)
            else:
                self._quoted_special(char)
        self.pos += 1
        self.level -= 1
