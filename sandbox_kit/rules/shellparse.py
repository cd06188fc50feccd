"""The simple commands of shell text, found by its grammar; nothing is run or expanded.

Compound commands are taken apart, and so are substitutions, here-documents and function bodies: every
program that the text could run comes out as one command. Where shells read a text differently, or the text
is broken, it raises instead of guessing.

Source: POSIX.1-2017 XCU 2.9, 2.10; the Bash manual for ``[[ ]]``, ``(( ))``, ``&>``, ``<<<`` and arrays.
"""

from __future__ import annotations

import re

from attrs import Factory, define

from sandbox_kit.rules.rawcommands import Budget, RawCommand, Redirection
from sandbox_kit.rules.shellwords import ShellSyntaxError, Word, WordReader, escape, plain

__all__ = ["parse_shell", "reads_differ"]

_BLANK = frozenset((" ", "\t", "\\"))
_OPERATORS = frozenset(("", ")", "#", "\n", "(", "<", ">", ";", "&", "|"))
_BLANKS = re.compile(r"(?:[ \t]+|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECTION = re.compile(r"<<<|<<-|<<|<>|<&|<|>>|>&|>\||>")
_BASH_REDIRECTION = re.compile(r"&>>|&>")
_SEPARATOR = re.compile(r";;&|;;|;&|;|&&|&|\|\||\|&|\|")
_DESCRIPTOR = re.compile(r"\d+|-|\d+-")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_TIME_OPTION = re.compile(r"(?:-p|--)(?![^ \t\n;&|()])")
_DROPPED = ("if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}")
_KEYWORDS = frozenset((*_DROPPED, "esac", "for", "select", "case", "function", "[[", "time", "coproc"))
_READS_DIFFER = re.compile(r"\$(?:\\\n)*'|&>|\((?:\\\n)*\(|\[\[")


def reads_differ(text: str) -> bool:
    """Whether Bash and a plain POSIX shell could split *text* differently."""
    return _READS_DIFFER.search(text) is not None


@define
class _Heredoc:
    delimiter: str
    quoted: bool
    strip_tabs: bool
    command: RawCommand


@define
class _Frame:
    """One list of commands: of the whole text, or of a substitution in it."""

    closer: str
    open: list[str] = Factory(list)
    command: RawCommand = Factory(RawCommand)
    pattern: bool = False
    heredocs: list[_Heredoc] = Factory(list)


def parse_shell(text: str, bash: bool, depth: int, budget: Budget, found: list[RawCommand]) -> None:
    """Append the simple commands of *text* to *found*, those of a substitution before the one that holds it.

    Args:
        text: the shell text.
        bash: whether it is read as Bash does, or as a plain POSIX shell.
        depth: how many texts this one is nested in.
        budget: shared by all texts of one command line.
        found: what was read before an error stays in it.

    Raises:
        ShellSyntaxError: it cannot be split, or is over a cap.
    """
    _ShellParser(text, bash, depth, budget, found).read_commands("")


class _ShellParser(WordReader):
    def __init__(self, text: str, bash: bool, depth: int, budget: Budget, found: list[RawCommand]) -> None:
        super().__init__(text, bash, depth)
        self.budget = budget
        self.found = found
        self.frames: list[_Frame] = []
        self.frame = _Frame("")
        self.piped = False

    def read_nested(self, text: str) -> None:
        self.budget.nest(text, self.level + 1)
        parse_shell(text, self.bash, self.level + 1, self.budget, self.found)

    def read_commands(self, closer: str) -> None:
        outer, self.frame = self.frame, _Frame(closer)
        self.frames.append(self.frame)
        while self._step():
            pass
        frame, self.frame = self.frames.pop(), outer
        if frame.open or (closer and frame.heredocs):
            raise ShellSyntaxError("something is left open")

    def _step(self) -> bool:
        """Read one token; False once the frame's list is at its end."""
        char = self.text[self.pos : self.pos + 1]
        if char in _BLANK:
            self.take(_BLANKS)
            char = self.text[self.pos : self.pos + 1]
        if char not in _OPERATORS:
            self._word()
        elif char == "":
            return self._end()
        elif char == ")":
            return self._close()
        elif char == "#":
            self.take(_COMMENT)
        elif char == "\n":
            self._newline()
        elif char == "(":
            self._open()
        elif char in "<>" or (self.bash and char == "&" and _BASH_REDIRECTION.match(self.text, self.pos)):
            self._redirection()
        else:
            self._separator()
        return True

    def _end(self) -> bool:
        if self.frame.closer:
            raise ShellSyntaxError("unclosed substitution")
        self._flush()
        return False

    def _close(self) -> bool:
        """A ``)``: the end of a case pattern, of a subshell, or of the frame itself."""
        self.pos += 1
        frame = self.frame
        if frame.pattern:
            frame.pattern = False
            return True
        self._flush()
        if frame.open and frame.open[-1] == "(":
            frame.open.pop()
            return True
        if frame.open or not frame.closer:
            raise ShellSyntaxError("unexpected )")
        return False

    def _flush(self) -> None:
        """End the command that is being read."""
        if not self.frame.command.is_empty:
            self.frame.command.piped = self.piped
            self.found.append(self.frame.command)
            self.frame.command = RawCommand()

    def _newline(self) -> None:
        self.pos += 1
        command = self.frame.command
        if command.header != "case" and (command.header != "for" or len(command.words) != 1):
            self._flush()
        if any(frame.heredocs for frame in self.frames[:-1]):
            raise ShellSyntaxError("a here-document across a substitution: shells differ")
        heredocs, self.frame.heredocs = self.frame.heredocs, []
        for heredoc in heredocs:
            self._heredoc_body(heredoc)

    def _separator(self) -> None:
        separator = self.take(_SEPARATOR)
        frame = self.frame
        if frame.pattern:
            if separator != "|":
                raise ShellSyntaxError("unexpected operator in a case pattern")
            return
        self._flush()
        self.piped = self.piped or separator in ("|", "|&")
        if separator in (";;", ";&", ";;&"):
            if frame.open[-1:] != ["case"]:
                raise ShellSyntaxError(f"{separator} outside case")
            frame.pattern = True

    def _open(self) -> None:
        """A ``(``: of a case pattern, a subshell, arithmetic, an array or a function."""
        self.pos += 1
        command = self.frame.command
        if self.frame.pattern:
            return
        glued = self.pos > 1 and self.text[self.pos - 2] == "="
        self.skip_continuations()
        arithmetic = (self.bash and command.is_empty) or command.header == "for"
        if arithmetic and self.text.startswith("(", self.pos):
            self.pos += 1
            self.read_arithmetic()
        elif command.is_empty:
            self.frame.open.append("(")
        elif glued and command.assignments and not command.words:
            self._array()
        else:
            self._function(command)

    def _function(self, command: RawCommand) -> None:
        self.take(_BLANKS)
        if not self.text.startswith(")", self.pos) or len(command.words) != 1 or command.assignments:
            raise ShellSyntaxError("unexpected (")
        self.pos += 1
        self.frame.command = RawCommand()

    def _array(self) -> None:
        """The words of ``NAME=( ... )``; they count as assigned."""
        while (char := self.peek()) != ")":
            if char in " \t\n":
                self.pos += 1
            elif char == "#":
                self.take(_COMMENT)
            elif char in ";&|<>(":
                raise ShellSyntaxError("unexpected operator in an array")
            else:
                self.budget.word()
                self.frame.command.assignments.append(self.read_word())
        self.pos += 1

    def _word(self) -> None:
        self.budget.word()
        word = self.read_word()
        if self.frame.pattern:
            if word.is_bare("esac"):
                self._esac()
        elif self.frame.command.header:
            self._header_word(word)
        elif not self._is_keyword(word) and not self._is_descriptor(word):
            command = self.frame.command
            is_assignment = not command.words and _ASSIGNMENT.match(word.head)
            (command.assignments if is_assignment else command.words).append(word)

    def _is_descriptor(self, word: Word) -> bool:
        """Whether it is the number before a redirection."""
        return self.text[self.pos : self.pos + 1] in ("<", ">") and word.code.isdecimal() and not word.quoted

    def _is_keyword(self, word: Word) -> bool:
        """Whether *word* stands where a command starts and is a keyword, and act on it."""
        command = self.frame.command
        if word.head not in _KEYWORDS or command.words or command.assignments or command.redirections:
            return False
        if word.is_bare(*_DROPPED):
            return True
        if word.is_bare("esac"):
            self._esac()
        elif word.is_bare("for", "select"):
            command.header = "for"
        elif word.is_bare("case", "function"):
            command.header = word.head
        elif self.bash and word.is_bare("[["):
            self._conditional(word)
        elif word.is_bare("time"):
            return self._time()
        elif self.bash and word.is_bare("coproc"):
            raise ShellSyntaxError("coproc")
        else:
            return False
        return True

    def _time(self) -> bool:
        """Whether ``time`` is the keyword, as it is with no option but ``-p``; the program takes others."""
        self.take(_BLANKS)
        return self.take(_TIME_OPTION) != "" or not self.text.startswith("-", self.pos)

    def _esac(self) -> None:
        if self.frame.open[-1:] != ["case"]:
            raise ShellSyntaxError("unexpected esac")
        self.frame.open.pop()
        self.frame.pattern = False

    def _header_word(self, word: Word) -> None:
        """A word after ``for``, ``case`` or ``function``."""
        command = self.frame.command
        if command.header == "function":
            self.frame.command = RawCommand()
            if self._take_text("("):
                self._function(RawCommand(words=[word]))
        elif command.header == "case" and len(command.words) == 1 and word.is_bare("in"):
            self._flush()
            self.frame.open.append("case")
            self.frame.pattern = True
        elif command.header == "for" and len(command.words) <= 1 and word.is_bare("do", "{"):
            self._flush()
        else:
            command.words.append(word)

    def _take_text(self, text: str) -> bool:
        self.take(_BLANKS)
        found = self.text.startswith(text, self.pos)
        self.pos += len(text) if found else 0
        return found

    def _conditional(self, first: Word) -> None:
        """The words of ``[[ ... ]]``, operators among them, as one command."""
        words = self.frame.command.words
        words.append(first)
        while not words[-1].is_bare("]]"):
            self.take(_BLANKS)
            if self.peek() in "#;\n":
                raise ShellSyntaxError("unclosed [[")
            if self.peek() in "&|<>()":
                self.pos += 1
            else:
                self.budget.word()
                words.append(self.read_word())

    def _redirection(self) -> None:
        operator = self.take(_BASH_REDIRECTION) or self.take(_REDIRECTION)
        if operator in ("<", ">") and self.text.startswith("(", self.pos):
            self._process_substitution(operator)
            return
        if self.frame.pattern:
            raise ShellSyntaxError("redirection in a case pattern")
        self.take(_BLANKS)
        if operator in ("<", ">") and self.text.startswith(("<(", ">("), self.pos):
            self.pos += 1
            self._process_substitution(self.text[self.pos - 1])
            return
        self.budget.word()
        target = self.read_word()
        if not (target.code or target.quoted) or target.head.startswith("#"):
            raise ShellSyntaxError("redirection without a target")
        self._redirect(operator, target)

    def _redirect(self, operator: str, target: Word) -> None:
        command = self.frame.command
        command.has_body = command.has_body or operator in ("<<<", "<<", "<<-")
        if operator == "<<<":
            command.bodies.append(plain(target.code))
        elif operator in ("<<", "<<-"):
            if "\0" in target.code:
                raise ShellSyntaxError("expansion in the delimiter of a here-document")
            self.frame.heredocs.append(_Heredoc(plain(target.code), target.quoted, operator == "<<-", command))
        elif operator not in ("<&", ">&") or not _DESCRIPTOR.fullmatch(target.code):
            command.redirections.append(Redirection(target, write=operator not in ("<", "<&")))

    def _process_substitution(self, operator: str) -> None:
        """``<(..)`` or ``>(..)``: the parenthesis is next; it stands for a word that names no file."""
        start = self.pos
        self.pos += 1
        self.descend()
        self.read_commands(")")
        self.level -= 1
        self.frame.command.words.append(Word(f"\0{escape(operator + self.text[start : self.pos])}\0"))

    def _heredoc_body(self, heredoc: _Heredoc) -> None:
        """Read the body that starts here, and past its delimiter."""
        lines: list[str] = []
        while self.pos < len(self.text):
            line, joined = self._heredoc_line(heredoc)
            if line == heredoc.delimiter:
                if joined:
                    raise ShellSyntaxError("a delimiter over two lines: shells differ")
                break
            lines.append(line)
        body = "\n".join(lines)
        heredoc.command.bodies.append(body)
        if not heredoc.quoted:
            self.budget.nest(body, self.level + 1)
            _ShellParser(body, self.bash, self.level + 1, self.budget, self.found).read_heredoc()

    def _heredoc_line(self, heredoc: _Heredoc) -> tuple[str, bool]:
        """One line of the body, continuations joined, and whether there were any."""
        parts: list[str] = []
        while True:
            end = self.text.find("\n", self.pos)
            end = len(self.text) if end < 0 else end
            line = self.text[self.pos : end]
            self.pos = end + 1
            if heredoc.strip_tabs and not parts:
                line = line.lstrip("\t")
            trailing = len(line) - len(line.rstrip("\\"))
            if heredoc.quoted or trailing % 2 == 0 or end == len(self.text):
                return "".join([*parts, line]), bool(parts)
            parts.append(line[:-1])
