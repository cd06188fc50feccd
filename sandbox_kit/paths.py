"""Path rules of a sandbox's file system: POSIX names, handled as text, without I/O."""

from __future__ import annotations

from pathlib import PurePosixPath

from sandbox_kit.errors import InvalidArgumentError

__all__ = [
    "SandboxPath",
    "check_path",
    "climbs",
    "display",
    "join",
    "left_behind",
    "named",
    "normalise",
    "parts",
    "relative",
    "within",
]

SandboxPath = str | PurePosixPath

_LONGEST = 2**16


def check_path(path: SandboxPath) -> str:
    """Return *path* as text, with bytes that are valid UTF-8 decoded.

    Raises:
        InvalidArgumentError: it is no text or PurePosixPath, is longer than 65,536 characters, or
            holds a NUL or a lone surrogate that surrogateescape does not make.
    """
    if isinstance(path, PurePosixPath):
        path = str(path)
    if not isinstance(path, str):
        raise InvalidArgumentError(f"a path is a str or a PurePosixPath, not {type(path).__name__}")
    if "\0" in path:
        raise InvalidArgumentError(f"a path cannot hold a NUL: {path!r}")
    if len(path) > _LONGEST:
        raise InvalidArgumentError(f"a path of {len(path)} characters is too long: at most {_LONGEST} are taken")
    return path if path.isascii() else _decoded(path)


def _decoded(path: str) -> str:
    """Return the one spelling of *path*: an escaped byte only where it is no UTF-8."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"a path cannot hold the character at {error.start}: {path!r}") from error


def parts(path: str) -> list[str]:
    """Return the components of *path*, without empty ones and ``.``; each ``..`` is kept."""
    return [part for part in path.split("/") if part not in ("", ".")]


def climbs(components: list[str]) -> bool:
    """Return whether *components*, taken lexically, lead above where they start at any point."""
    depth = 0
    for part in components:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def normalise(path: str, base: str = "/") -> str:
    """Return *path* absolute, with ``.``, ``..``, ``//`` and a trailing ``/`` taken away as text.

    Args:
        path: relative ones start at *base*.
        base: an absolute normalised path.

    A ``..`` at the root stays at the root.
    """
    whole = path if path.startswith("/") else f"{base}/{path}"
    if "/." not in whole and "//" not in whole and (whole[-1] != "/" or whole == "/"):
        return whole
    kept: list[str] = []
    for part in parts(whole):
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
    return "/" + "/".join(kept)


def named(path: str, root: str, given: str) -> str:
    """Return *path* as :func:`normalise` does with *root* as its base, and *root* where it has *given* for that.

    Args:
        path: relative ones start at *root*.
        root: an absolute normalised path.
        given: another name of *root*, or the same; absolute and normalised.
    """
    whole = normalise(path, root)
    return normalise(relative(whole, given), root) if path.startswith("/") and within(whole, given) else whole


def left_behind(path: str, base: str = "/") -> list[str]:
    """Return what each ``..`` in *path* leaves, as text: absolute, in order; *base* is where a relative path starts."""
    kept: list[str] = []
    left: list[str] = []
    for part in parts(path if path.startswith("/") else f"{base}/{path}"):
        if part != "..":
            kept.append(part)
        elif kept:
            left.append("/" + "/".join(kept))
            kept.pop()
    return left


def join(parent: str, name: str) -> str:
    """Return *name* beneath *parent*."""
    return f"{parent}{name}" if parent.endswith("/") else f"{parent}/{name}"


def within(path: str, root: str) -> bool:
    """Return whether *path* is *root* or beneath it; both absolute and normalised."""
    return root == "/" or path == root or path.startswith(root + "/")


def relative(path: str, root: str) -> str:
    """Return the rest of *path* beneath *root*, ``""`` for *root* itself; both absolute and normalised."""
    return path[len(root) :].lstrip("/")


def display(path: str, work_dir: str) -> str:
    """Return *path* as results show it: relative to *work_dir* when inside it, else absolute."""
    return (relative(path, work_dir) or ".") if within(path, work_dir) else path
