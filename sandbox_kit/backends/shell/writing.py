"""A new content for a file of the sandbox: raw bytes over the loop's own standard input, then one rename.

The shell says when it is ready for bytes and how many it takes: until then none is sent, and an
error leaves the loop as it was. Once they are on their way, whatever the shell does not take as
bytes it would take as a script. So where ``dd`` fails, or what follows the bytes is not the word
that was agreed on, the shell gives up being one: it becomes a ``cat`` that runs nothing.
"""

from __future__ import annotations

import io
import stat
import string
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from sandbox_kit.backends.shell.changes import make_directories, remove_made
from sandbox_kit.backends.shell.faults import refuse_failure
from sandbox_kit.backends.shell.line import CHUNK, Line
from sandbox_kit.backends.shell.spool import new_spool
from sandbox_kit.backends.shell.spots import Spot, call
from sandbox_kit.backends.shell.tools import Tools
from sandbox_kit.errors import PathAccessError, PathError, SandboxError
from sandbox_kit.host.unfinished import new_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["functions", "writing"]

_BLOCK = 2**16
_SHORT = 2**12
"""Up to so many bytes a content goes as text, which saves a process and a round trip."""

_PLAIN_TEXT = frozenset(string.ascii_letters + string.digits + " \n.,:;_-/=+()")
_ESCAPES = [chr(byte) if chr(byte) in _PLAIN_TEXT else f"\\{byte:03o}" for byte in range(256)]
"""Each byte as a format of printf has it."""

_PLAIN = 0o666
_ALL = 0o777

_WRITE = r"""
k_swallow() {
	[ ! "$k_tmp" ] || rm -f -- "./$k_tmp"
	printf '\0e!\0' >&8
	exec cat <&5 >/dev/null 2>&1
}
k_agreed() { read -r k_x <&5 && [ "$k_x" = "$1" ] || k_swallow; }

# COUNT WORD: copy bytes to standard output, then a line with the word must come
k_take() {
	printf 'g\0' >&8
	[ "$1" = 0 ] || LC_ALL=C dd bs=65536 count="$1" iflag=fullblock,count_bytes status=none <&5 2>&8 || k_swallow
	k_agreed "$2"
}

k_fill() { if [ "$1" ]; then k_take "$1" "$2"; else printf "$k_text" || { rm -f -- "./$2"; return 1; }; fi; }

# DIRECTORY FRESH COUNT UMASK [NAME MODE JUDGED [TEXT]]: make a new file, and give it its place if it has one;
# without a COUNT it holds TEXT, a format of printf
k_put() {
	k_at "$1" || return
	k_tmp=$2 k_text=$8
	umask "${4:-$k_umask}"
	set -C
	{ set +C; umask "$k_umask"; k_fill "$3" "$2" && k_moded "$6"; } 2>&8 >"./$2" || {
		set +C; umask "$k_umask"; k_failed; return
	}
	[ ! "$5" ] || k_fit "$2" "$5" "$7"
}

# DIRECTORY FRESH COUNT [NAME MODE JUDGED]: add to that file
k_add() {
	k_at "$1" || return
	k_tmp=$2
	{
		[ "$(stat -c %d:%i -- "./$2")" = "$(stat -L -c %d:%i /proc/self/fd/7)" ] || { k_stop c ''; return; }
		{ k_take "$3" "$2" && k_moded "$5"; } 2>&8 >>/proc/self/fd/7 || { k_failed; return; }
	} 7<"./$2" || { k_failed; return; }
	[ ! "$4" ] || k_fit "$2" "$4" "$6"
}

# MODE: give it to the new file, by its descriptor
k_moded() { [ ! "$1" ] || LC_ALL=C chmod "$1" /proc/self/fd/1 || { rm -f -- "./$k_tmp"; return 1; }; }

# FRESH NAME JUDGED: give the new file its place; with JUDGED only that one's, or for 0 one where nothing is
k_fit() {
	if [ -f "./$1" ] && [ ! -L "./$1" ] && { [ ! "$3" ] || k_same "$2" "$3"; }; then k_replace "$1" "$2"
	else k_stop c ''
	fi || { rm -f -- "./$1"; return 1; }
}
k_same() { if k_there "$1"; then [ "$(stat -c %d:%i -- "./$1")" = "$2" ]; else [ "$2" = 0 ]; fi; }
k_replace() {
	k_move "$1" "$2" 2>/dev/null && return
	k_x=$(k_move "$1" "$2" 2>&1) && return
	case $k_x in
	*busy) [ -f "./$2" ] && [ ! -L "./$2" ] && cat -- "./$1" 2>&1 >"./$2" && rm -f -- "./$1" && return ;;
	esac
	printf %s "$k_x"
	k_failed
}

# DIRECTORY FRESH: let go of it
k_drop() { k_at "$1" && rm -f -- "./$2"; }

# DIRECTORY NAME IDENTITY SEEK COUNT WORD SIZE MODE: write over a part of a file; with SIZE, end it there
k_over() {
	k_at "$1" || return
	k_tmp=
	[ -f "./$2" ] || { k_stop c ''; return; }
	{
		[ "$(stat -L -c %d:%i /proc/self/fd/7)" = "$3" ] || { k_stop c ''; return; }
		k_take_over "$4" "$5" "$6"
		if [ "$7" ]; then
			k_try dd if=/dev/null of=/proc/self/fd/7 bs=1 seek="$7" count=0 status=none || return
			[ ! "$8" ] || k_try chmod "$8" /proc/self/fd/7 || return
		fi
	} 2>&8 7<"./$2" || k_failed
}
k_take_over() {
	printf 'g\0' >&8
	[ "$2" = 0 ] || LC_ALL=C dd bs=65536 seek="$1" count="$2" iflag=fullblock,count_bytes conv=notrunc status=none \
		of=/proc/self/fd/7 <&5 2>&8 || k_swallow
	k_agreed "$3"
}
"""
_MOVE = """
k_move() { LC_ALL=C mv -fT -- "./$1" "./$2"; }
"""
_MOVE_WITHOUT_T = r"""
k_move() {
	[ ! -d "./$2" ] && LC_ALL=C mv -f -- "./$1" "./$2" || return
	[ ! -e "./$2/$1" ] || { rm -f -- "./$2/$1"; return 1; }
}
"""


def functions(tools: Tools) -> str:
    """Return the shell functions of this module."""
    return _WRITE + (_MOVE if tools.replace else _MOVE_WITHOUT_T)


@contextmanager
def writing(
    line: Line, path: str, spot: Spot, mode: int | None, *, strict: bool = False
) -> Generator[BinaryIO, None, None]:
    """Give a file to write to; when the block ends well, its content is what *spot* holds.

    A new file takes its place in one step. Where that cannot be (a hard link would part, the
    directory is not writable, the owner would change) the bytes are collected first and then
    written in place. After an error the directories that were made for it are gone again.

    Args:
        mode: what the file has in the end; None for the mode that it had.
        strict: whether no other file than that of *spot* may be replaced; it is compared right before.

    Raises:
        PathError: of the kind that the sandbox's tools tell.
        SandboxConflictError: something else took the place of the file, or of its new content.
    """
    made = make_directories(line, path, spot.parent, spot.rest[:-1])
    if _is_replaceable(line, path, spot):
        target: _Target = _Fresh(line, path, spot, mode, strict)
    else:
        target = _InPlace(line, path, spot, mode)
    try:
        yield cast(BinaryIO, target)
        target.finish()
    except BaseException:
        target.discard()
        remove_made(line, made)
        raise


def _is_replaceable(line: Line, path: str, spot: Spot) -> bool:
    if spot.stat is not None:
        fixed = (spot.stat.device, spot.stat.inode) in line.fixed
        return spot.writable and spot.own and spot.stat.links <= 1 and not fixed
    if not spot.writable and len(spot.rest) == 1:
        raise PathAccessError(path)
    return True


class _Target(io.RawIOBase):
    """Where bytes go, in pieces."""

    def __init__(self, line: Line, path: str, spot: Spot, mode: int | None) -> None:
        self._line = line
        self._path = path
        self._spot = spot
        self._mode = mode
        self._directory = spot.real.rpartition("/")[0] or "/"
        self._word = new_name()

    def writable(self) -> bool:
        return True

    @abstractmethod
    def finish(self) -> None:
        """Make what was written the file's content."""

    def discard(self) -> None:
        """Let go of what was written; never an error."""

    def _send(self, script: str, pieces: Sequence[bytes | bytearray]) -> None:
        """Run a function that takes the bytes of *pieces*, and then the word."""
        check = partial(refuse_failure, self._path)
        check(self._line.give(script, [*pieces, f"{self._word}\n".encode()], check).records())


class _Fresh(_Target):
    """A new file beside the one that it is to replace."""

    def __init__(self, line: Line, path: str, spot: Spot, mode: int | None, strict: bool) -> None:
        super().__init__(line, path, spot, mode)
        self._judged = _identity(spot) if strict else ""
        self._held: list[bytes | bytearray] = []
        self._size = 0
        self._begun = False
        self._loose = False
        self._kept = stat.S_IMODE(spot.stat.mode) if mode is None and spot.stat is not None else mode
        self._mask = "" if self._kept is None else f"{_ALL & ~self._kept:o}"

    def write(self, data: ReadableBuffer, /) -> int:
        if isinstance(data, bytes):
            self._hold(data)
            return len(data)
        view = memoryview(data).cast("B")
        for start in range(0, len(view), CHUNK):
            self._hold(bytes(view[start : start + CHUNK]))
        return len(view)

    def _hold(self, piece: bytes) -> None:
        """Keep what is to be sent: the last of it goes with the file's place."""
        if self._size >= CHUNK:
            self._put()
        if len(piece) >= _BLOCK:
            self._held.append(piece)
        elif self._held and isinstance(self._held[-1], bytearray):
            self._held[-1] += piece
        else:
            self._held.append(bytearray(piece))
        self._size += len(piece)

    def finish(self) -> None:
        mode = "" if self._kept is None or not self._kept & ~_PLAIN else f"{self._kept:o}"
        self._put(self._spot.name, mode, self._judged)
        self._loose = False

    def discard(self) -> None:
        if self._loose:
            with suppress(SandboxError):
                self._line.act(call("k_drop", self._directory, self._word))

    def _put(self, *place: str) -> None:
        """Send what is held; with its *place*, name, mode and what was there, the file is complete."""
        held, self._held = self._held, []
        size, self._size = self._size, 0
        self._loose = True
        if place and not self._begun and size <= _SHORT and self._put_text(b"".join(held), *place):
            return
        if self._begun:
            script = call("k_add", self._directory, self._word, size, *place)
        else:
            script = call("k_put", self._directory, self._word, size, self._mask, *place)
        self._begun = True
        self._send(script, held)

    def _put_text(self, data: bytes, *place: str) -> bool:
        """Send a short content as a part of the script; False where that fails: bytes then tell why."""
        reply = self._line.act(call("k_put", self._directory, self._word, "", self._mask, *place, _format(data)))
        if reply.records():
            with suppress(PathError):
                refuse_failure(self._path, reply.records())
            return False
        return True


def _identity(spot: Spot) -> str:
    """Return what the shell knows the file of *spot* by."""
    return "0" if spot.stat is None else f"{spot.stat.device}:{spot.stat.inode}"


def _format(data: bytes) -> str:
    """Return the format that has printf print *data*."""
    return "".join(map(_ESCAPES.__getitem__, data))


class _InPlace(_Target):
    """A file that has to stay where it is: its new bytes are collected before the first is written."""

    def __init__(self, line: Line, path: str, spot: Spot, mode: int | None) -> None:
        super().__init__(line, path, spot, mode)
        self._spool = new_spool()

    def write(self, data: ReadableBuffer, /) -> int:
        return self._spool.write(data)

    def finish(self) -> None:
        size = self._spool.tell()
        self._spool.seek(0)
        mode = "" if self._mode is None else f"{self._mode:o}"
        for start in range(0, max(size, 1), CHUNK):
            data = self._spool.read(CHUNK)
            end = (size, mode) if start + CHUNK >= size else ("", "")
            place = (self._directory, self._spot.name, _identity(self._spot))
            self._send(call("k_over", *place, start // _BLOCK, len(data), self._word, *end), [data])

    def close(self) -> None:
        self._spool.close()
        super().close()
