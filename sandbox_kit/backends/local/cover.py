"""What the kernel must keep from one command, and whether the mounts of another do so already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from sandbox_kit.backends.local import base
from sandbox_kit.backends.local.base import Tree
from sandbox_kit.backends.local.exposed import hidden_beneath
from sandbox_kit.backends.local.masks import Found, Kind, Mount, identity
from sandbox_kit.backends.local.plan import plan
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.errors import PolicyError
from sandbox_kit.host.system import Descriptor
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.paths import within

__all__ = ["Cover", "Shown", "Wanted"]

_PINNED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC

Thing = tuple[Kind, object]
"""How something is kept, and its device and inode: a mount stays on what it covers, whatever that is called."""


@define(eq=False)
class Cover:
    """What is kept from a command, by identity: one made later under the same name is another thing.

    Every thing is held open, so that no new one can get its inode.
    """

    _things: set[Thing] = field(factory=set)
    _pins: list[Descriptor] = field(factory=list)

    def add(self, kind: Kind, pin: Descriptor) -> None:
        """Add what *pin* is open on."""
        self._pins.append(pin)
        self._things.add((kind, identity(pin)))

    def add_name(self, kind: Kind, name: str) -> None:
        """Add what the host has under *name*; a name that nothing has is passed over."""
        try:
            pin = Descriptor.open(name, _PINNED)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            self._things.add((kind, name))
            return
        self.add(kind, pin)

    def holds(self, wanted: Cover) -> bool:
        """Whether all that is *wanted* is kept here, and nothing more is left writable."""
        return wanted._things <= self._things and wanted._writable() == self._writable()

    def _writable(self) -> set[Thing]:
        return {thing for thing in self._things if thing[0] == "read-write"}

    def close(self) -> None:
        """Hold nothing any more; closing twice is fine."""
        self._pins.clear()


@frozen
class Shown:
    """What a command sees outside of the workspace.

    Attributes:
        trees: parts of the host.
        hidden: names to mask, none within another, each with whether it is a directory.
        dropped: parts of the host that are not shown at all.
    """

    trees: Sequence[Tree]
    hidden: Sequence[tuple[str, bool]]
    dropped: Sequence[Tree]


@frozen
class Wanted:
    """What one command is to be kept from, before anything is looked at.

    Attributes:
        root_fd: the workspace.
        work_dir: its real name.
        scratch: the library's own directory.
        rules: what commands must not see or change.
        trees: parts of the host to show.
        etc: the made /etc, on the host.
    """

    root_fd: int
    work_dir: str
    scratch: str
    rules: JointMasks
    trees: Sequence[Tree]
    etc: str

    def shown(self) -> Shown:
        """Look at what is shown of the host."""
        outside = (*self.rules.outside(), *hidden_beneath(self.trees, self.rules, self.work_dir))
        left, hidden = base.without_hidden(self.trees, outside, self.work_dir, self.etc)
        return Shown(left, hidden, [tree for tree in self.trees if tree not in left])

    def mounts(self) -> Found:
        """Walk the workspace; the result holds descriptors as long as it lives."""
        return plan(self.root_fd, self.work_dir, self.rules, self._own())

    def _own(self) -> dict[str, Kind]:
        """What of the library's own lies in the workspace, and how it is kept from commands."""
        own: dict[str, Kind] = dict.fromkeys(base.own_code(self.work_dir), "read-only")
        for name in (self.scratch, own_directory()):
            if within(name, self.work_dir):
                own[name] = "hide-dir"
        return own

    def cover(self, mounts: Iterable[Mount], shown: Shown) -> Cover:
        """What *mounts* and *shown* keep from the command; what is made in /etc stays as it is."""
        cover = Cover()
        try:
            for mount in mounts:
                if mount.pin is not None:
                    cover.add(mount.kind, mount.pin)
            for name, is_directory in shown.hidden:
                if not within(name, "/etc"):
                    cover.add_name("hide-dir" if is_directory else "hide-file", name)
            for tree in shown.dropped:
                cover.add_name("hide-dir", tree.source)
        except BaseException:
            cover.close()
            raise
        return cover

    def is_held_by(self, cover: Cover) -> bool:
        """Whether *cover* keeps all that must be kept from the command now; no if the tree changes under the walk."""
        try:
            wanted = self.cover(self.mounts().mounts, self.shown())
        except PolicyError:
            return False
        try:
            return cover.holds(wanted)
        finally:
            wanted.close()
