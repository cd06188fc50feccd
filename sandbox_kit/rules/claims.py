"""The paths that a coded word may name: itself, and every path-like piece of it.

A word is held to rules and not to the default, so a claim too many seldom does harm; a missing one would. What
lies on other machines is none: of a URL only the name counts that its file would be saved under. A word with
blanks in it is a name as a whole; of its pieces only those count that its reading takes for names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from attrs import frozen

from sandbox_kit.rules.readings import Reading, literals
from sandbox_kit.rules.remotes import PERCENT, local_text, unquoted
from sandbox_kit.rules.shellexpand import HOME, has_glob
from sandbox_kit.rules.shellglob import compile_shell_glob
from sandbox_kit.rules.shellwords import ShellSyntaxError, escape, plain, without_marks

__all__ = ["MAX_CLAIMS", "Claims", "PathClaim", "join", "seen_directly"]

MAX_CLAIMS = 10_000
MAX_BASES = 64
MAX_BASES_CHARS = 1 << 16
MAX_PATH = 4096
MAX_SUFFIXES = 8

_DELIMITERS = re.compile(r"[\s'\"`\\=:,@;|&<>(){}\[\]#%!?*+$^]+")
_QUOTING = re.compile(r"['\"\\]")
_BLANK = re.compile(r"\s")
_SUBSTITUTION = re.compile(r"\0(?:\$\(|`)[^\0]*\0")
_SETTING = re.compile(r"-{0,2}[\w.-]*[=@][^'\"`]*")
_NAME = re.compile(r"[\w.+-]{1,4096}")
_PATH_START = re.compile(r"[./~]")
_HARMLESS = frozenset(("", "-", "--"))
_NO_CONTENT = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"))
_CLIMB_TO_PROC = re.compile(r"(?:\./+)*+(?:\.\./+(?:\./+)*+)++(proc/.*)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*(/.*)", re.DOTALL)


@frozen
class PathClaim:
    """A path that a command line may use.

    Attributes:
        path: unquoted, as it stands; a pattern keeps its glob syntax, with literal specials escaped by a
            backslash. One that starts with ``~/``, or is ``~``, starts at the home directory.
        bases: the directories that a relative path may start at: ``"."`` (where the command runs) first,
            then each that the line may have changed to, relative to the first; ``~`` as in *path*.
        write: whether it must be allowed for writing too.
        redirection: whether it is the target of a redirection, which the default binds as well.
        pattern: whether it is a shell glob.
    """

    path: str
    bases: tuple[str, ...] = (".",)
    write: bool = False
    redirection: bool = False
    pattern: bool = False


def join(base: str, path: str) -> str:
    """*path* as seen from *base*; absolute and home-relative ones stay as they are."""
    return path if base == "." or path.startswith(("/", HOME)) else f"{base}/{path}"


@frozen(eq=False)
class Starts:
    """Where relative paths may start; compared by identity.

    Attributes:
        bases: as in :class:`PathClaim`.
        globs: directories that only a file tree can tell, as glob patterns.
    """

    bases: tuple[str, ...] = (".",)
    globs: tuple[str, ...] = ()


class Claims:
    """Collects the claims of a line, each once, in order.

    Attributes:
        starts: where relative paths may start from now on.
        overflow: whether there were more than can be kept.
    """

    def __init__(self) -> None:
        self.starts = Starts()
        self.overflow = False
        self._found: dict[PathClaim, None] = {}
        self._seen: set[tuple[str, bool, int, Starts]] = set()

    @property
    def found(self) -> tuple[PathClaim, ...]:
        """All claims so far."""
        return tuple(self._found)

    def word(self, code: str, write: bool, reading: Reading = Reading.NAMES) -> None:
        """Add the claims of one coded word of a command; *reading* is what it is taken for if it has blanks."""
        key = (code, write, int(reading), self.starts)
        if key in self._seen or self.overflow:
            return
        self._seen.add(key)
        if _NAME.fullmatch(code):
            self._name(code, write)
            for name in _glued(code) if code[0] == "-" else ():
                self._name(name, write)
            return
        text = plain(code)
        if reading is not Reading.NAMES and _BLANK.search(text):
            self._sentence(code, write, reading)
            return
        local = local_text(text)
        if local != text:
            self._claim_text(local, write)
            return
        self._path(code, write)
        self._pieces(text, write)
        for suffix in _glued(text):
            self._path(escape(suffix), write)

    def text(self, text: str, write: bool, reading: Reading = Reading.NAMES) -> None:
        """Add what a text that is no word names: a here-document, code."""
        if reading is Reading.NAMES:
            self._claim_text(local_text(text), write)
        elif reading is Reading.CODE:
            for literal, has_pieces in literals(local_text(text)):
                self._path(escape(literal), write)
                if has_pieces:
                    self._pieces(literal, write)

    def _sentence(self, code: str, write: bool, reading: Reading) -> None:
        """A word with blanks: itself, what follows an option or a name and ``=`` at its start, and what it quotes."""
        code = _SUBSTITUTION.sub("", code)
        if reading is Reading.PROSE:
            if has_glob(code):
                self._path(code, write)
            return
        self._path(code, write)
        text = plain(code)
        start = _BLANK.split(text, 1)[0]
        if _SETTING.fullmatch(start):
            self._pieces(start, write)
            for delimiter in islice(_DELIMITERS.finditer(start), MAX_SUFFIXES):
                self._path(escape(text[delimiter.end() :]), write)
        self.text(text, write, reading)

    def _claim_text(self, text: str, write: bool) -> None:
        self._path(escape(text), write)
        self._pieces(text, write)

    def redirection(self, code: str, write: bool) -> None:
        """Add the target of a redirection."""
        self._path(code, write, redirection=plain(code) not in _NO_CONTENT)
        self._pieces(plain(code), write)

    def directory(self, code: str) -> None:
        """Note that later relative paths may start at the directory that a coded word names.

        Raises:
            ShellSyntaxError: there are more than can be followed.
        """
        bases, globs = self.starts.bases, self.starts.globs
        if has_glob(code):
            more = (join(escape(base), without_marks(code)) for base in bases)
            self.starts = Starts(bases, self._capped(globs, more))
        else:
            paths = [plain(code), *_rewritten(plain(code))]
            more = (join(base, path) for path in paths for base in bases)
            self.starts = Starts(self._capped(bases, more), globs)

    def _pieces(self, text: str, write: bool) -> None:
        """Add what is less than all of *text*: an option's value, a URL's path, a name inside code."""
        for piece in _pieces(text):
            self._path(escape(piece), write)

    def _path(self, code: str, write: bool, redirection: bool = False) -> None:
        """Add one path, and what else it may stand for."""
        if len(code) > 2 * MAX_PATH:
            return
        path, bases = plain(code), self.starts.bases
        if has_glob(code):
            glob = without_marks(code)
            for pattern in filter(None, (glob, seen_directly(glob))):
                self._add(PathClaim(pattern, bases, write, redirection, pattern=True))
        if path not in _HARMLESS:
            for name in (path, *_rewritten(path)):
                self._add(PathClaim(name, bases, write, redirection))
        if not path.startswith(("/", HOME)):
            self._beneath_globs(without_marks(code), write, redirection)

    def _name(self, name: str, write: bool) -> None:
        """Add a path that stands for nothing but itself."""
        if name not in _HARMLESS:
            self._add(PathClaim(name, self.starts.bases, write))
        if self.starts.globs:
            self._beneath_globs(name, write, redirection=False)

    def _beneath_globs(self, path: str, write: bool, redirection: bool) -> None:
        for base in self.starts.globs:
            self._add(PathClaim(f"{base}/{path}", (".",), write, redirection, pattern=True))

    def _add(self, claim: PathClaim) -> None:
        self._found[claim] = None
        if len(self._found) > MAX_CLAIMS:
            self.overflow = True
            raise ShellSyntaxError("too many paths")

    def _capped(self, bases: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
        together = tuple(dict.fromkeys([*bases, *more]))
        if len(together) > MAX_BASES or sum(map(len, together)) > MAX_BASES_CHARS:
            self.overflow = True
            raise ShellSyntaxError("too many changes of directory")
        return together


def _pieces(text: str) -> Iterator[str]:
    """What stands between delimiters in *text*, and what follows its first few delimiters."""
    if _DELIMITERS.search(text):
        yield from _delimited(text)
    if _QUOTING.search(text):
        yield from _delimited(_QUOTING.sub("", text))
    if PERCENT.search(text):
        yield from _delimited(unquoted(text))
    for delimiter in islice(_DELIMITERS.finditer(text), MAX_SUFFIXES):
        yield text[delimiter.end() :]


def _delimited(text: str) -> Iterator[str]:
    for piece in dict.fromkeys(_DELIMITERS.split(text)):
        yield piece
        yield from _glued(piece)


def _glued(word: str) -> Iterator[str]:
    """The values that may be glued to an option: ``-f.env``, ``-xzf.env``, ``-include/etc/passwd``."""
    if word.startswith("-"):
        yield from (word[at:] for at in range(1, min(len(word), MAX_SUFFIXES)))
        if start := _PATH_START.search(word):
            yield word[start.start() :]


def _rewritten(path: str) -> Iterator[str]:
    """What else a path may stand for."""
    direct = seen_directly(path)
    if direct is not None:
        yield direct
    if path.startswith(("~+", "~-")):
        yield "." + path[2:]
    elif path == "~" or path.startswith("~/"):
        yield "." + path[1:]
    elif path.startswith("~"):
        user, _, rest = path[1:].partition("/")
        yield f"/root/{rest}" if user == "root" else f"/home/{user}/{rest}"
    url = _URL.match(path)
    if url:
        yield unquoted(url[1])


def seen_directly(path: str) -> str | None:
    """The path that one through ``/proc/PID/cwd`` or ``/proc/PID/root`` leads to; None for any other.

    It is relative for ``cwd``. ``PID`` is any component, since the line may not say which process it is; the
    others may be globs, and a relative path that climbs to a ``proc`` is taken to reach the real one.
    """
    climb = _CLIMB_TO_PROC.match(path)
    path = "/" + climb[1] if climb else path
    path = "/proc/self/fd/" + path[8:] if path.startswith("/dev/fd/") else path
    if not path.startswith("/"):
        return None
    parts: list[str] = []
    absolute, changed = True, False
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1] if parts and parts[-1] != ".." else parts + [".."] * (not absolute)
        elif part not in ("", "."):
            parts.append(part)
        if absolute and len(parts) in (3, 5) and _is_process(parts[:-1]) and _may_be(part, "cwd", "root"):
            absolute, changed, parts = not _may_be(part, "cwd"), True, []
    return ("/" if absolute else "./") + "/".join(parts) if changed else None


def _is_process(parts: list[str]) -> bool:
    """Whether the components are those of a process or thread in ``/proc``."""
    return _may_be(parts[0], "proc") and (len(parts) == 2 or _may_be(parts[2], "task"))


def _may_be(part: str, *names: str) -> bool:
    """Whether a component, which may be a glob, is one of *names*."""
    if not has_glob(part):
        return part in names
    glob = compile_shell_glob(part)
    return any(glob.fullmatch(name) for name in names)
