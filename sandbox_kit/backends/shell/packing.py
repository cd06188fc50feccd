r"""A script for a provider that runs a command line and answers with one text: streams apart, bytes exact.

Both streams of the script come back in that text as base64, up to some bytes of each. What is more stays in the
sandbox as files of a known size, to be fetched, and beyond a limit only its end is kept.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Sequence

from attrs import field, frozen

from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.host.unfinished import new_name
from sandbox_kit.output import Stream

__all__ = ["LONGEST", "Package", "Packed", "Part", "inline", "is_short"]

LONGEST = 128 * 1024 - 1024
"""The most bytes of a command line: Linux takes 128 KiB of one argument, with its end."""

_SHORT = 24 * 1024
"""Up to so many bytes of standard input go with the script."""

_INLINE: dict[Stream, int] = {"stdout": 66_000, "stderr": 4_000}
"""How many bytes of each stream come with the answer: services cut it at 100,000 characters."""

_END = 256
"""How many bytes of a stream's end are kept where its middle is dropped."""

_PACK = r"""
# WORD COUNT FULL PIECES FILE: print standard input as base64, keep what is more than COUNT bytes in pieces
k_pack() {
	k_x=$(dd bs=65536 count="$2" iflag=fullblock,count_bytes status=none 2>/dev/null | base64)
	k_n=0 k_s=0 k_e=
	if [ "${#k_x}" -ge "$3" ]; then
		mkdir -p -m 700 "$k_parked"
		while [ "$k_n" -lt "$4" ]; do
			dd bs=65536 count=PIECE iflag=fullblock,count_bytes status=none of="$k_parked/$5$k_n" 2>/dev/null
			k_b=$(wc -c <"$k_parked/$5$k_n")
			[ "$k_b" -gt 0 ] || break
			k_s=$((k_b)) k_n=$((k_n + 1))
			[ "$k_s" -eq PIECE ] || break
		done
		k_e=$(tail -c END | base64)
	fi
	printf '%s %s %s\n%s\n%s-\n%s\n%s=\n' "$1" "$k_n" "$k_s" "$k_x" "$1" "$k_e" "$1"
}
"""
_WRAP = r"""{pack}
: {label}
k_parked={parked}
k_script=$(printf %s {script} | base64 -d)
{{
	{{ {source} {{ eval "$k_script"; }} 2>&7 7>&- 6>&- | k_pack {word}o {o_inline} {o_full} {pieces} o >&6
	}} 7>&1 | k_pack {word}e {e_inline} {e_full} {pieces} e >&6
}} 6>&1 </dev/null 2>/dev/null
"""


@frozen
class Part:
    """A piece of a stream that stays in the sandbox.

    Attributes:
        path: absolute.
        size: in bytes.
    """

    path: str
    size: int


@frozen
class Packed:
    """One stream of a script.

    Attributes:
        first: its first bytes.
        parts: those that follow.
        last: its end, where it is longer than these.
    """

    first: bytes
    parts: tuple[Part, ...] = ()
    last: bytes = b""


def is_short(stdin: Sequence[bytes | bytearray]) -> bool:
    """Whether standard input can go with the script."""
    return sum(map(len, stdin)) <= _SHORT


def inline(stdin: Sequence[bytes | bytearray]) -> str:
    """Return shell code before a group that reads *stdin*."""
    data = b"".join(stdin)
    return f"printf %s {base64.b64encode(data).decode()} | base64 -d |" if data else ""


@frozen
class Package:
    """One script and its answer.

    Attributes:
        directory: where streams are kept that are too long for the answer; the sandbox's own.
        piece: of how many bytes.
        limit: how many bytes of each stream are wanted; None for all.
        word: what the answer is known by.
    """

    directory: str
    piece: int = 4 * 2**20
    limit: int | None = None
    word: str = field(factory=new_name)

    @property
    def parked(self) -> str:
        """The directory of this package's own in which pieces are kept."""
        return f"{self.directory.rstrip('/')}/{self.word}"

    def wrap(self, script: bytes, source: str = "", label: str = "") -> str:
        """Return the command line. Whoever sees it does not see what is in the script, such as its own marks.

        Args:
            script: shell code; its descriptors 1 and 2 are the two streams.
            source: what stands before the group that runs it, to give it standard input.
            label: stands in it as it is.
        """
        pieces = 2**30 if self.limit is None else -(-self.limit // self.piece)
        return _WRAP.format(
            pack=_PACK.replace("PIECE", str(self.piece)).replace("END", str(_END)),
            parked=shlex.quote(self.parked),
            source=source,
            label=shlex.quote(label),
            script=base64.b64encode(script).decode(),
            word=shlex.quote(self.word),
            pieces=pieces,
            o_inline=_INLINE["stdout"],
            o_full=_encoded(_INLINE["stdout"]),
            e_inline=_INLINE["stderr"],
            e_full=_encoded(_INLINE["stderr"]),
        )

    def unwrap(self, answer: str) -> dict[Stream, Packed] | None:
        """Return the streams that *answer* holds; None where it is not the answer of this script.

        Raises:
            RemoteProtocolError: it is, and something is wrong in it.
        """
        found: dict[Stream, Packed | None] = {"stdout": self._stream(answer, "o"), "stderr": self._stream(answer, "e")}
        streams = {stream: packed for stream, packed in found.items() if packed is not None}
        return streams if len(streams) == len(found) else None

    def _stream(self, answer: str, letter: str) -> Packed | None:
        word = re.escape(self.word + letter)
        match = re.search(rf"^{word} (\d+) (\d+)\n(.*?)\n{word}-\n(.*?)\n{word}=$", answer, re.DOTALL | re.MULTILINE)
        if match is None:
            return None
        count, last = int(match[1]), int(match[2])
        sizes = [self.piece] * (count - 1) + [last] if count else []
        parts = (Part(f"{self.parked}/{letter}{number}", size) for number, size in enumerate(sizes))
        return Packed(_decoded(match[3]), tuple(parts), _decoded(match[4]))


def _encoded(count: int) -> int:
    """Return how many characters so many bytes have at least."""
    return 4 * count // 3


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise RemoteProtocolError(f"what came from the sandbox is no base64: {error}") from error
