"""What rules hide beneath the host paths that are exposed to commands.

Each exposed tree is walked as the workspace is: by descriptor, never through a link, every entry
judged by its real name and by the name that commands see it under. Commands cannot change
a thing there, so nothing is pinned and no write rule is asked. A path that rules hide as a
whole is not shown at all: rules win over ``expose``. Not walked are this Python's prefixes and
the base system, unless they lie beneath something that is exposed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from sandbox_kit.backends.local.base import Tree
from sandbox_kit.backends.local.masks import DIRECTORY, Found, Walker, changed
from sandbox_kit.backends.local.plan import MAX_FILE_MASKS, MAX_MOUNTS, folded, refuse_too_long
from sandbox_kit.errors import UnsupportedError, printable
from sandbox_kit.host.system import Descriptor
from sandbox_kit.joint_masks import JointMasks

__all__ = ["MAX_ENTRIES", "hidden_beneath"]

MAX_ENTRIES = 100_000
"""How many entries of one exposed path are judged; one that has more is refused where rules may hide some."""


def hidden_beneath(trees: Sequence[Tree], rules: JointMasks, work_dir: str) -> list[str]:
    """Find what must be hidden of what is exposed; without rules there is no walk.

    Args:
        trees: all that commands see.
        work_dir: the workspace, which is left out where it lies in a tree.

    Returns:
        Real names on the host.

    Raises:
        UnsupportedError: a path has too many entries, or too many of them are hidden; names the path.
        PolicyError: a tree changes under the walk.
    """
    if not rules.masks:
        return []
    names: dict[str, list[str]] = {}
    for tree in trees:
        if tree.exposed:
            names.setdefault(tree.source, []).append(tree.name)
    return [
        name for source, places in names.items() for name in _hidden(source, _Shown(rules, source, places), work_dir)
    ]


class _Shown(JointMasks):
    """Rules over a tree that commands see under several names and cannot change."""

    def __init__(self, rules: JointMasks, source: str, places: Sequence[str]) -> None:
        super().__init__(rules.masks)
        self._source = source
        self._places = [place for place in places if place != source]
        self._hidden = self.hidden
        self.hidden = self._hidden_anywhere if self._places else self._hidden
        self.read_only = _always

    def _names(self, name: str) -> list[str]:
        return [name, *(place + name[len(self._source) :] for place in self._places)]

    def _hidden_anywhere(self, name: str) -> bool:
        return any(map(self._hidden, self._names(name)))

    def hidden_whole(self, directory: str) -> bool:
        return any(map(super().hidden_whole, self._names(directory)))


def _always(_name: str) -> bool:
    return True


def _hidden(source: str, rules: _Shown, work_dir: str) -> list[str]:
    if rules.hidden_whole(source) or (not os.path.isdir(source) and rules.hidden(source)):
        return [source]
    if not os.path.isdir(source):
        return []
    found = _walk(source, rules, work_dir)
    if len(found.mounts) > MAX_FILE_MASKS:
        found.mounts = folded(found)
    refuse_too_long(found.mounts)
    if len(found.mounts) > MAX_MOUNTS:
        raise UnsupportedError(
            f"the rules hide {len(found.mounts)} names beneath the exposed {printable(source)}, more than the "
            f"{MAX_MOUNTS} that commands can be held to: expose less of it"
        )
    return [mount.name for mount in found.mounts]


def _walk(source: str, rules: _Shown, work_dir: str) -> Found:
    walker = _Walker(rules, source, work_dir)
    try:
        root = Descriptor.open(source, DIRECTORY)
    except PermissionError:
        return walker.found
    except OSError as error:
        raise changed(source) from error
    with root:
        if walker.enter(root.fd, source.rstrip("/") + "/", True, 0):
            walker.found.all_hidden.append(source)
    return walker.found


class _Walker(Walker):
    """A walk of what is exposed: it has an end, and leaves the workspace out."""

    def __init__(self, rules: JointMasks, source: str, work_dir: str) -> None:
        super().__init__(rules)
        self._source = source
        self._work_dir = work_dir
        self._met = 0

    def entries(self, scan: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in scan:
            self._met += 1
            if self._met > MAX_ENTRIES:
                raise UnsupportedError(
                    f"{printable(self._source)} is exposed and holds more than {MAX_ENTRIES} entries, "
                    "too many to hide some of them by rules: expose less of it"
                )
            yield entry

    def directory(self, parent: int, entry: str, name: str, frozen_here: bool, depth: int) -> bool:
        return name == self._work_dir or super().directory(parent, entry, name, frozen_here, depth)
