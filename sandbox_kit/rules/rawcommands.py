"""Simple commands as the shell's grammar gives them, and what reading them may cost."""

from __future__ import annotations

from attrs import Factory, define

from sandbox_kit.rules.shellwords import MAX_DEPTH, ShellSyntaxError, Word

__all__ = ["Budget", "RawCommand", "Redirection"]

MAX_NESTED_CHARS = 1 << 20
MIN_NESTED_CHARS = 256
MAX_WORDS = 1 << 14


@define
class Budget:
    """What all texts of one command line may cost together.

    Attributes:
        chars: how many characters of nested text may still be read.
        words: how many words may still be read.
    """

    chars: int = MAX_NESTED_CHARS
    words: int = MAX_WORDS

    def nest(self, text: str, depth: int) -> None:
        """Account for a text at *depth* inside others.

        Raises:
            ShellSyntaxError: it lies too deep, or there was too much.
        """
        if depth > MAX_DEPTH:
            raise ShellSyntaxError("nested too deep")
        self.spend(max(len(text), MIN_NESTED_CHARS))

    def spend(self, chars: int) -> None:
        """Account for text that was made by expansion, or nested.

        Raises:
            ShellSyntaxError: there was too much.
        """
        self.chars -= chars
        if self.chars < 0:
            raise ShellSyntaxError("too much nested text")

    def word(self) -> None:
        """Account for one word.

        Raises:
            ShellSyntaxError: there were too many.
        """
        self.words -= 1
        if self.words < 0:
            raise ShellSyntaxError("too many words")


@define
class Redirection:
    """A redirection to or from a file.

    Attributes:
        target: the word that names the file.
        write: whether the file is opened for writing.
    """

    target: Word
    write: bool


@define
class RawCommand:
    """A simple command before its words are looked at.

    Attributes:
        assignments: the leading ``NAME=value`` words, and the words of an array.
        words: the program and its arguments, or the words of a ``for`` or ``case`` head.
        redirections: files only; descriptors are left out.
        bodies: here-documents and here-strings, as text.
        header: the keyword whose head this is; such a command runs nothing itself.
        has_body: whether it has a here-document, read already or not, or a here-string.
        piped: whether a pipe may lead to it.
    """

    assignments: list[Word] = Factory(list)
    words: list[Word] = Factory(list)
    redirections: list[Redirection] = Factory(list)
    bodies: list[str] = Factory(list)
    header: str = ""
    has_body: bool = False
    piped: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it was read yet."""
        return not (self.assignments or self.words or self.redirections or self.has_body or self.header)
