"""What a command made, changed and removed in the workspace, by a look before it and one after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from sandbox_kit.contract import Backend
from sandbox_kit.html.fragments import ROWS, Markup, note, output, table
from sandbox_kit.types import FileInfo

__all__ = ["Changes", "Files", "compare", "look"]

Files = Mapping[str, FileInfo]
"""The files and links of a workspace, by path."""


@frozen
class Changes:
    """How the files of a workspace differ from those that it had before.

    A file counts as changed when its size, its mode or the time of its last change is another one.

    Attributes:
        made: new files and links, sorted by path.
        changed: those that were there and are not as they were.
        removed: those that are gone, as they were.
    """

    made: tuple[FileInfo, ...] = ()
    changed: tuple[FileInfo, ...] = ()
    removed: tuple[FileInfo, ...] = ()

    def _repr_html_(self) -> str:
        return output(self.table() or note("no file was made, changed or removed"))

    def table(self) -> Markup | None:
        """Return a table of them all, or None where there are none."""
        kinds = (("made", self.made), ("changed", self.changed), ("removed", self.removed))
        rows = [(kind, info.path, info.size) for kind, infos in kinds for info in infos[: ROWS + 1]]
        total = sum(len(infos) for _, infos in kinds)
        return table(("what", "path", "bytes"), rows, total) if rows else None


def look(backend: Backend) -> Files:
    """Return the files that are in the work directory now, but those that rules hide.

    Raises:
        PermissionDeniedError: a rule refuses to look.
        SandboxError: as for :meth:`Backend.glob`.
    """
    return {info.path: info for info in backend.glob("**/*") if not info.is_dir}


def compare(before: Files, after: Files) -> Changes:
    """Return what became of *before*; both are what :func:`look` returned."""
    return Changes(
        made=_sorted([info for path, info in after.items() if path not in before]),
        changed=_sorted([info for path, info in after.items() if before.get(path, info) != info]),
        removed=_sorted([info for path, info in before.items() if path not in after]),
    )


def _sorted(infos: Sequence[FileInfo]) -> tuple[FileInfo, ...]:
    return tuple(sorted(infos, key=lambda info: info.path))
