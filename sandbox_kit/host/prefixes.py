"""Real names of the absolute paths that rules mention.

Rules are normalised to NFC, and names on disk need not be: a component that is missing as it is
spelled is looked for among the names of its directory.
"""

from __future__ import annotations

import os
from unicodedata import is_normalized, normalize

from sandbox_kit.paths import join, normalise, parts, relative, within

__all__ = ["Prefixes"]

_MAX_LINKS = 40
_ASCII_IN_NFC = frozenset("K;`")
"""The ASCII characters that something else becomes in NFC, as the Kelvin sign becomes a K."""


class Prefixes:
    """Resolves prefixes, and remembers the ones that no change beneath the root can lead elsewhere.

    Args:
        root: a directory's real name.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._plain = normalize("NFC", root)
        self._known: dict[str, str] = {}

    def real(self, prefix: str) -> str:
        """Return the real name of an absolute normalised path, as far as it exists; the rest as it is spelled."""
        known = self._known.get(prefix)
        if known is not None:
            return known
        at_root = within(prefix, self._plain)
        walk = _Walk(self._root, join(self._root, relative(prefix, self._plain)) if at_root else prefix)
        real = walk.end()
        if not walk.touched_root:
            self._known[prefix] = real
        return real


class _Walk:
    """One walk from the top of the host's file system.

    Attributes:
        touched_root: whether a name of the root, or beneath it, was on the way.
    """

    def __init__(self, root: str, path: str) -> None:
        self.touched_root = False
        self._root = root
        self._at = "/"
        self._pending = parts(path)[::-1]
        self._links = 0

    def end(self) -> str:
        while self._pending:
            part = self._pending.pop()
            if part == "..":
                self._at = os.path.dirname(self._at)
            elif not self._entered(part):
                return normalise(join(self._at, "/".join([part, *reversed(self._pending)])))
        return self._at

    def _entered(self, part: str) -> bool:
        """Step to an entry, or to what it leads to; False where nothing is to be found from here on."""
        name = join(self._at, part)
        target = _link(name)
        if target is None and (spelled := _spelled(self._at, part)) is not None:
            name = join(self._at, spelled)
            target = _link(name)
        self.touched_root = self.touched_root or within(name, self._root)
        if target is None:
            return False
        if not target:
            self._at = name
            return True
        self._links += 1
        if self._links > _MAX_LINKS:
            return False
        if target.startswith("/"):
            self._at = "/"
        self._pending += parts(target)[::-1]
        return True


def _link(name: str) -> str | None:
    """Return what a symbolic link holds, ``""`` for another entry, None where none can be seen."""
    try:
        return os.readlink(name)
    except OSError:
        return "" if os.path.lexists(name) else None


def _spelled(directory: str, part: str) -> str | None:
    """Return the entry that *part* is the NFC of; None where there is none."""
    if part.isascii() and _ASCII_IN_NFC.isdisjoint(part):
        return None
    try:
        with os.scandir(directory) as entries:
            return next((e.name for e in entries if not is_normalized("NFC", e.name) and _nfc(e.name) == part), None)
    except OSError:
        return None


def _nfc(name: str) -> str:
    return normalize("NFC", name)
