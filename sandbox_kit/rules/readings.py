"""What a program takes a text for: names and commands, code, or prose that names no path.

A text is a word with blanks in it, the program that a word spells, what is printed, or a here-document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from attrs import frozen

from sandbox_kit.rules.wrappers import READERS, SHELLS, git_subcommand

__all__ = ["Reading", "code_words", "input_reading", "literals", "pattern_words", "word_reading"]


class Reading(IntEnum):
    """What a text is taken for, the strictest last.

    Attributes:
        PROSE: it names nothing.
        CODE: it names what stands between quotes in it.
        NAMES: every piece of it may be a name.
    """

    PROSE = 0
    CODE = 1
    NAMES = 2


_PRINTERS = frozenset(("echo", "printf"))
_CHANGE_FILES = frozenset(("chmod", "chown", "cp", "install", "ln", "mkdir", "mv", "rm", "rmdir", "tee", "touch"))

_TALKERS = _PRINTERS | {"gh", "glab", ":"}
_HARMLESS = READERS - {".", "source", "cd", "pushd", "find", "less"} | _CHANGE_FILES | _TALKERS | {"uniq"}
"""Programs to which their input is neither a list of names nor something to run."""

_GIT_TEXTS = "add branch checkout commit fetch grep log merge notes pull push show stash status tag"
_GIT_HARMLESS = frozenset(_GIT_TEXTS.split())

_ENGLISH = frozenset(("cut", "date", "diff", "file", "find", "join", "more", "sort", "test", "true", "type"))
_FILE_PROGRAMS = (READERS | SHELLS | _CHANGE_FILES | {"dd", "git", "sudo", "tar", "xxd", "zip"}) - _ENGLISH
"""Programs whose name at the start of a text makes it a command line; those that are plain English are left out."""

_COMMANDERS = """
    at crontab ed emacs entr ex expect gdb git gsed lldb make mysql nvim psql rsync screen sed sqlite3 tar tclsh tmux
    vi vim xterm
"""
_TAKES_COMMANDS = frozenset(_COMMANDERS.split())
"""Programs that take command lines, their own or the shell's, as words."""

_INTERPRETERS = frozenset(
    ("python", "pypy", "perl", "ruby", "node", "nodejs", "lua", "php", "deno", "bun", "Rscript", "osascript")
)
_CODE_OPTIONS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("python", "pypy"), re.compile(r"-[A-Za-z]*c")),
    **dict.fromkeys(("node", "nodejs", "deno", "bun"), re.compile(r"-p?e|-p|--eval|--print")),
    "php": re.compile(r"-[rBRE]"),
}
_CODE_OPTION = re.compile(r"-[A-Za-z0-9]*[eE]")
_RUNS = re.compile(r"system|popen|exec|spawn|subprocess|getline|\bq[qwx]?\s?[^\w\s,=)]|%[qQwWx][^\w\s]", re.IGNORECASE)
"""Signs that code starts programs, or has quotes of another kind."""

_SED_EXECUTES = re.compile(r"(?<![A-Za-z])[gpIiMm]*e[gpIiMmw]*(?![A-Za-z])")


@frozen
class _Script:
    """How the words of a program show which of them is its script or pattern.

    Attributes:
        flags: options that take no other word.
        takes_word: options that take the next word, which is no script.
        explicit: options that take the script from the next word; with one of them no operand is one.
    """

    flags: re.Pattern[str]
    takes_word: frozenset[str] = frozenset()
    explicit: re.Pattern[str] = re.compile(r"-[a-eg-zA-Z]*e|--expression|--regexp")


_GREP_FLAGS = re.compile(
    r"-[abcEFGHhIiLlnoPqRrSsTUuVvwxyZz]+|-[ABCm]\d+|--(?:colou?r|count|fixed-strings|files-with(?:out)?-match(?:es)?"
    r"|hidden|ignore-case|line-number|no-[a-z-]+|only-matching|quiet|recursive|word-regexp)|--[a-z-]+=.*",
    re.DOTALL,
)
_GREP = _Script(_GREP_FLAGS, frozenset(("-A", "-B", "-C", "-m", "--include", "--exclude", "--exclude-dir", "-g", "-t")))
_SED = _Script(re.compile(r"-[nErsuz]+|-[nErsuz]*i(?:\..*)?|--(?:quiet|silent|null-data|regexp-extended)"))
_AWK = _Script(re.compile(r"-[Fv].+", re.DOTALL), frozenset(("-F", "-v")))
_JQ = _Script(re.compile(r"-[acCjMnrRsSe]+|--(?:compact-output|exit-status|null-input|raw-output|slurp|sort-keys)"))
_PATTERNS: Mapping[str, _Script] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg"), _GREP),
    **dict.fromkeys(("sed", "gsed"), _SED),
}
_CODES: Mapping[str, _Script] = {**dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK), "jq": _JQ, "yq": _JQ}

_BLANK = re.compile(r"\s")
_QUOTES = re.compile(r"['\"`]")
_PLAIN = re.compile(r"[\w./~+@-]+")


def word_reading(name: str, text: str, *, expanded: bool = False) -> Reading:
    """What the program *name* takes a word for that has blanks in it.

    Args:
        name: the program.
        text: the word.
        expanded: whether it comes from an expansion, which may make several words of it.
    """
    if name in _PRINTERS:
        return Reading.PROSE
    return Reading.NAMES if expanded or name in _TAKES_COMMANDS or _starts_program(text) else Reading.CODE


def _starts_program(text: str) -> bool:
    """Whether *text*, or what it sets an option to, starts like a command line."""
    starts = (text, text.partition("=")[2])
    return any(start.lstrip(" \t\n|&;!(").partition(" ")[0] in _FILE_PROGRAMS for start in starts)


def input_reading(name: str, words: Sequence[str], *, substituted: bool = False) -> Reading:
    """What the program *name*, run as *words*, takes its input for; or the words that a substitution gives it."""
    harmless = _TALKERS if substituted else _HARMLESS
    if name in harmless or (name == "git" and git_subcommand(words)[1] in _GIT_HARMLESS):
        return Reading.PROSE
    return Reading.CODE if _interpreter(name) in _INTERPRETERS else Reading.NAMES


def literals(code: str) -> Iterator[tuple[str, bool]]:
    """What code may name: the texts between its quotes, each with whether its pieces are names too.

    A text with blanks is at most a name as a whole, and prose where its last word has no slash. Which quotes
    belong together is not asked, so that none is missed. Code that starts programs, or has quotes that only its
    own language knows, is one such text.
    """
    if _RUNS.search(code):
        yield code, True
        return
    for text in _QUOTES.split(code)[1:-1]:
        last = _BLANK.split(text)[-1]
        if last == text or _starts_program(text):
            yield text, True
        elif "/" in last:
            yield text, False


def code_words(name: str, words: Sequence[str]) -> list[int]:
    """The indices of the words that are code of the program *name*'s own language."""
    if script := _CODES.get(name):
        return _scripts(words, script)
    interpreter = _interpreter(name)
    if interpreter not in _INTERPRETERS:
        return []
    option = _CODE_OPTIONS.get(interpreter, _CODE_OPTION)
    follows = (at for at in range(2, len(words)) if option.fullmatch(words[at - 1]))
    return [at for at in follows if not _PLAIN.fullmatch(words[at])]


def _interpreter(name: str) -> str:
    return name.rstrip("0123456789.")


def pattern_words(name: str, words: Sequence[str]) -> list[int]:
    """The indices of the words that are a pattern or an editing script of the program *name*: neither names a file.

    The files that a sed script reads and writes are found elsewhere; one that may run commands is left out.
    """
    if name == "git":
        start, subcommand = git_subcommand(words)
        return [start + at for at in _scripts(words[start:], _GREP)] if subcommand == "grep" else []
    script = _PATTERNS.get(name)
    found = _scripts(words, script) if script else []
    return [at for at in found if script is not _SED or not _SED_EXECUTES.search(words[at])]


def _scripts(words: Sequence[str], script: _Script) -> list[int]:
    """The words after an option for the script, or else the first operand.

    None after an option that is not known: what it takes may be a file.
    """
    explicit = [at for at in range(2, len(words)) if script.explicit.fullmatch(words[at - 1])]
    if explicit and script is not _JQ:
        return explicit
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return [at + 1] if at + 1 < len(words) else []
        if words[at] in script.takes_word:
            at += 1
        elif not script.flags.fullmatch(words[at]):
            return []
        at += 1
    later = any(word.startswith("-") and not script.flags.fullmatch(word) for word in words[at:])
    return [at] if at < len(words) and not later else []
