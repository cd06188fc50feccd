"""Which of the file tools an image has, and what they can: each is tried."""

from __future__ import annotations

import shlex
import time

from attrs import frozen

from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import UnsupportedError
from sandbox_kit.output import Stream
from sandbox_kit.search.dialect import parse
from sandbox_kit.search.records import grep_options

__all__ = ["Tools", "probe"]

_NEEDED = ("cat", "chmod", "dd", "find", "ln", "mkdir", "mv", "readlink", "rm", "rmdir", "stat")

_TRIALS = {
    "printf": "find / -maxdepth 0 -printf ''",
    "fstat": "cd /proc && stat -c %.9Y -- -",
    "replace": "k_option mv -T /proc/- /proc/-/-",
    "into": "k_option ln -sT - /proc/-/-",
    "exact": "dd count=0 iflag=fullblock,count_bytes,skip_bytes status=none",
    "sure": "k_option rm --one-file-system -f -- /proc/-",
    "nul": "printf 'a\\0needle\\n' | grep -q needle",
}
"""What a tool may be able to do beyond POSIX, and what succeeds where it is."""

_PROBE = """
k_path=$PATH PATH={path}
k_option() {{ case $(LC_ALL=C "$@" 2>&1) in *ption*) return 1;; esac; }}
{{
for k_t in {needed}; do command -v "$k_t" >/dev/null || echo "-$k_t"; done
{trials}
printf '\\0'
printf 'one\\nneedle two\\n' | LC_ALL=C {grep} -
}} </ >&8 2>/dev/null; c=0; PATH=$k_path
"""
_ANSWER = b"(standard input)\x001-0-one\n(standard input)\x002:4:needle two\n"


@frozen
class Tools:
    """What an image has; it holds for every shell of it.

    Attributes:
        printf: whether ``find`` has ``-printf``, as GNU's.
        fstat: whether ``stat`` describes its standard input as ``-``, as GNU's.
        replace: whether ``mv`` has ``-T``.
        into: whether ``ln`` has ``-T``.
        sure: whether ``rm`` goes down by descriptors, as GNU's, never through what became a link.
        grep: whether ``grep`` is GNU's, with records that no name can forge.
        nul: whether ``grep`` looks past a NUL.
    """

    printf: bool
    fstat: bool
    replace: bool
    into: bool
    sure: bool
    grep: bool
    nul: bool


def probe(loop: Loop, timeout: float, path: str) -> Tools:
    """Try the tools that *loop* finds.

    Args:
        timeout: in seconds.
        path: where to look for them, quoted.

    Raises:
        UnsupportedError: one that files cannot do without is missing, or not able enough.
        SandboxUnavailableError: the loop is gone.
        SandboxTimeoutError: it does not answer in time.
    """
    grep = shlex.join(["grep", *grep_options(parse("ne+dle"), context=1, hidden=True)])
    trials = "\n".join(f"({trial}) >/dev/null && echo +{name}" for name, trial in _TRIALS.items())
    printed = bytearray()

    def take(stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            printed.extend(data)

    script = _PROBE.format(path=path, needed=" ".join(_NEEDED), trials=trials, grep=grep)
    loop.run(script, take, time.monotonic() + timeout)
    told, _, answer = bytes(printed).partition(b"\0")
    words = told.decode("ascii", "replace").split()
    missing = [word[1:] for word in words if word.startswith("-")]
    if missing:
        raise UnsupportedError(f"file operations need {', '.join(missing)} in the sandbox's image")
    if "+exact" not in words:
        raise UnsupportedError("file operations need a dd with iflag=fullblock,count_bytes,skip_bytes in the image")
    able = {name: f"+{name}" in words for name in ("printf", "fstat", "replace", "into", "sure", "nul")}
    return Tools(**able, grep=answer == _ANSWER)
