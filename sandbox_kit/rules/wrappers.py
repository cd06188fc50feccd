"""Programs that run other programs: where in their words the inner command stands.

Also the short list of programs that only read the files they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import Factory, define, frozen

__all__ = [
    "READERS",
    "SHELLS",
    "Delegation",
    "delegation",
    "free_texts",
    "git_subcommand",
    "only_reads",
    "program_name",
]

_READERS = """
    . [ [[ awk b2sum base32 base64 basename cat cd cksum cmp column comm cut date df diff dir dirname du echo egrep
    false fgrep file find fmt fold gawk grep gsed head hexdump jq join ldd less ls lsattr mawk md5sum more nawk nl nm od
    paste popd printf ptx pushd pwd readelf readlink realpath rev rg sed sha1sum sha224sum sha256sum sha384sum sha512sum
    size sleep sort source stat strings sum tac tail test tr tree true tsort type wc whereis which xzcat zcat zgrep
"""
READERS = frozenset(_READERS.split())
"""Programs that never write to a file that they are given, but for the options in ``_WRITING_OPTIONS``."""

_AWK_WRITES = re.compile(r"-i|--i|.*(?:print[^;}\n]{0,256}[>|]|system\s{0,8}\()", re.DOTALL)
_SED_WRITES = re.compile(r"-[a-zA-Z]*i|--i")
_WRITING_OPTIONS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK_WRITES),
    **dict.fromkeys(("sed", "gsed"), _SED_WRITES),
    "file": re.compile(r"-[a-zA-Z0]*C|--c"),
    "find": re.compile(r"-(?:delete|exec|ok|fprint|fls)"),
    "git": re.compile(r"--ou"),
    "less": re.compile(r"-[a-zA-Z]*[oO]|--[lL]|\+"),
    "rg": re.compile(r"--pre|--hostname-bin"),
    "sort": re.compile(r"-[a-zA-Z]*[oT]|--[oct]"),
    "tree": re.compile(r"-[a-zA-Z]*o|-R"),
}

_GIT_READING = """
    annotate blame cat-file check-ignore describe diff grep log ls-files ls-tree rev-list rev-parse shortlog show status
"""
_GIT_READERS = frozenset(_GIT_READING.split())
_GIT_OPTIONS_WITH_WORD = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"))
_GIT_WITH_MESSAGE = frozenset(("commit", "merge", "notes", "stash", "tag"))
_MESSAGE = re.compile(r"(-[a-ln-zA-Z]*m|--message=?)(.*)", re.DOTALL)

SHELLS = frozenset(("sh", "ash", "bash", "dash", "fish", "ksh", "lksh", "mksh", "posh", "rbash", "yash", "zsh"))

_COMMAND_OPTION = re.compile(r"--(?:session-)?command(?:=|$)|-[a-bd-zA-Z]*c")
_TEXT_OPTIONS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("flock", "runuser", "script", "sg", "su"), _COMMAND_OPTION),
    "env": re.compile(r"--split-string(?:=|$)|-[iv0]*S"),
}
_TEXT_WORDS_PROGRAMS = frozenset(("eval", "parallel", "ssh", "trap", "watch"))
_SHELL_OPTIONS_WITH_WORD = frozenset(("-o", "+o", "-O", "+O", "--rcfile", "--init-file"))
_FIND_EXECUTES = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"))
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@frozen
class _Wrapper:
    """How a program's own words end and the inner command's begin.

    Attributes:
        options: those that take the next word.
        operands: how many words of its own follow the options.
        assignments: whether ``NAME=value`` words may stand before the inner command.
    """

    options: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False


def _wrapper(options: str = "", operands: int = 0, assignments: bool = False) -> _Wrapper:
    return _Wrapper(frozenset(options.split()), operands, assignments)


_SUDO = (
    "-C -D -R -T -U -a -c -g -h -p -r -t -u --chdir --chroot --close-from --command-timeout --group --host "
    "--other-user --prompt --role --type --user --auth-type --login-class"
)
_WRAPPERS: Mapping[str, _Wrapper] = {
    "builtin": _wrapper(),
    "busybox": _wrapper(),
    "caffeinate": _wrapper("-t -w"),
    "chroot": _wrapper(operands=1),
    "chrt": _wrapper("-T -P -D", operands=1),
    "command": _wrapper(),
    "doas": _wrapper("-C -a -u"),
    "env": _wrapper("-u --unset -C --chdir -a --argv0", assignments=True),
    "eval": _wrapper(),
    "exec": _wrapper("-a"),
    "fakeroot": _wrapper("-l -s -i -b --lib --faked"),
    "flock": _wrapper("-w -E --timeout --wait --conflict-exit-code", operands=1),
    "ionice": _wrapper("-c -n -p -P -u --class --classdata"),
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
    "numactl": _wrapper("-N -C -i -m -p -P --cpunodebind --physcpubind --interleave --membind --preferred"),
    "parallel": _wrapper("-a -j -I -n -N -L -S --jobs --arg-file"),
    "setpriv": _wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"),
    "setsid": _wrapper(),
    "ssh": _wrapper("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w", operands=1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-a -b -e -E -I -o -O -p -P -s -S -u -X"),
    "sudo": _wrapper(_SUDO, assignments=True),
    "taskset": _wrapper(operands=1),
    "time": _wrapper("-f -o --format --output"),
    "timeout": _wrapper("-k -s --kill-after --signal", operands=1),
    "toybox": _wrapper(),
    "trap": _wrapper(),
    "unbuffer": _wrapper(),
    "unshare": _wrapper("-G -R -S -w --root --wd --setuid --setgid --propagation --map-user --map-group"),
    "valgrind": _wrapper(),
    "watch": _wrapper("-n -q --interval --equexit"),
    "xargs": _wrapper(
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --max-lines "
        "--process-slot-var"
    ),
    "xvfb-run": _wrapper("-e -f -n -p -s --error-file --auth-file --server-num --server-args"),
}


@define
class Delegation:
    """What a command hands on.

    Attributes:
        commands: inner commands, each as the half-open range of its words.
        texts: shell texts that it runs.
        ranges: the words of both; the others are the program's own.
        reads_stdin: whether it is a shell that runs what it reads from its input.
    """

    commands: list[tuple[int, int]] = Factory(list)
    texts: list[str] = Factory(list)
    ranges: list[tuple[int, int]] = Factory(list)
    reads_stdin: bool = False

    def run_words(self, start: int, end: int) -> None:
        """Note that the words from *start* to *end* are a command."""
        if start < end:
            self.commands.append((start, end))
            self.ranges.append((start, end))

    def run_text(self, words: Sequence[str], start: int, end: int) -> None:
        """Note that the words from *start* to *end*, joined by blanks, are shell text."""
        if start < end:
            self.texts.append(" ".join(words[start:end]))
            self.ranges.append((start, end))


def program_name(word: str) -> str:
    """The basename of a program word; a login shell's leading dash is dropped."""
    name = word.rstrip("/").rpartition("/")[2] or word
    return name[1:] if name.startswith("-") and name[1:] in SHELLS else name


def only_reads(name: str, words: Sequence[str]) -> bool:
    """Whether the program *name*, run as *words*, never writes to a file that it names."""
    writing = _WRITING_OPTIONS.get(name)
    reads = git_subcommand(words)[1] in _GIT_READERS if name == "git" else name in READERS
    return reads and not (writing and any(writing.match(word) for word in words[1:]))


def free_texts(name: str, words: Sequence[str]) -> Iterator[int]:
    """The indices of the words of the program *name* that are text for people, such as a commit message."""
    if name != "git":
        return
    start, subcommand = git_subcommand(words)
    if subcommand not in _GIT_WITH_MESSAGE:
        return
    for at in range(start + 1, len(words)):
        if words[at] == "--":
            return
        if match := _MESSAGE.fullmatch(words[at]):
            yield at if match[2] else at + 1


def git_subcommand(words: Sequence[str]) -> tuple[int, str]:
    """Where git's subcommand stands, and which it is; empty if there is none."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_OPTIONS_WITH_WORD else 1
    return at, words[at] if at < len(words) else ""


def delegation(name: str, words: Sequence[str]) -> Delegation:
    """What the program *name*, run as *words*, runs besides itself."""
    found = Delegation()
    if name in SHELLS:
        _shell(words, found)
    elif name in ("find", "fd", "fdfind"):
        _find(words, found)
    elif name == "alias":
        found.texts.extend(word.partition("=")[2] for word in words[1:])
    else:
        _option_texts(name, words, found)
        _wrapped(name, words, found)
    return found


def _wrapped(name: str, words: Sequence[str], found: Delegation) -> None:
    """The command, or the text, that follows the program's own words."""
    wrapper = _WRAPPERS.get(name)
    if wrapper is None or found.texts or (name == "sudo" and words[1:2] in (["-e"], ["--edit"])):
        return
    start = _inner_start(words, wrapper)
    if name == "trap":
        found.run_text(words, start, min(start + 1, len(words)))
    elif name in _TEXT_WORDS_PROGRAMS:
        found.run_text(words, start, len(words))
    else:
        found.run_words(start, len(words))


def _inner_start(words: Sequence[str], wrapper: _Wrapper) -> int:
    """The index of the first word that is not the wrapper's own."""
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if wrapper.assignments and _ASSIGNMENT.match(word):
            at += 1
        elif word.startswith("-"):
            at += 2 if _takes_next(word, wrapper.options) else 1
        else:
            break
    return _past_assignments(words, at, wrapper) + wrapper.operands


def _past_assignments(words: Sequence[str], at: int, wrapper: _Wrapper) -> int:
    while wrapper.assignments and at < len(words) and _ASSIGNMENT.match(words[at]):
        at += 1
    return at


def _takes_next(option: str, with_word: frozenset[str]) -> bool:
    """Whether an option, or a cluster of short ones, takes the next word."""
    if option.startswith("--"):
        return option in with_word
    for at, letter in enumerate(option[1:], 2):
        if f"-{letter}" in with_word:
            return at == len(option)
    return False


def _shell(words: Sequence[str], found: Delegation) -> None:
    at, has_text, from_stdin = 1, False, False
    while at < len(words) and re.match(r"[-+].", words[at]):
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("--"):
            has_text = has_text or "c" in word
            from_stdin = from_stdin or "s" in word
        at += word in _SHELL_OPTIONS_WITH_WORD or re.fullmatch(r"[-+]\w+[oO]", word) is not None
    at += words[at : at + 1] == ["-"]
    if has_text:
        found.run_text(words, at, min(at + 1, len(words)))
    else:
        found.reads_stdin = from_stdin or at >= len(words)


def _find(words: Sequence[str], found: Delegation) -> None:
    at = 1
    while at < len(words):
        if words[at] in _FIND_EXECUTES:
            end = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            found.run_words(at + 1, end)
            at = end
        at += 1


def _option_texts(name: str, words: Sequence[str], found: Delegation) -> None:
    """The shell text that an option holds, or takes as its next word: ``su -c TEXT``, ``env -S TEXT``."""
    option = _TEXT_OPTIONS.get(name)
    for at, word in enumerate(words[1:] if option else (), 1):
        match = option.match(word) if option else None
        if match is None:
            continue
        rest = word[match.end() :]
        end = len(words) if name == "env" else min(at + (1 if rest else 2), len(words))
        found.texts.append(" ".join([rest, *words[at + 1 : end]]).strip())
        found.ranges.append((at, end))
        return
