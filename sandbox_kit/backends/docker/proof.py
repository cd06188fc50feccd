"""The proof that a container masks what it was made to: its own table of mounts, read before the first command runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from attrs import frozen

from sandbox_kit.backends.docker.plan import Plan
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import PolicyError, UnsupportedError, printable
from sandbox_kit.paths import join, relative, within

__all__ = ["prove", "prove_sources"]

_THERE = r"""
for k_p in {names}; do [ ! -e "$k_p" ] || printf '%s\0' "$k_p" >&8; done
"""
_TABLE = r"""
while IFS= read -r k_p; do printf '%s\n' "$k_p" >&8; done </proc/self/mountinfo
"""
"""By builtins alone: in a container that was kept, commands may have replaced any program."""

_SHELL = "/bin/sh -c : </dev/null >/dev/null 2>/dev/null 8>&- 9>&-; c=$?"

_OF_THE_ENGINE = frozenset({"hostname", "hosts", "resolv.conf"})
_ESCAPED = re.compile(r"\\([0-7]{3})")


@frozen
class _Mount:
    """A line of the table.

    Attributes:
        device: of what is mounted.
        root: which part of that.
        place: where.
        kind: of file system.
    """

    device: str
    root: str
    place: str
    kind: str


def prove(loop: Loop, plan: Plan, work_dir: str, deadline: float) -> list[str]:
    """Compare what is mounted with *plan*.

    Args:
        loop: a shell in the container, which has run no command.
        deadline: on the clock of :func:`time.monotonic`.

    Returns:
        What is there of the names that are hidden outside the workspace.

    Raises:
        PolicyError: something else is: a name became a link, or was gone, while the container was made.
        UnsupportedError: a rule hides what a shell needs.
    """
    mounts = _mounts(loop, deadline)
    if PLACE not in (mount.place for mount in mounts):
        raise UnsupportedError("the engine does not hide what it is told to, so that the kernel cannot hold the rules")
    _compare(mounts, plan, work_dir)
    _, told = _run(loop, _THERE.format(names=" ".join(map(shlex.quote, plan.outside.hidden))), deadline)
    there = [name for name in told.decode("utf-8", "surrogateescape").split("\0") if name]
    _check_hidden(there, mounts)
    if _run(loop, _SHELL, deadline)[0]:
        raise UnsupportedError(f"the rules hide what a shell needs: {', '.join(map(printable, plan.outside.hidden))}")
    return there


def prove_sources(loop: Loop, work_dir: str, deadline: float) -> None:
    """Check that nothing but parts of the workspace, and masks, is mounted in it; names may have changed since.

    Args:
        as for :func:`prove`.

    Raises:
        PolicyError: something else is.
    """
    mounts = _mounts(loop, deadline)
    base = next((mount for mount in reversed(mounts) if mount.place == work_dir), None)
    beneath = [mount for mount in mounts if within(mount.place, work_dir)]
    strange = [mount.place for mount in beneath if base is None or not (_is_mask(mount) or _is_part(mount, base))]
    if base is None or strange:
        raise PolicyError([f"{printable(name)} is not of the workspace" for name in strange or [work_dir]])


def _is_mask(mount: _Mount) -> bool:
    return (mount.kind == "tmpfs" and mount.root in ("/", "/null")) or (mount.kind, mount.root) == ("devtmpfs", "/null")


def _is_part(mount: _Mount, base: _Mount) -> bool:
    return mount.device == base.device and within(mount.root, base.root)


def _mounts(loop: Loop, deadline: float) -> list[_Mount]:
    return list(_parsed(_run(loop, _TABLE, deadline)[1]))


def _run(loop: Loop, script: str, deadline: float) -> tuple[int, bytes]:
    """Run a script; return its exit code, and what it prints."""
    told = bytearray()
    code = loop.run(script, lambda _, data: told.extend(data), deadline)
    return code, bytes(told)


def _parsed(table: bytes) -> Iterator[_Mount]:
    for line in table.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        _, _, device, root, place, *rest = line.split(" ")
        yield _Mount(device, _plain(root), _plain(place), rest[rest.index("-") + 1])


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), field)


def _compare(mounts: list[_Mount], plan: Plan, work_dir: str) -> None:
    """Compare what is mounted in the workspace, and from where."""
    beneath = [mount for mount in mounts if within(mount.place, work_dir) and mount.place != work_dir]
    if work_dir == "/etc":
        beneath = [mount for mount in beneath if relative(mount.place, work_dir) not in _OF_THE_ENGINE]
    odd = plan.places() ^ {mount.place for mount in beneath}
    base = next((mount for mount in reversed(mounts) if mount.place == work_dir), None)
    if base is not None:
        odd |= {
            mount.place
            for mount in beneath
            if mount.place in plan.again and (mount.device, mount.root) != (base.device, _part(base, mount, work_dir))
        }
    if odd or base is None:
        raise PolicyError([f"{printable(name)} changed while its mask was made" for name in sorted(odd or {work_dir})])


def _part(base: _Mount, mount: _Mount, work_dir: str) -> str:
    return join(base.root, relative(mount.place, work_dir))


def _check_hidden(there: list[str], mounts: list[_Mount]) -> None:
    """Check that what is there and should be hidden is mounted over."""
    places = {mount.place for mount in mounts}
    open_to_see = [name for name in there if name not in places]
    if open_to_see:
        raise PolicyError(
            [f"{printable(name)} is not masked: it became a link, or lies behind one" for name in open_to_see]
        )
