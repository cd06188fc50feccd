"""What confined commands see of the host, beside the workspace: the base system, this Python, what is exposed."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

from sandbox_kit.backends.local.interpreter import helper_interpreter
from sandbox_kit.errors import InvalidArgumentError, PathEscapeError, PathNotFoundError, UnsupportedError, printable
from sandbox_kit.paths import within

__all__ = [
    "Tree",
    "essential_files",
    "is_own_package",
    "make_room",
    "own_code",
    "system_arguments",
    "visible_trees",
    "without_hidden",
]

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_MADE = ("/etc", "/proc", "/dev", "/tmp")
_PARTS = ("bin", "Scripts", "lib", "lib64", "include", "share", "pyvenv.cfg")
"""What an interpreter needs of its prefix, which may be a project's own directory."""

_MAX_LINKS = 40
_PACKAGE = str(Path(__file__).parents[2])


@frozen
class Tree:
    """A part of the host that commands see, read-only.

    Attributes:
        name: where they see it.
        source: its real name on the host.
        exposed: whether the caller asked for it, so that rules are held against all that it holds.
    """

    name: str
    source: str
    exposed: bool = False


@cache
def system_arguments() -> tuple[str, ...]:
    """Options that show the base system: directories read-only, links as links."""
    arguments: list[str] = []
    for name in _SYSTEM:
        if os.path.islink(name):
            arguments += ("--symlink", os.readlink(name), name)
        elif os.path.isdir(name):
            arguments += ("--ro-bind", name, name)
    return tuple(arguments)


def visible_trees(expose: Iterable[str | os.PathLike[str]], work_dir: str) -> list[Tree]:
    """What this Python needs of its prefixes, and the host paths that the caller exposes, links resolved now.

    Each is seen under its real name and, where nothing else is there, under the given one;
    what the base system or the workspace holds already is left out.

    Raises:
        InvalidArgumentError: a path is the whole host, or would cover what is made for commands.
        PathNotFoundError: nothing has that name.
        PathEscapeError: it lies in the workspace, or a link leads through it: commands could redirect it.
    """
    exposed = {name: _resolve(name, work_dir) for name in map(_checked, expose)}
    given = _prefixes(work_dir) | exposed
    places = (*_SYSTEM, work_dir)
    real = {source: source for source in given.values() if not any(within(source, place) for place in places)}
    taken = (*places, "/etc", *real)
    aliases = {name: source for name, source in given.items() if not any(within(name, place) for place in taken)}
    judged = {source for source in exposed.values() if not any(within(source, place) for place in _SYSTEM)}
    return [Tree(name, source, source in judged) for name, source in sorted((real | aliases).items())]


def _prefixes(work_dir: str) -> dict[str, str]:
    prefixes = {os.path.normpath(name) for name in _prefix_names()}
    names = [name for prefix in prefixes for name in _needed_of(prefix)]
    found = {name: os.path.realpath(name) for name in names if os.path.exists(name)}
    return {
        name: source
        for name, source in found.items()
        if not within(source, work_dir) and not any(within(place, source) for place in _MADE)
    }


def _needed_of(prefix: str) -> list[str]:
    """What to show of *prefix*: each part, or the whole at once where it holds nothing else."""
    try:
        whole = {".gitignore", *_PARTS}.issuperset(os.listdir(prefix))
    except OSError:
        return []
    return [prefix] if whole else [os.path.join(prefix, part) for part in _PARTS]


def _prefix_names() -> tuple[str, ...]:
    return sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix


def own_code(work_dir: str) -> list[str]:
    """What beneath *work_dir* this process runs code from: commands must not change it.

    Of a prefix that is the workspace itself it is what an interpreter needs.

    Returns:
        Real names, none beneath another.
    """
    names = {os.path.realpath(name) for name in (*_prefix_names(), _PACKAGE, helper_interpreter())}
    if work_dir in names:
        names |= {os.path.realpath(os.path.join(work_dir, part)) for part in _PARTS}
    inside = {name for name in names if name != work_dir and within(name, work_dir) and os.path.exists(name)}
    return sorted(name for name in inside if not any(str(parent) in inside for parent in Path(name).parents))


def is_own_package(work_dir: str) -> bool:
    """Whether *work_dir* is within this package, no part of which could be kept from commands there."""
    return within(work_dir, os.path.realpath(_PACKAGE))


def _checked(path: str | os.PathLike[str]) -> str:
    name = os.path.abspath(os.fspath(path))
    if name in ("/", *_MADE) or any(within(name, place) for place in ("/proc", "/dev")):
        raise InvalidArgumentError(f"expose: {printable(name)} cannot be shown to commands")
    return name


def _resolve(path: str, work_dir: str) -> str:
    """The real name of *path*, none of whose links lies in *work_dir*."""
    links = 0
    done = "/"
    rest = path.split("/")[::-1]
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        name = os.path.dirname(done) if part == ".." else os.path.join(done, part)
        if within(name, work_dir):
            raise PathEscapeError(path, "leads through the workspace, where commands could redirect what is exposed")
        try:
            target = os.readlink(name)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise PathNotFoundError(path, "no such file or directory to expose") from error
            done = name
            continue
        links += 1
        if links > _MAX_LINKS:
            raise PathNotFoundError(path, "too many links")
        rest += target.split("/")[::-1]
        done = "/" if target.startswith("/") else done
    return done


@cache
def essential_files() -> tuple[str, ...]:
    """Real names of the shell, the program loader and the C library."""
    names = {os.path.realpath("/bin/sh")}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            name = line.rstrip("\n").partition("/")[2]
            if re.match(r"(ld|libc)\b", os.path.basename(name)):
                names.add(os.path.realpath("/" + name))
    return tuple(sorted(names))


def without_hidden(
    trees: Sequence[Tree], outside: Iterable[str], work_dir: str, etc: str
) -> tuple[list[Tree], list[tuple[str, bool]]]:
    """Take away what a rule hides outside the workspace.

    Args:
        outside: absolute names to hide.
        etc: the made /etc, on the host.

    Returns:
        The trees that are left, and the names to mask, none within another, each with whether it is a directory.

    Raises:
        UnsupportedError: a name holds the shell, the loader or the C library.
    """
    real = {given: {given, os.path.realpath(given)} for given in outside}
    for given, names in sorted(real.items()):
        held = [file for file in essential_files() if any(within(file, name) for name in names)]
        if held:
            raise UnsupportedError(f"a rule that hides {printable(given)} hides {held[0]}: without it no command runs")
    names = {name for names in real.values() for name in names if not within(name, work_dir)}
    left = [t for t in trees if not any(within(t.name, name) or within(t.source, name) for name in names)]
    masked = {place: os.path.isdir(source) for name in names for place, source in _places(name, left, etc)}
    outermost = [place for place in masked if not any(parent in masked for parent in map(str, Path(place).parents))]
    return left, [(place, masked[place]) for place in sorted(outermost)]


def _places(name: str, trees: Sequence[Tree], etc: str) -> Iterator[tuple[str, str]]:
    """Where commands see the host's *name*, each place with what it is on the host, for all that exists."""
    shown = [(tree.name, tree.source) for tree in trees]
    shown += [(place, place) for place in (*_SYSTEM, "/proc") if not os.path.islink(place)]
    pairs = [(place + name[len(source) :], name) for place, source in shown if within(name, source)]
    if within(name, "/etc"):
        pairs.append((name, etc + name[len("/etc") :]))
    for place, source in pairs:
        if os.path.lexists(source) and not os.path.islink(source):
            yield place, source


def make_room(etc: str, trees: Iterable[Tree], work_dir: str) -> None:
    """Make a place in the made *etc* for the workspace, and for what is exposed there."""
    for name, source in [(work_dir, work_dir), *((tree.name, tree.source) for tree in trees)]:
        if within(name, "/etc") and name != "/etc":
            place = etc + name[len("/etc") :]
            os.makedirs(place if os.path.isdir(source) else os.path.dirname(place), exist_ok=True)
            if not os.path.lexists(place):
                os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
