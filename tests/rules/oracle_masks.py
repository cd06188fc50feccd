"""What commands see and can change in a tree under masks, and what they can rename in it, told the slow and simple way.

A tree is kept as its names: absolute and normal, each with a number that stays with the thing, parents before
children. Something that is mounted on cannot be renamed, and nothing moves between two mounts; what lies
beneath a directory moves with it, mounts and all.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from sandbox_kit.rules.masks import RuleMasks

WORK_DIR = "/w"

Tree = dict[str, int]
"""Name -> number; that of a directory is negative."""


def above(name: str) -> Iterator[str]:
    """*name* and each directory that it lies in, innermost first, down to the work directory."""
    while name != WORK_DIR:
        yield name
        name = name.rpartition("/")[0]
    yield WORK_DIR


@frozen
class Held:
    """What a kernel makes of a tree: each number that is mounted on, and how.

    Attributes:
        mounts: number -> "hidden", "read-only" or "writable"; nothing else than those counts.
        root: the same of the work directory.
    """

    mounts: dict[int, str]
    root: str

    def state(self, tree: Tree, name: str) -> str:
        """What the mount that *name* lies in makes of it."""
        return next((self.mounts[tree[each]] for each in above(name) if tree.get(each) in self.mounts), self.root)

    def mount(self, tree: Tree, name: str) -> int:
        """The number that the mount is on which *name* lies in; 0 for the work directory."""
        return next((tree[each] for each in above(name) if tree.get(each) in self.mounts), 0)

    def writable(self, tree: Tree) -> list[str]:
        """The directories in which commands can make and rename things."""
        directories = [name for name, number in tree.items() if number < 0]
        return [name for name in (WORK_DIR, *directories) if self.state(tree, name) == "writable"]

    def movable(self, tree: Tree) -> list[str]:
        """What commands can rename."""
        writable = self.writable(tree)
        return [n for n, number in tree.items() if number not in self.mounts and n.rpartition("/")[0] in writable]


def hold(tree: Tree, masks: RuleMasks) -> Held:
    """Mount what *masks* say on the things in *tree*."""
    kinds: dict[str, str] = {WORK_DIR: "read-only" if masks.read_only(WORK_DIR) else "writable"}
    places: dict[str, str] = {}
    for name, number in tree.items():
        around = kinds[name.rpartition("/")[0]]
        whole = masks.hidden(name) and (number > 0 or not masks.opens_beneath(name))
        wanted = "hidden" if whole else "read-only" if masks.read_only(name) else "writable"
        kinds[name] = around if around == "hidden" else wanted
        if kinds[name] != around:
            places[name] = wanted
    pins = {pin: kinds[pin] for name in places for pin in masks.pins(name)}
    return Held({tree[name]: kind for name, kind in {**pins, **places}.items()}, kinds[WORK_DIR])


def renamed(tree: Tree, name: str, to: str) -> Tree:
    """*tree* after a rename of *name*, which takes along all beneath it."""
    moved = {to + each[len(name) :] if name in above(each) else each: number for each, number in tree.items()}
    return dict(sorted(moved.items()))
