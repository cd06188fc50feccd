"""Bytes of a file of the sandbox, and the proof of which file under which name they are of."""

from __future__ import annotations

from stat import S_IFREG

from attrs import evolve, frozen

from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.spots import Spot, Stat, call, parse_spot, parse_stat
from sandbox_kit.backends.shell.stretch import BEGUN, Stretch, records_of
from sandbox_kit.backends.shell.tools import Tools
from sandbox_kit.errors import (
    PathAccessError,
    PathError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxUnavailableError,
    printable,
)

__all__ = ["ATTEMPTS", "FIRST", "WHOLE", "Mounts", "Piece", "Reading", "functions"]

FIRST = 2**16
"""How many bytes come with the first look at a file that somebody may refuse."""

WHOLE = 2**20
"""Up to so many bytes a file is read at once: a reader finds what one write made of it."""

ATTEMPTS = 40

_READ = r"""
# PATH SKIP COUNT PROOF: tell where PATH leads, and give bytes of the regular file there; what proves it comes aside
# or before them
k_read() {
	k_go "$1" 1 || return 0
	k_spot
	[ ! "$k_r" ] && k_there "$k_n" || return 0
	[ -f "./$k_n" ] && [ -r "./$k_n" ] || { k_stat "./$k_n"; return 0; }
	{
		case $4 in
		whole) WHOLE >&9 & ;;
		name) NAME >&9 & ;;
		first) printf x; WHOLE; printf '\0' ;;
		esac
		k_number
		printf 'b\0'
		dd bs=65536 skip="$2" count="$3" iflag=fullblock,skip_bytes,count_bytes status=none <&7
		k_s=$?
		case $4 in whole|name) wait "$!" ;; esac
	} 7<"./$k_n"
	return "$k_s"
}
# tell which mount and inode the kernel says that descriptor 7 is of
k_number() {
	k_i= k_j=
	while read -r k_x k_y; do
		case $k_x in mnt_id:) k_i=$k_y ;; ino:) k_j=$k_y ;; esac
	done </proc/self/fdinfo/7
	printf 'i%s %s\0' "$k_i" "$k_j"
}
"""
_WHOLE_BY_NAME = """LC_ALL=C stat -c '{} %.9W' -- "./$k_n" - <&7"""
_WHOLE_BY_DESCRIPTOR = "{{ LC_ALL=C stat -L -c '{}' /proc/self/fd/7; readlink -n /proc/self/fd/7; }}"
_NAME = "readlink -n /proc/self/fd/7"


def functions(tools: Tools, form: str) -> str:
    """Return the shell functions of this module; *form* is what stat is to print."""
    whole = (_WHOLE_BY_NAME if tools.fstat else _WHOLE_BY_DESCRIPTOR).format(form)
    return _READ.replace("WHOLE", whole).replace("NAME", _NAME)


Mounts = dict[str, int | None]
"""The device that stat calls files of a mount by; None where the kernel numbers them otherwise."""


@frozen
class Piece:
    """Some bytes of what a path leads to.

    Attributes:
        spot: the place; its ``stat`` is of the file that the bytes are of.
        data: fewer bytes than asked for are the file's last; None where none can be read.
    """

    spot: Spot
    data: memoryview | None


@frozen
class Reading:
    """How one file is found, time and again.

    Attributes:
        line: reaches the sandbox.
        path: what errors call the file.
        mounts: what is known of mounts so far.
    """

    line: Line
    path: str
    mounts: Mounts

    def piece(self, way: str, offset: int, count: int) -> Piece:
        """Look where the absolute path *way* leads, and read there, with whatever stat tells of the file.

        The bytes are those of a descriptor. That the real name is its own is proven by the name's own
        entry, which is the same file, or by what the kernel calls the descriptor.

        Raises:
            SandboxConflictError: another file took the name, each time.
        """
        for _ in range(ATTEMPTS):
            told = self._told(way, offset, count, "whole")
            if told.data is None:
                return Piece(told.spot, None)
            opened = told.opened()
            if opened is not None:
                self._learn(told, opened)
                return Piece(evolve(told.spot, stat=opened), told.data)
        raise self.replaced()

    def replaced(self) -> SandboxConflictError:
        """Return the error that says that another file has the name by now."""
        return SandboxConflictError(f"{printable(self.path)}: replaced while it was being read")

    def small(self, way: str, *, judged: bool) -> Piece | None:
        """Read a small file with less ado; None where that does not do.

        Where nobody judges it, nothing has to be proven. Elsewhere the kernel's own number of a
        descriptor, which costs no process, tells which file it is, on mounts where that is known.
        """
        if judged and None in self.mounts.values():
            return None
        count = FIRST if judged else WHOLE + 1
        told = self._told(way, 0, count, "name" if judged else "")
        if told.data is None or len(told.data) == count:
            return None
        mount, _, inode = told.number.partition(" ")
        device = self.mounts.get(mount) if judged else 0
        if device is None or not inode or (judged and told.aside != _lasting(told.spot.real)):
            return None
        stat = Stat(device, int(inode), S_IFREG, 1, len(told.data), 0.0)
        return Piece(evolve(told.spot, stat=stat), told.data)

    def stretch(self, way: str, offset: int, count: int) -> tuple[Spot, Stretch]:
        """As :meth:`piece`, but once, and the bytes follow as they are read: they are the stretch's.

        Raises:
            SandboxConflictError: another file took the name.
            PathAccessError: none can be read.
        """
        stretch = self._begun(call("k_read", way, offset, count, "first"))
        try:
            told = _Told(parse_spot(stretch.records), "", _record(stretch.records, "x"), None)
            if not stretch.has_bytes:
                raise self.replaced() if told.spot.stat is None else PathAccessError(self.path)
            opened = told.opened()
            if opened is None:
                raise self.replaced()
        except BaseException:
            stretch.close()
            raise
        return evolve(told.spot, stat=opened), stretch

    def _begun(self, script: str) -> Stretch:
        """Begin a stretch, once more where the loop turns out to be gone."""
        try:
            return Stretch(self.line, script)
        except SandboxClosedError:
            raise
        except SandboxUnavailableError:
            return Stretch(self.line, script)

    def unreadable(self) -> PathError:
        """Return the error that says that reading broke off."""
        return PathError(self.path, "could not be read")

    def _told(self, way: str, offset: int, count: int, proof: str) -> _Told:
        reply = self.line.look(call("k_read", way, offset, count, proof))
        begun = reply.out.find(BEGUN)
        records = records_of(reply.out if begun < 0 else reply.out[:begun])
        if begun >= 0 and reply.code:
            raise self.unreadable()
        aside = reply.aside.decode("utf-8", "surrogateescape")
        data = None if begun < 0 else memoryview(reply.out)[begun + len(BEGUN) :]
        return _Told(parse_spot(records), _record(records, "i"), aside, data)

    def _learn(self, told: _Told, opened: Stat) -> None:
        mount, _, inode = told.number.partition(" ")
        if inode and mount not in self.mounts:
            self.mounts[mount] = opened.device if int(inode) == opened.inode else None


@frozen
class _Told:
    """A reply taken apart.

    Attributes:
        spot: the place.
        number: mount and inode of the descriptor, as far as the kernel tells.
        aside: what proves that the place and the descriptor are one.
        data: what was read; None where nothing can be.
    """

    spot: Spot
    number: str
    aside: str
    data: memoryview | None

    def opened(self) -> Stat | None:
        """Return what stat tells of the opened file, if it is the one that has the real name."""
        first, _, rest = self.aside.partition("\n")
        seen = parse_stat(first)
        if rest.startswith("/"):
            return seen if seen is not None and seen.links and rest == self.spot.real else None
        opened = parse_stat(rest)
        same = seen is not None and opened is not None and seen.is_regular and seen.is_same(opened)
        return opened if same else None


def _record(records: list[str], letter: str) -> str:
    """Return what the first record of that letter holds, or nothing."""
    return next((record[1:] for record in records if record[:1] == letter), "")


def _lasting(name: str) -> str:
    """Return *name*, or nothing where the kernel could mean a file without a name by it."""
    return "" if name.endswith(" (deleted)") else name
