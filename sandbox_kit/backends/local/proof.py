"""What bears out the answers of a search program: the bytes of a file that was opened here."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterable

from attrs import field, frozen

from sandbox_kit.errors import PathEscapeError
from sandbox_kit.host.pin import NOFOLLOW, Root
from sandbox_kit.host.system import Descriptor
from sandbox_kit.paths import display, join, parts, relative
from sandbox_kit.search.hits import Hit, confirm
from sandbox_kit.search.runs import Found, Run, as_text
from sandbox_kit.types import GrepMatch, Skipped

__all__ = ["Proof", "Tree", "opened"]

_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_WHOLE = 4 * 2**20
_PARTS = (2**20, 2**23, 2**26)


@frozen
class Tree:
    """Where a search starts: a directory, pinned and judged.

    Attributes:
        root: what it lies beneath.
        directory: a descriptor of it.
        typed: its name as typed, absolute.
        real: its real name.
        above: the components of that beneath the root.
    """

    root: Root
    directory: Descriptor
    typed: str
    real: str
    above: list[str] = field(init=False)

    @above.default
    def _above(self) -> list[str]:
        return parts(relative(self.real, self.root.name))

    def typed_name(self, name: bytes) -> str:
        """Return a name as the program prints it, as one that the caller could type: absolute."""
        return join(self.typed, os.fsdecode(name.removeprefix(b"./")))


Met = Callable[[str, os.stat_result], bool]
"""Called with a file that was opened, as typed, and what it is; whether it may be seen."""


class Proof:
    """The bytes that bear the program's answers out, of one file at a time.

    Args:
        tree: where the files are.
        context: lines before and after each match.
        skipped: takes what could not be looked at.
        met: asked for each file; None lets all be seen.
    """

    def __init__(self, tree: Tree, context: int, skipped: list[Skipped], met: Met | None = None) -> None:
        self._tree = tree
        self._met = met
        self._context = context
        self._skipped = skipped
        self._name: bytes | None = None
        self._shown = ""
        self._file: Descriptor | None = None
        self._part = b""
        self._text = ""
        self._base = 0
        self._ends = True

    def matches(self, found: Iterable[Found]) -> Generator[list[GrepMatch], None, None]:
        """Yield what is borne out of *found*, one file after the other."""
        for each in found:
            if each.name != self._name:
                self._open(each.name)
            if sure := self._sure(each) if isinstance(each, Run) else self._close_look((each,)):
                yield sure

    def _sure(self, run: Run) -> list[GrepMatch]:
        """Compare all lines at once; each for itself where that does not do."""
        sure = run.matches(self._shown, self._text)
        return sure if len(sure) == len(run.rows) else self._close_look(run.hits())

    def _close_look(self, hits: Iterable[Hit]) -> list[GrepMatch]:
        confirmed = map(self._confirm, hits)
        return [hit.to_match(self._shown) for hit in confirmed if hit is not None]

    def _confirm(self, hit: Hit) -> Hit | None:
        if self._file is not None and not self._covers(hit.offset) and not self._read_around(hit.offset):
            skipped = Skipped(self._shown, "a line is too long to be searched")
            self._skipped += [] if skipped in self._skipped[-1:] else [skipped]
            return None
        return confirm(hit, self._part, base=self._base, context=self._context)

    def _open(self, name: bytes) -> None:
        """Take up a file: a small one whole; nothing of one that is not there under that name any more."""
        self._name, self._file, self._part, self._text, self._base = name, None, b"", "", 0
        typed = self._tree.typed_name(name)
        self._shown = display(typed, self._tree.root.name)
        found = opened(self._tree, os.fsdecode(name))
        if found is None or (self._met is not None and not self._met(typed, found[1])):
            return
        file, info = found
        if info.st_size > _WHOLE:
            self._file = file
            return
        with file:
            self._part = os.read(file.fd, info.st_size + 1)
        self._text = as_text(self._part)

    def _covers(self, offset: int) -> bool:
        """Whether the line at *offset* and its context are in the part at hand."""
        begin = end = offset - self._base
        if not 0 <= begin < len(self._part) or begin == 0 < self._base:
            return False
        for _ in range(self._context + 1):
            begin = self._part.rfind(b"\n", 0, max(begin, 0))
            end = self._part.find(b"\n", end) + 1 or len(self._part) + 1
        return (self._base == 0 or begin >= 0) and (self._ends or end <= len(self._part))

    def _read_around(self, offset: int) -> bool:
        assert self._file is not None
        for size in _PARTS:
            self._base = max(0, offset - (size if self._context else 1))
            wanted = offset - self._base + size
            self._part = os.pread(self._file.fd, wanted, self._base)
            self._ends = len(self._part) < wanted
            if self._covers(offset):
                return True
        return False


def opened(tree: Tree, name: str) -> tuple[Descriptor, os.stat_result] | None:
    """Open a regular file beneath *tree* without a link on its way; None when there is none by now.

    Returns:
        The file, and what the system says of it.

    Raises:
        PermissionError: the file system refuses.
    """
    try:
        file = tree.root.open_plain([*tree.above, *parts(name)], _READ)
        if file is None:
            file = _walked(tree.root, join(tree.real, name))
    except PathEscapeError:
        return None
    except PermissionError:
        raise
    except OSError:
        return None
    info = os.fstat(file.fd)
    return (file, info) if stat.S_ISREG(info.st_mode) else None


def _walked(root: Root, path: str) -> Descriptor:
    """Open a file component by component; a link on the way is an escape."""
    spot = root.find(path, _refuse, follow=False)
    return Descriptor.open(spot.name, _READ | NOFOLLOW, spot.parent.fd)


def _refuse(name: str) -> None:
    raise PathEscapeError(name)
