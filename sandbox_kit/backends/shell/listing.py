"""What is beneath a directory of the sandbox: the output of ``find``, which no name can forge.

GNU find goes down by descriptors, and ends each entry with a NUL. Another one would follow a link
that takes a directory's place meanwhile, so the shell enters each directory itself. There ``stat``
prints an entry's name and ``//``, which no name can hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic

from attrs import evolve, frozen

from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.questions import Questions, names_of
from sandbox_kit.backends.shell.spool import new_spool
from sandbox_kit.backends.shell.spots import Spot, Stat, call, parse_spot, parse_stat
from sandbox_kit.backends.shell.tools import Tools
from sandbox_kit.errors import PathAccessError, SandboxConflictError
from sandbox_kit.host.unfinished import is_unfinished
from sandbox_kit.output import Stream
from sandbox_kit.paths import display, join
from sandbox_kit.primitives import Entry
from sandbox_kit.streams import CHUNK
from sandbox_kit.types import Skipped

__all__ = ["Found", "Listing", "Walk", "functions", "parse_listing"]

_BATCH = 500
_BEGUN = b"\0b\0"
_ENTERED, _LOST = b"//d", b"//c"
_CLOSED = PathAccessError("").reason
_KINDS = {"d": 0o040000, "f": 0o100000, "l": 0o120000, "p": 0o010000, "s": 0o140000, "c": 0o020000, "b": 0o060000}

_LIST = r"""
# PATH OPTIONS: tell where PATH leads, and print every entry beneath the directory there, itself first
k_list() {
	k_go "$1" 1 || return 0
	shift
	k_spot
	[ ! "$k_r" ] && k_there "$k_n" || return 0
	k_o=${PWD%/}
	[ -d "./$k_n" ] && cd -P "./$k_n" || { k_stat "./$k_n"; return 0; }
	[ "$PWD" = "$k_o/$k_n" ] || [ "$k_n" = . ] || { k_stop c ''; return 0; }
	printf 'b\0'
	k_entries "$@"
}
# PATHS: tell where each link leads
k_leads() { for k_i; do k_lead "$k_i"; done; }
"""
_BY_FIND = r"""
k_entries() {
	LC_ALL=C find . "$@" \( -type d \( ! -readable -o ! -executable \) -printf '!' -o -printf '+' \) \
		-printf '%D %i %y%m %n %s %T@ %P\0' 2>&9
}
"""
_BY_STAT = r"""
k_entries() {
	k_b=${PWD%/}/
	LC_ALL=C stat -c '%n//FORM//' -- .
	if k_open; then k_below "${2:-0}"; else k_closed .; fi
}
# whether the current directory can be listed: some shells tell root that it can read anything
k_open() {
	[ -r . ] || return
	for k_e in * .[!.]* ..?*; do ! k_there "$k_e" || return 0; done
	find . ! -name . -prune >/dev/null 2>&1
}
k_closed() { printf 'find: %s: Permission denied\n' "$1" >&9; }

# DEPTH: print the entries of the current directory, and those of each directory that can be entered by its name
k_below() {
	k_o=${PWD%/}/
	printf './%s//d//\n' "${k_o#"$k_b"}"
	LC_ALL=C find . ! -name . -prune -exec stat -c '%n//FORM//' '{}' +
	[ "$1" != 1 ] || return 0
	for k_c in * .[!.]* ..?*; do
		[ -d "./$k_c" ] && [ ! -L "./$k_c" ] || continue
		k_o=${PWD%/}
		if cd -P "./$k_c" && [ "$PWD" = "$k_o/$k_c" ] && k_open; then
			k_below "$(($1 - 1))" || return
			k_o=${PWD%/*}
			cd -P ..
		else
			k_c=$k_o/$k_c
			k_closed "./${k_c#"$k_b"}"
			cd -P "${k_o:-/}"
		fi
		[ "${PWD%/}" = "$k_o" ] || { printf './//c//\n'; return 1; }
	done
}
"""


def functions(tools: Tools, form: str) -> str:
    """Return the shell functions of this module; *form* is what stat is to print."""
    return _LIST + (_BY_FIND if tools.printf else _BY_STAT.replace("FORM", form))


@frozen
class Found:
    """An entry that ``find`` met.

    Attributes:
        name: beneath the directory, without a leading ``./``; empty for the directory itself.
        stat: what it is.
        closed: whether it is a directory that the shell cannot look into, as far as find tells.
    """

    name: str
    stat: Stat
    closed: bool = False


def parse_listing(chunks: Iterable[bytes]) -> Iterator[Found]:
    """Yield what a listing tells, in order; what vanished meanwhile is left out.

    Args:
        chunks: the output, in pieces of any size.

    Raises:
        SandboxConflictError: a directory was moved away while it was being listed.
    """
    carry = place = b""
    for chunk in chunks:
        *whole, carry = _split(carry + chunk)
        for record in whole:
            if record.endswith(_ENTERED):
                place = record.removesuffix(_ENTERED)
            elif record.endswith(_LOST):
                raise SandboxConflictError("a directory was moved while it was being listed")
            elif (found := _entry(place, record)) is not None:
                yield found


def _split(data: bytes) -> list[bytes]:
    """Split records, by what ends the first one; the last item is what has no end yet."""
    return data.split(b"\0") if data[:1] in (b"+", b"!") else data.split(b"//\n")


def _entry(place: bytes, record: bytes) -> Found | None:
    """Return the entry that a record tells of; *place* is the directory that it was met in, or nothing."""
    if place:
        record = place + record.removeprefix(b"./")
    text = record.decode("utf-8", "surrogateescape")
    if text[:1] not in ("+", "!"):
        name, _, told = text.partition("//")
        info = parse_stat(told)
        return None if info is None else Found(name[2:], info)
    device, inode, kind, links, size, mtime, name = text[1:].split(" ", 6)
    mode = _KINDS.get(kind[:1], 0) | int(kind[1:], 8)
    info = Stat(int(device), int(inode), mode, int(links), int(size), float(mtime))
    return Found(name, info, text[0] == "!")


class Listing:
    """What is beneath the directory that a path leads to, fetched at once; on the disk where it is much.

    Args:
        line: reaches the sandbox.
        way: the absolute path to follow.
        depth: how many levels to read; None for all.

    Attributes:
        spot: the place.
        is_open: whether its entries could be read.
    """

    def __init__(self, line: Line, way: str, depth: int | None) -> None:
        self._line = line
        self._aside = bytearray()
        self._spool = new_spool()
        self._fetch(call("k_list", way, *(() if depth is None else ("-maxdepth", depth))))
        head = self._head()
        self.spot = parse_spot(head.decode("utf-8", "surrogateescape").split("\0"))
        self._entries = parse_listing(iter(lambda: self._spool.read(CHUNK), b""))
        top = next(self._entries, None)
        self.is_open = top is not None and not self._is_closed(top)
        if top is not None:
            self.spot = evolve(self.spot, stat=top.stat)

    def __del__(self) -> None:
        self._spool.close()

    def _fetch(self, script: str) -> None:
        def take(stream: Stream, data: bytes) -> None:
            fetching.deadline = monotonic() + self._line.timeout
            if stream == "stdout":
                self._spool.write(data)
            else:
                self._aside.extend(data)

        with self._line.lease(None) as loop:
            fetching = self._line.begin(loop, script, take)
            fetching.finish()

    def _head(self) -> bytes:
        """Read what comes before the entries, and go to their beginning."""
        self._spool.seek(0)
        head, begun, _ = self._spool.read(CHUNK).partition(_BEGUN)
        self._spool.seek(len(head) + len(begun))
        return head

    def found(self) -> Iterator[Found]:
        """Yield what is beneath, whoever may see it, parents first."""
        for found in self._entries:
            yield evolve(found, closed=True) if self._is_closed(found) else found

    def _is_closed(self, found: Found) -> bool:
        """Whether a directory cannot be looked into: find or stat complains of it, or of what is in it."""
        if found.closed or not self._aside or not found.stat.is_dir:
            return found.closed
        if not found.name:
            return b"find: .: Permission denied\n" in self._aside
        name = re.escape(b"./" + found.name.encode("utf-8", "surrogateescape"))
        complaint = b"find: " + name + b"(/[^/]*)?: Permission denied\n|'" + name + b"/[^/]*': Permission denied\n"
        return re.search(complaint, self._aside) is not None


class Walk:
    """A listing, as far as it may be seen.

    Args:
        line: reaches the sandbox.
        work_dir: where shown paths start.
        questions: who answers for each entry.
        listing: of a directory that was judged.
        typed: its name as typed, absolute.
        depth: how many levels were read; None for all.
        led: completes what *line* tells of where a link leads.
    """

    def __init__(
        self,
        line: Line,
        work_dir: str,
        questions: Questions,
        listing: Listing,
        typed: str,
        depth: int | None,
        led: Callable[[Spot, Line], Spot],
    ) -> None:
        self._line = line
        self._led = led
        self._work_dir = work_dir
        self._questions = questions
        self._listing = listing
        self._real = listing.spot.real
        self._typed = typed
        self._depth = depth
        self._left_out: list[str] = []

    def leave_out(self, directory: str) -> None:
        """Tell of nothing beneath *directory*, a name beneath the top."""
        self._left_out.append(f"{directory}/")

    def entries(self) -> Generator[Entry, None, None]:
        """Yield what is beneath, parents first."""
        found = self._listing.found()
        while batch := list(islice(found, _BATCH)):
            yield from self._judged(batch)

    def _judged(self, batch: Sequence[Found]) -> Iterator[Entry]:
        leads = self._leads(batch)
        for found in batch:
            if is_unfinished(found.name.rpartition("/")[2]) or found.name.startswith(tuple(self._left_out)):
                continue
            typed = join(self._typed, found.name)
            spot = Spot(self._real, (found.name,), found.stat)
            shown = self._questions.free or self._shown(typed, spot, leads.get(found.name))
            yield found.stat.describe(typed, self._work_dir) if shown else None
            if shown and found.closed and self._enters(found):
                yield Skipped(display(typed, self._work_dir), _CLOSED)

    def _enters(self, found: Found) -> bool:
        return self._depth is None or found.name.count("/") + 1 < self._depth

    def _leads(self, batch: Sequence[Found]) -> dict[str, Spot]:
        """Return where the links among *batch* lead, by name; nothing where nobody asks."""
        links = [found.name for found in batch if found.stat.is_link]
        if self._questions.free or not links:
            return {}
        reply = self._line.look(call("k_leads", *(join(self._real, name) for name in links)))
        records = reply.records()
        starts = [place for place, record in enumerate(records) if record == "t"]
        ends = [*starts[1:], len(records)]
        return {
            name: self._led(parse_spot(records[start + 1 : end]), self._line)
            for name, start, end in zip(links, starts, ends, strict=True)
        }

    def _shown(self, typed: str, spot: Spot, lead: Spot | None) -> bool:
        if lead is None:
            return self._questions.may(names_of(typed, spot.real), spot)
        return self._questions.may(names_of(typed, spot.real, lead.real), spot, lead.hops)
