"""From what a walk finds to the mounts of one command: folded, pinned, verified and in order."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from attrs import evolve

from sandbox_kit.backends.local.masks import Found, Kind, Mount, identity, pinned, walk
from sandbox_kit.errors import PolicyError, UnsupportedError, printable
from sandbox_kit.joint_masks import JointMasks

__all__ = ["MAX_FILE_MASKS", "MAX_MOUNTS", "MAX_NAME", "folded", "plan", "refuse_too_long"]

MAX_FILE_MASKS = 64
"""Over so many, a directory of which nothing is left to see is masked as one."""

MAX_MOUNTS = 200
"""Over so many a command is refused: each holds a descriptor, and they are few."""

MAX_NAME = 4000
"""Bytes of the longest name that is masked: the kernel takes 4096, with what bubblewrap puts in front."""

_SHOWN = 200


def plan(root_fd: int, work_dir: str, rules: JointMasks, own: Mapping[str, Kind] = MappingProxyType({})) -> Found:
    """Walk the workspace and return all that is to be mounted in it, parents before children.

    Without rules there is no walk.

    Args:
        root_fd: the workspace.
        work_dir: its real name.
        own: what the library itself covers: absolute names beneath *work_dir*.

    Raises:
        PolicyError: the workspace changed meanwhile, or a directory to be pinned is none.
        UnsupportedError: more masks than can be held, or one of too long a name.
    """
    found = walk(root_fd, work_dir, rules) if rules.masks else Found([], {}, [])
    try:
        pins = _pins([*(mount.name for mount in found.mounts), *found.kept], rules, work_dir)
        if sum(mount.kind == "hide-file" for mount in found.mounts) > MAX_FILE_MASKS:
            found.mounts = folded(found)
        refuse_too_long(found.mounts)
        for name, kind in own.items():
            _add_own(found, name, kind, root_fd, work_dir)
            pins.update(_parents(name, work_dir))
        _add_pins(found, pins, root_fd, work_dir)
        found.mounts.sort(key=_depth)
        _refuse_too_many(found.mounts)
        _verify(found, root_fd, work_dir)
        _pin_all(found, root_fd, work_dir)
    except BaseException:
        found.close()
        raise
    return found


def _add_own(found: Found, name: str, kind: Kind, root_fd: int, work_dir: str) -> None:
    """Cover one name for the library itself, over what rules make of it, unless that is as good."""
    kinds = {mount.name: mount.kind for mount in found.mounts}
    around = _enclosing(name, kinds)
    if around is not None and kinds[around] in ("hide-dir", kind):
        return
    found.mounts.append(Mount(kind, name, pinned(root_fd, work_dir, name)))


def _parents(name: str, work_dir: str) -> Iterator[str]:
    """The directories between *work_dir* and *name*, neither of them included."""
    while (name := name.rpartition("/")[0]) and name.startswith(work_dir.rstrip("/") + "/"):
        yield name


def _pins(names: Iterable[str], rules: JointMasks, work_dir: str) -> set[str]:
    return {pin for name in names for pin in rules.pins(name) if pin.startswith(work_dir.rstrip("/") + "/")}


def folded(found: Found) -> list[Mount]:
    """The mounts of *found* with one for each directory of which nothing is left to see."""
    whole: set[str] = set()
    for name in reversed(found.all_hidden):
        if _enclosing(name, whole) is None:
            whole.add(name)
    kept = [mount for mount in found.mounts if _enclosing(mount.name, whole) is None]
    return kept + [Mount("hide-dir", name) for name in whole]


def _enclosing(name: str, directories: Container[str]) -> str | None:
    """The deepest of *directories* that *name* is, or lies beneath."""
    while name not in directories:
        name = name.rpartition("/")[0]
        if not name:
            return None
    return name


def _add_pins(found: Found, pins: set[str], root_fd: int, work_dir: str) -> None:
    """Mount every pinned directory over itself, as writable as what it lies in."""
    kinds = {mount.name: mount.kind for mount in found.mounts}
    for name in sorted(pins - kinds.keys()):
        around = _enclosing(name, kinds)
        kind = kinds[around] if around is not None else "read-write"
        if kind != "hide-dir":
            found.mounts.append(Mount(kind, name, pinned(root_fd, work_dir, name, directory=True)))


def _depth(mount: Mount) -> int:
    return mount.name.count("/")


def _refuse_too_many(mounts: list[Mount]) -> None:
    if len(mounts) > MAX_MOUNTS:
        raise UnsupportedError(
            f"the rules mask {len(mounts)} names in the workspace, more than the {MAX_MOUNTS} that commands can be "
            f"held to, such as {printable(mounts[-1].name)}: deny the directory that they lie in"
        )


def refuse_too_long(mounts: Iterable[Mount]) -> None:
    """Refuse names that the kernel cannot be given.

    Raises:
        UnsupportedError: there is one; names where it begins.
    """
    for mount in mounts:
        size = len(os.fsencode(mount.name))
        if size > MAX_NAME:
            raise UnsupportedError(
                f"{printable(mount.name[:_SHOWN])}...: a name of {size} bytes beneath it is too long to be masked "
                f"({MAX_NAME}): move or remove it"
            )


def _pin_all(found: Found, root_fd: int, work_dir: str) -> None:
    """Pin what has the name of each mask now: by its name it is to be hidden, whatever the walk met."""
    for number, mount in enumerate(found.mounts):
        if mount.pin is None:
            found.mounts[number] = evolve(mount, pin=pinned(root_fd, work_dir, mount.name))


def _verify(found: Found, root_fd: int, work_dir: str) -> None:
    """Look once more: every directory with a mount in it must still be the one that was walked."""
    for name, walked in found.parents.items():
        if identity(pinned(root_fd, work_dir, name, directory=True)) != walked:
            raise PolicyError([f"{printable(name)} changed while its masks were made: another directory has its name"])
