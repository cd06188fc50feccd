"""The look into a workspace and an image that tells what to mask for a set of rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.plan import Identity, Outside, Plan, make_plan, protected, unlisted
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.listing import Listing
from sandbox_kit.backends.shell.spots import apart, call, parse_spot
from sandbox_kit.errors import UnsupportedError, printable
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.paths import within

__all__ = ["plan_masks"]

_OURS = frozenset({PLACE, leases.PLACE})
_PASSABLE = ("", "a")
"""A directory that commands' own user may not enter: another may, and the engine finds the way."""

_NEEDED = ("/bin/sh", PLACE, leases.PLACE)
"""Without these no command starts."""


def plan_masks(line: Line, work_dir: str, rules: JointMasks, known: Collection[Identity]) -> Plan:
    """Return what to mask in a container.

    Args:
        line: reaches the workspace, and the image, with nothing masked.
        known: what was masked the last time.

    Raises:
        UnsupportedError: a rule hides what commands need, or the masks cannot be held; names it.
    """
    listing = _opened(line, work_dir, None)
    if listing.spot.real != work_dir:
        raise UnsupportedError(f"work_dir: {work_dir} is {listing.spot.real} by its real name: name it so under rules")
    return make_plan(listing.found(), rules, work_dir, _outside(line, work_dir, rules), known)


def _opened(line: Line, directory: str, depth: int | None) -> Listing:
    """List a directory, of which nothing may stay unseen.

    Raises:
        UnsupportedError: it cannot be listed.
    """
    listing = Listing(line, directory, depth)
    if not listing.is_open:
        raise UnsupportedError(
            f"{directory} cannot be listed in the sandbox, so nothing in it can be masked: "
            f"start it without rules, and give its owner back what `chmod u+rwx {directory}` gives"
        )
    return listing


def _outside(line: Line, work_dir: str, rules: JointMasks) -> Outside:
    top = [f"/{found.name}" for found in _opened(line, "/", 1).found()]
    spelled_out = [*rules.outside(), *(name for name in unlisted(top, rules, work_dir) if name not in _OURS)]
    hidden = _real_names(line, spelled_out, work_dir)
    read_only = _real_names(line, protected(top, rules), work_dir)
    _check_needed(line, hidden, work_dir)
    return Outside(tuple(hidden), tuple(read_only))


def _real_names(line: Line, names: Sequence[str], work_dir: str) -> list[str]:
    """Where *names* lead outside the workspace, each place once."""
    if not names:
        return []
    spots = map(parse_spot, apart(line.look(call("k_each", *names)).records()))
    return sorted({spot.real for spot in spots if spot.fault in _PASSABLE and not within(spot.real, work_dir)})


def _check_needed(line: Line, hidden: Sequence[str], work_dir: str) -> None:
    """Check that commands still find what they need.

    Raises:
        UnsupportedError: it is hidden; names it.
    """
    for name in (*_real_names(line, _NEEDED, work_dir), work_dir):
        for mask in hidden:
            if within(name, mask):
                raise UnsupportedError(f"a rule hides {printable(mask)} from commands, which cannot run without {name}")
