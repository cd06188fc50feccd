"""What is hidden from a container's commands, or kept from being changed: a list, made before it starts.

The kernel masks by name and a container is made with its masks. So the list is made of what is
there, entry by entry, and each directory whose name a mask depends on is kept in its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping

from attrs import asdict, field, frozen

from sandbox_kit.backends.shell.listing import Found
from sandbox_kit.errors import PolicyError, UnsupportedError, printable
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.paths import join, within
from sandbox_kit.rules.masks import SYSTEM_TREE

__all__ = ["Identity", "Outside", "Plan", "make_plan", "protected", "unlisted"]

Identity = tuple[int, int]
"""Device and inode."""


_MOST = 4096
"""So many names are masked at most: the kernel holds each by a mount of its own."""

_PATH_MAX = 4096

_OWN = frozenset({"/dev", "/proc", "/sys", "/tmp"})
"""What every container has for itself."""


@frozen
class Outside:
    """What is masked outside the workspace, by real names.

    Attributes:
        hidden: files and directories.
        read_only: directories.
    """

    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()


@frozen
class Plan:
    """What commands must not see or change.

    Attributes:
        hidden: names in the workspace, absolute.
        read_only: the same, of what cannot be changed.
        again: what is mounted once more from where the workspace comes from -> whether it is read-only:
            directories that keep their names, and what may be changed in a directory that may not.
        frozen: whether the workspace as a whole is read-only.
        outside: what is masked elsewhere.
        masked: device and inode of all that is hidden in the workspace.
        fixed: the same of all that something is mounted on: a mount goes with the file that it is on.
    """

    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    again: Mapping[str, bool] = field(factory=dict)
    frozen: bool = False
    outside: Outside = field(factory=Outside)
    masked: frozenset[Identity] = field(default=frozenset(), eq=False)
    fixed: frozenset[Identity] = field(default=frozenset(), eq=False)

    @property
    def in_workspace(self) -> bool:
        """Whether commands see the workspace otherwise than it is."""
        return bool(self.hidden or self.read_only or self.again or self.frozen)

    def places(self) -> set[str]:
        """Every name in the workspace that something is mounted on."""
        return {*self.hidden, *self.read_only, *self.again}

    def digest(self) -> str:
        """What tells two plans apart; empty for one that masks nothing."""
        if self == Plan():
            return ""
        told = asdict(self, filter=lambda attribute, _: attribute.name not in ("masked", "fixed"))
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def make_plan(
    found: Iterable[Found], rules: JointMasks, work_dir: str, outside: Outside, known: Collection[Identity] = ()
) -> Plan:
    """Judge every entry of a workspace.

    A link is never followed: what it leads to is judged by its own name. A directory that cannot be
    looked into is hidden whole, since its owner could open it to commands.

    Args:
        found: all entries beneath *work_dir*, parents first.
        known: what was hidden before; it stays hidden under another name.

    Raises:
        UnsupportedError: a rule hides the work directory itself, or names that cannot be masked, or too many.
        PolicyError: the workspace changes under the walk.
    """
    if rules.hidden_whole(work_dir):
        raise UnsupportedError(f"a rule hides the work directory itself, {printable(work_dir)}, from commands")
    judge = _Judge(rules, work_dir, frozenset(known))
    for each in found:
        judge.enter(each)
    plan = judge.plan(outside)
    _check_places(plan.places())
    return plan


def _check_places(places: Collection[str]) -> None:
    """Check that an engine can be told of every place.

    Raises:
        UnsupportedError: there are too many, or one has a name that is too long, or not UTF-8.
    """
    if len(places) > _MOST:
        raise UnsupportedError(f"the rules mask {len(places)} names, more than {_MOST}: deny their directories instead")
    for name in places:
        try:
            too_long = len(name.encode()) >= _PATH_MAX
        except UnicodeEncodeError as error:
            raise UnsupportedError(f"{printable(name)} cannot be masked: its name is not UTF-8") from error
        if too_long:
            raise UnsupportedError(f"{printable(name[:100])}... cannot be masked: its name is too long")


class _Judge:
    """The walk of a workspace, one entry after the other, parents first."""

    def __init__(self, rules: JointMasks, work_dir: str, known: frozenset[Identity]) -> None:
        self._rules = rules
        self._work_dir = work_dir
        self._known = known
        self._frozen = {"": rules.read_only(work_dir)}
        self._gone: set[str] = set()
        self._hidden: dict[str, Identity] = {}
        self._read_only: list[str] = []
        self._writable: list[str] = []
        self._kept: list[str] = []
        self._fixed: set[Identity] = set()

    def enter(self, found: Found) -> None:
        """Judge one entry."""
        parent = found.name.rpartition("/")[0]
        if parent in self._gone:
            if found.stat.is_dir:
                self._gone.add(found.name)
        elif parent not in self._frozen:
            raise PolicyError([f"{printable(join(self._work_dir, parent))} changed while its masks were made"])
        elif not found.stat.is_link:
            self._judge(found, join(self._work_dir, found.name), self._frozen[parent])

    def _judge(self, found: Found, name: str, frozen_here: bool) -> None:
        if self._is_hidden(found, name):
            self._hidden[name] = (found.stat.device, found.stat.inode)
            if found.stat.is_dir:
                self._gone.add(found.name)
            return
        frozen_there = self._rules.read_only(name)
        if found.stat.is_dir:
            self._frozen[found.name] = frozen_there
        if frozen_there != frozen_here:
            self._fixed.add((found.stat.device, found.stat.inode))
            (self._read_only if frozen_there else self._writable).append(name)
        elif frozen_there and self._rules.set_apart(name, name.rpartition("/")[0]):
            self._kept.append(name)

    def _is_hidden(self, found: Found, name: str) -> bool:
        if (found.stat.device, found.stat.inode) in self._known:
            return True
        if found.stat.is_dir:
            return found.closed or (self._rules.hidden(name) and self._rules.hidden_whole(name))
        return self._rules.hidden(name)

    def plan(self, outside: Outside) -> Plan:
        """Return what to mount."""
        places = [*self._hidden, *self._read_only, *self._writable, *self._kept]
        pins = {pin for name in places for pin in self._rules.pins(name)}
        again = {pin: self._frozen[pin.removeprefix(self._work_dir).strip("/")] for pin in pins}
        again.update(dict.fromkeys(self._writable, False))
        return Plan(
            hidden=tuple(sorted(self._hidden)),
            read_only=tuple(sorted(set(self._read_only) - again.keys())),
            again=dict(sorted(again.items())),
            frozen=self._frozen[""],
            outside=outside,
            masked=frozenset(self._hidden.values()),
            fixed=frozenset(self._hidden.values()) | self._fixed,
        )


def protected(top: Iterable[str], rules: JointMasks) -> list[str]:
    """Which of the *top* directories of a file system are only kept from being changed: the system's, where denied."""
    return [name for name in top if name in SYSTEM_TREE - _OWN and (rules.hidden(name) or rules.read_only(name))]


def unlisted(top: Iterable[str], rules: JointMasks, work_dir: str) -> list[str]:
    """Which of the *top* names are hidden whole: those that no container needs, where denied."""
    return [
        name
        for name in top
        if name not in SYSTEM_TREE | _OWN and rules.hidden_whole(name) and not within(work_dir, name)
    ]
