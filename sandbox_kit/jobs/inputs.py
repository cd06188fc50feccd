"""The files that a job finds in its sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError

__all__ = ["Content", "Files", "check_files", "put"]

Content = bytes | str | os.PathLike[str]
Files = Mapping[str, Content] | Callable[[Any], Mapping[str, Content]]


def check_files(files: Files) -> Files:
    """Return *files*, a mapping as a copy.

    Raises:
        InvalidArgumentError: it is neither a function nor a mapping of paths to contents.
    """
    if callable(files):
        return files
    if not isinstance(files, Mapping):
        raise InvalidArgumentError(f"files: is a mapping or a function of the item, not {type(files).__name__}")
    for path, content in files.items():
        if not isinstance(path, str) or not isinstance(content, bytes | str | os.PathLike):
            raise InvalidArgumentError(f"files: {path!r}: is a path, its content bytes, a text or a path of the host")
    return dict(files)


def put(backend: Backend, files: Files, item: Any) -> None:
    """Write what belongs to *item*: bytes and texts as they are, copies of a host's files and trees."""
    wanted = check_files(files(item)) if callable(files) else files
    assert isinstance(wanted, Mapping)
    for path, content in wanted.items():
        if isinstance(content, os.PathLike):
            backend.upload(content, path)
        else:
            backend.write(path, content)
