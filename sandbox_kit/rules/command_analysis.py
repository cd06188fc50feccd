"""One command line taken apart: commands inside commands, directories changed to, variables set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, dropwhile, islice, pairwise, starmap

from attrs import field, frozen

from sandbox_kit.rules.claims import Claims
from sandbox_kit.rules.flow import Datum, Flow, last_name
from sandbox_kit.rules.rawcommands import Budget, RawCommand
from sandbox_kit.rules.readings import Reading, code_words, input_reading, pattern_words, word_reading
from sandbox_kit.rules.remotes import saved_name
from sandbox_kit.rules.shellexpand import HOME, expand_braces, has_glob, resolve_expansions
from sandbox_kit.rules.shellparse import parse_shell, reads_differ
from sandbox_kit.rules.shellwords import MAX_DEPTH, ShellSyntaxError, decode_ansi, escape, plain
from sandbox_kit.rules.wrappers import SHELLS, Delegation, delegation, free_texts, only_reads, program_name

__all__ = ["Analysis", "SimpleCommand"]

MAX_SED_FILES = 64
MAX_LOOSE_CHARS = 1 << 18

_CHANGE_DIRECTORY = frozenset(("cd", "chdir", "pushd"))
_DIRECTORY_OPTION = re.compile(r"-[CD]|--(?:[a-z-]*-)?(?:dir|directory|chdir|cwd|wd|tree|prefix)")
_DIRECTORY_VALUE = re.compile(r"-C(?=.)|--(?:[a-z-]*-)?(?:dir|directory|chdir|cwd|wd|tree|prefix)=")
_DECLARE = frozenset(("declare", "export", "local", "readonly", "typeset"))
_PRINT = frozenset(("echo", "printf"))
_BLANK = re.compile(r"\s")
_TAKES_NAMES = frozenset(("xargs", "parallel"))
_SED = frozenset(("sed", "gsed"))
_SED_FILE = re.compile(r"(?:(?:^|[^A-Za-z])([rRW])|(?:^|[^A-Za-z])[gpeiIMm0-9]{0,8}(w))(?=\s{0,64}([^\s;}]{1,4096}))")
_COPIES_REMOTE = frozenset(("rsync", "scp", "sftp"))
_REMOTE = re.compile(r"\w[\w.-]+:(.*)", re.DOTALL)
_SETTING = re.compile(r"([A-Z_][A-Z0-9_]*|if)=")
_READING_OPTION = re.compile(
    r"-(?!-|[A-Za-z]{0,3}[oOtT])|--(?![a-z-]*(?:dest|dir|dump|log|out|report|save|target|write))"
)
_PROGRAMS = """
    PATH MANPATH INFOPATH LD_LIBRARY_PATH LIBRARY_PATH CPATH PKG_CONFIG_PATH PYTHONPATH NODE_PATH PERL5LIB GOPATH
    CLASSPATH JAVA_HOME AR AS CC CPP CXX LD MAKE NM PYTHON RANLIB STRIP BROWSER EDITOR PAGER SHELL VISUAL
"""
_FIND_PROGRAMS = frozenset(_PROGRAMS.split())
_POSIX_SHELLS = frozenset(("ash", "dash", "posh"))
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]*\])?(\+?)=")
_DECIDES_PROGRAM = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4|(?:LD_|DYLD_|GIT_|BASH_FUNC_).*"
)

_TEXT_OPTION = re.compile(r"-[a-zA-Z]*c")
_LOOSE_COMMANDS = re.compile(r"[;&|\n(){}`]+")
_LOOSE_REDIRECTION = re.compile(r"(?<![<>])[<>]++[|&]?+\s*+([^\s;&|<>()]+)")
_LOOSE_QUOTING = re.compile(r"['\"\\\0]")


@frozen
class SimpleCommand:
    """One program and its arguments.

    Attributes:
        words: unquoted, expansions as typed, the program first.
        texts: what execute patterns see, any of them: the words joined by one blank, and the same with the
            program's basename.
    """

    words: tuple[str, ...]
    texts: tuple[str, ...] = field(eq=False)

    @classmethod
    def of(cls, words: Sequence[str]) -> SimpleCommand:
        """The command of *words*, of which there is at least one."""
        text = " ".join(words)
        if "/" not in words[0]:
            return cls(tuple(words), (text,))
        return cls(tuple(words), (text, " ".join([words[0].rpartition("/")[2], *words[1:]])))


class Analysis:
    """What is known of one command line while it is read.

    Attributes:
        commands: the simple commands found, each once, in order.
        claims: the paths found.
        is_split: whether all of it could be split.
    """

    def __init__(self) -> None:
        self.commands: dict[SimpleCommand, None] = {}
        self.claims = Claims()
        self.is_split = True
        self._budget = Budget()
        self._variables = {"HOME": HOME, "PWD": ".", "OLDPWD": ".", "IFS": " "}
        self._expanded: set[str] = set()
        self._data: list[Datum] = []
        self._input = Reading.PROSE
        self._inputs: set[str] = set()
        self._flow = Flow()
        self._feeds_shell = False
        self._loose: set[str] = set()

    def read_text(self, text: str) -> None:
        """Read shell text, and what it feeds to a shell that reads its input."""
        self._text(text, 0, "sh")
        self._finish()

    def read_words(self, words: Sequence[str]) -> None:
        """Read one command that no shell takes apart."""
        if words:
            self._guarded(" ".join(words), lambda: self._command(list(map(escape, words)), [], 0))
            self._finish()

    def _finish(self) -> None:
        """Take in what was printed, and here-documents, now that all that may read them is known."""
        found: list[Datum] = []
        while self._data:
            data, self._data = self._data, []
            found += data
            for datum in data if self._feeds_shell else ():
                self._text(datum.text, 1, "sh")
        for datum in found:
            self._guarded(datum.text, partial(self._claim, datum))

    def _claim(self, datum: Datum) -> None:
        """Claim what *datum* names to the strictest of what it may reach."""
        readings = [input_reading(program_name(each.words[0]), each.words) for each in self._uses(datum.files)]
        redirected = Reading.PROSE if self._inputs.isdisjoint(datum.files) else Reading.NAMES
        self.claims.text(datum.text, datum.write, max([self._input, redirected, *readings]))

    def _uses(self, files: tuple[str, ...]) -> Iterator[SimpleCommand]:
        """The commands that name one of *files*, by its last component."""
        return (each for each in self.commands if any(file in word for word in each.words for file in files))

    def _guarded(self, text: str, read: Callable[[], None], depth: int = 0) -> None:
        """Call *read*; where that cannot split *text*, look at it loosely."""
        try:
            read()
        except ShellSyntaxError:
            self.is_split = False
            if len(text) > MAX_LOOSE_CHARS:
                self.claims.overflow = True
            if text not in self._loose and not self.claims.overflow:
                self._loose.add(text)
                self._loosely(text, depth)

    def _text(self, text: str, depth: int, shell: str) -> None:
        for bash in _readings(text, shell):

            def read(bash: bool = bash) -> None:
                self._read(text, depth, bash)

            self._guarded(text, read, depth)

    def _read(self, text: str, depth: int, bash: bool) -> None:
        if depth:
            self._budget.nest(text, depth)
        if "\0" in text:
            raise ShellSyntaxError("NUL")
        found: list[RawCommand] = []
        failure = None
        try:
            parse_shell(text, bash, depth, self._budget, found)
        except ShellSyntaxError as error:
            failure = error
        for raw in found:
            self._raw(raw, depth, bash)
        if failure:
            raise failure

    def _raw(self, raw: RawCommand, depth: int, bash: bool) -> None:
        """Take in one command as the shell's grammar gives it."""
        for word in raw.assignments:
            self._assign(word.code)
        for redirection in raw.redirections:
            target = redirection.target.code
            if not redirection.write:
                self._inputs.add(last_name(target))
            for code in dict.fromkeys([target, self._resolved(target)]):
                self.claims.redirection(code, redirection.write)
        codes = [code for word in raw.words for code in (expand_braces(word.code) if bash else [word.code])]
        outer, self._flow = self._flow, Flow.of(raw, codes)
        try:
            if raw.header or not codes:
                self._shell_words(raw, codes)
            else:
                self._variants(codes, raw.bodies, depth)
        finally:
            self._flow = outer

    def _shell_words(self, raw: RawCommand, codes: list[str]) -> None:
        """Take in the words of a loop's head, and what is fed to a group or a loop as a whole."""
        self._words(dict.fromkeys([*codes, *map(self._resolved, codes)]), write=raw.header == "for")
        if raw.has_body:
            self._input = Reading.NAMES
        self._keep(raw.bodies, write=True)

    def _variants(self, codes: list[str], bodies: list[str], depth: int) -> None:
        """Take in one command as typed, and as its expansions most likely make it."""
        self._command(codes, bodies, depth)
        if codes[0] and not any("\0" in code for code in codes):
            return
        resolved = self._resolved_words(codes)
        if resolved and resolved != codes:
            self._command(resolved, bodies, depth)

    def _command(self, codes: list[str], bodies: list[str], depth: int) -> None:
        """Take in one command, given as coded words, and all that it runs."""
        if depth > MAX_DEPTH:
            raise ShellSyntaxError("nested too deep")
        words = [plain(code) for code in codes]
        self.commands[SimpleCommand.of(words)] = None
        name = program_name(words[0])
        handed = delegation(name, words)
        code = [at for at in code_words(name, words) if not has_glob(codes[at])]
        own = _own(name, words, codes, handed, code)
        write = not only_reads(name, words)
        starts = self.claims.starts
        directories = _directory_options(own) if write or name == "git" else []
        for directory in directories:
            self.claims.directory(directory)
        self._operands(name, own, write)
        for at in code:
            self.claims.text(words[at], write, Reading.CODE)
        self._builtin(name, words, codes)
        self._handed(name, codes, handed, bodies, depth)
        if not handed.commands or name in _TAKES_NAMES:
            self._take_input(name, words)
        if not handed.commands and not handed.reads_stdin:
            self._keep(bodies, write)
        if directories:
            self.claims.starts = starts

    def _take_input(self, name: str, words: list[str]) -> None:
        """Note what a command takes the texts of the line for that may reach it."""
        if self._flow.reached:
            self._input = max(self._input, input_reading(name, words))
        if self._flow.substituted:
            self._input = max(self._input, input_reading(name, words, substituted=True))

    def _operands(self, program: str, codes: list[str], write: bool) -> None:
        """Take in a program's own words: options and settings are never written to, but those for output."""
        for code in codes:
            setting = _SETTING.match(code)
            remote = _REMOTE.match(code) if program in _COPIES_REMOTE else None
            if remote:
                self.claims.word(saved_name(remote[1]), write)
            elif program not in _DECLARE and not (setting and setting[1] in _FIND_PROGRAMS):
                expanded = code in self._expanded
                reading = word_reading(program, code, expanded=expanded) if _BLANK.search(code) else Reading.NAMES
                self.claims.word(code, write and not (setting or _READING_OPTION.match(code)), reading)

    def _handed(self, name: str, codes: list[str], handed: Delegation, bodies: list[str], depth: int) -> None:
        """Take in what a command runs besides itself."""
        for start, end in handed.commands:
            if "/" not in codes[start]:
                self.claims.word(codes[start], write=True)
            self._variants(codes[start:end], bodies, depth + 1)
        for text in handed.texts:
            self._text(text, depth + 1, name)
        if handed.reads_stdin:
            self._feeds_shell = True
            for body in bodies:
                self._text(body, depth + 1, name)

    def _builtin(self, name: str, words: list[str], codes: list[str]) -> None:
        """Follow what changes the shell itself, and keep what is printed."""
        if name in _CHANGE_DIRECTORY:
            targets = [code for code in codes[1:] if not code.startswith("-")]
            for target in targets or [HOME]:
                self.claims.directory(target)
        elif name in _DECLARE:
            for code in codes[1:]:
                self._assign(code)
        elif name in _PRINT:
            self._keep([decode_ansi(" ".join(words[1:]))], write=False)
        elif name in _SED:
            for match in (found for word in words[1:] for found in islice(_SED_FILE.finditer(word), MAX_SED_FILES)):
                self.claims.word(escape(match[3]), write=match[1] not in ("r", "R"))

    def _assign(self, code: str) -> None:
        """Take in ``NAME=value``, or a word of an array."""
        match = _ASSIGNMENT.match(code)
        name, append = match.groups() if match else ("", "")
        value = code[match.end() :] if match else code
        resolved = self._resolved(value)
        self._variables[name] = self._variables.get(name, "") + resolved if append else resolved
        if name not in _FIND_PROGRAMS:
            self._words([value, resolved], write=False)
        if name == "CDPATH":
            for directory in plain(resolved).split(":"):
                self.claims.directory(escape(directory))
        if _DECIDES_PROGRAM.fullmatch(name):
            self.commands[SimpleCommand.of([plain(code)])] = None

    def _words(self, codes: Iterable[str], write: bool) -> None:
        for code in codes:
            self.claims.word(code, write, word_reading("", code, expanded=code in self._expanded))

    def _keep(self, texts: Iterable[str], write: bool) -> None:
        """Keep what is printed, and here-documents, until all that may read them is known."""
        self._data.extend(Datum(text, write, self._flow.files) for text in texts)

    def _resolved(self, code: str) -> str:
        if "\0" not in code:
            return code
        resolved = resolve_expansions(code, self._variables)
        self._budget.spend(len(resolved))
        self._expanded.add(resolved)
        return resolved

    def _resolved_words(self, codes: list[str]) -> list[str]:
        """The words with what expansions most likely are.

        Unknown ones before the program vanish, as they do in a shell; elsewhere they stay as typed. A program
        that comes from expansions is split at blanks.
        """
        resolved = [self._resolved(code) or code for code in dropwhile(lambda code: not self._resolved(code), codes)]
        if resolved and "\0" in codes[len(codes) - len(resolved)]:
            resolved[:1] = [escape(word) for word in plain(resolved[0]).split()]
        return resolved

    def _loosely(self, text: str, depth: int) -> None:
        """Look at text that cannot be split: quotes dropped, every operator taken as one."""
        text = text.replace("\\\n", "")
        for reading in dict.fromkeys([text, decode_ansi(text.replace("\0", ""))]):
            try:
                self._loose_reading(_LOOSE_QUOTING.sub("", reading), max(depth + 1, MAX_DEPTH - 1))
                self.claims.text(reading, write=True)
            except ShellSyntaxError:
                continue

    def _loose_reading(self, text: str, depth: int) -> None:
        for target in dict.fromkeys(_LOOSE_REDIRECTION.findall(text)):
            self.claims.redirection(target, write=True)
        for chunk in dict.fromkeys(_LOOSE_COMMANDS.split(text)):
            codes = chunk.split()
            while codes and _ASSIGNMENT.match(codes[0]):
                self._assign(codes.pop(0))
            if codes:
                self._loose_command(codes, depth)

    def _loose_command(self, codes: list[str], depth: int) -> None:
        try:
            self._command(codes, [], depth)
        except ShellSyntaxError:
            self._words(codes, write=True)
        option = next((at for at, code in enumerate(codes) if _TEXT_OPTION.fullmatch(code)), len(codes))
        if codes[option + 1 :]:
            self.commands[SimpleCommand.of(codes[option + 1 :])] = None


def _readings(text: str, shell: str) -> tuple[bool, ...]:
    """The ways in which *shell* may read *text*: as Bash does, or not."""
    if shell in _POSIX_SHELLS:
        return (False,)
    if shell in SHELLS and shell != "sh":
        return (True,)
    return (True, False) if reads_differ(text) else (True,)


def _own(name: str, words: list[str], codes: list[str], handed: Delegation, code: list[int]) -> list[str]:
    """The program's own words: neither itself, nor what it hands on, nor code, patterns and text for people."""
    patterns = [at for at in pattern_words(name, words) if not has_glob(codes[at]) and "\0" not in codes[at]]
    if name != "git" and not (handed.ranges or code or patterns):
        return codes[1:]
    others = {0, *code, *patterns, *free_texts(name, words), *chain.from_iterable(starmap(range, handed.ranges))}
    return [code for at, code in enumerate(codes) if at not in others]


def _directory_options(codes: list[str]) -> list[str]:
    """The directories that options such as ``-C`` make a program change to."""
    values = [code[match.end() :] for code in codes if (match := _DIRECTORY_VALUE.match(code))]
    return values + [value for option, value in pairwise(codes) if _DIRECTORY_OPTION.fullmatch(option)]
