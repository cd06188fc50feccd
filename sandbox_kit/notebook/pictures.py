"""The pictures among files, read through the sandbox's own calls, so that its rules hold for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePosixPath

from sandbox_kit.contract import Backend
from sandbox_kit.errors import SandboxError
from sandbox_kit.html.fragments import Markup, MediaType, note, picture
from sandbox_kit.media import type_by_content
from sandbox_kit.types import FileInfo

__all__ = ["AT_MOST", "LARGEST", "pictures"]

AT_MOST = 8
"""How many pictures are shown at once."""

LARGEST = 4 * 2**20
"""Of a picture that is shown, in bytes."""

_TYPES: dict[str, MediaType] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}
_SVG = "image/svg+xml"


def pictures(backend: Backend, files: Iterable[FileInfo]) -> Iterator[Markup]:
    """Yield each picture among *files*, or a line that tells why it is not shown.

    Args:
        backend: whose files they are.
        files: links are not followed.
    """
    found = [(info, kind) for info in files if not info.is_symlink and (kind := _type_by_name(info.path))]
    yield from (_shown(backend, info, kind) for info, kind in islice(found, AT_MOST))
    if len(found) > AT_MOST:
        yield note(f"{len(found) - AT_MOST:,} more pictures are not shown")


def _type_by_name(path: str) -> MediaType | None:
    """Return which kind of picture a file is by its name, None for no picture."""
    return _TYPES.get(PurePosixPath(path).suffix.lower())


def _shown(backend: Backend, info: FileInfo, kind: MediaType) -> Markup:
    try:
        with backend.open_read(info.path) as stream:
            data = stream.read(LARGEST + 1)
    except SandboxError as error:
        return note(f"{info.path} is not shown: {error}")
    if len(data) > LARGEST:
        return note(f"{info.path} is not shown: it is larger than {LARGEST:,} bytes")
    if kind not in (_SVG, type_by_content(data)):
        return note(f"{info.path} is not shown: it is no {kind}")
    return picture(kind, data, info.path)
