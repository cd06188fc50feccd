"""A copy of an image's own ``sh`` that a container's commands can neither look into nor have any part in.

A file that may be executed but not read starts a process that nobody can trace, nor see the memory or
the descriptors of, without capabilities. Of a shell that needs a loader, the loader is that file:
a copy that takes libraries from beside it and knows no file of libraries to load before all others,
since root's commands may write to the image's.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from attrs import frozen

from sandbox_kit.backends.docker.elf import Needs, needs_of

__all__ = ["PLACE", "ShellCopy", "copy_shell"]

PLACE = "/.sandbox-kit"
"""Where it lies: containers see this directory read-only."""

_SHELL, _LOADER, _LIBRARIES = f"{PLACE}/sh", f"{PLACE}/ld", f"{PLACE}/lib"
_PRELOAD, _NO_PRELOAD = b"/etc/ld.so.preload\0", f"{PLACE}/none\0".encode()
_MUSL = "ld-musl-"
_TRIPLETS = ("x86_64-linux-gnu", "aarch64-linux-gnu")
_BESIDE = [f"{top}/{each}" for top in ("/lib", "/usr/lib") for each in _TRIPLETS]
_PLACES = (*_BESIDE, "/lib64", "/usr/lib64", "/lib", "/usr/lib")

_EXECUTE_ONLY, _READABLE = 0o111, 0o555


@frozen
class ShellCopy:
    """What is added to an image.

    Attributes:
        argv: what starts the shell; its own arguments follow.
        files: what each added file holds, and its mode, by absolute name.
        closed: whether no command of root's can change what the shell runs.
    """

    argv: tuple[str, ...]
    files: dict[str, tuple[bytes, int]]
    closed: bool


def copy_shell(read: Callable[[str], bytes | None]) -> ShellCopy | None:
    """The copy of what *read* tells of an image's files; None where it has no shell.

    Args:
        read: returns a file's bytes, links followed, or None.
    """
    shell = read("/bin/sh")
    if shell is None:
        return None
    needs = needs_of(shell)
    if needs is not None and needs.loader is None:
        return ShellCopy((_SHELL,), {_SHELL: (shell, _EXECUTE_ONLY)}, closed=True)
    with_loader = None if needs is None else _with_loader(shell, needs, read)
    return with_loader or ShellCopy((_SHELL,), {_SHELL: (shell, _EXECUTE_ONLY)}, closed=False)


def _with_loader(shell: bytes, needs: Needs, read: Callable[[str], bytes | None]) -> ShellCopy | None:
    """The copy of a shell with loader and libraries; None where one of them is not found."""
    assert needs.loader is not None
    loader = read(needs.loader)
    libraries = _libraries(needs, read)
    if loader is None or libraries is None:
        return None
    musl = posixpath.basename(needs.loader).startswith(_MUSL)
    options = () if musl else ("--inhibit-cache",)
    files = {f"{_LIBRARIES}/{name}": (data, _READABLE) for name, data in libraries.items()}
    files[_SHELL] = (shell, _READABLE)
    files[_LOADER] = (loader.replace(_PRELOAD, _NO_PRELOAD), _EXECUTE_ONLY)
    return ShellCopy((_LOADER, *options, "--library-path", _LIBRARIES, _SHELL), files, closed=True)


def _libraries(needs: Needs, read: Callable[[str], bytes | None]) -> dict[str, bytes] | None:
    """All that is needed, directly or not, but the loader itself, which some libraries name."""
    loader = posixpath.basename(needs.loader or "")
    found: dict[str, bytes] = {}
    wanted = list(needs.libraries)
    while wanted:
        name = wanted.pop()
        if name in found or name == loader or name.startswith("libc.musl-"):
            continue
        data = next(filter(None, (read(f"{place}/{name}") for place in _PLACES)), None)
        further = None if data is None else needs_of(data)
        if data is None or further is None:
            return None
        found[name] = data
        wanted += further.libraries
    return found
