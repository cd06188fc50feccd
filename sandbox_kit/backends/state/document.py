"""The document that a tree in memory is written down as: JSON values only, bytes exact.

::

    {"format": "sandbox_kit.state/1", "work_dir": "/", "case_sensitive": true, "max_read_bytes": 52428800,
     "entries": [{"path": "/", "mode": 493, "mtime": 1700000000.0},
                 {"path": "/hello.txt", "mode": 420, "mtime": 1700000000.0, "content": "hello\\n"},
                 {"path": "/logo.png", "mode": 420, "mtime": 1700000000.0, "content": {"base64": "iVBORw0KGgo="}}]}

An entry without ``content`` is a directory. A path or content that is no UTF-8 text is base64.
Of an entry only ``path`` must be there, of the whole ``format`` and ``entries``.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sandbox_kit.backends.state.tree import DIRECTORY_MODE, File, Node, Tree, beneath
from sandbox_kit.errors import InvalidArgumentError, PathError
from sandbox_kit.paths import check_path, normalise

__all__ = ["FORMAT", "dump_entries", "dump_text", "load", "load_entries"]

FORMAT = "sandbox_kit.state/1"

Value = str | dict[str, str]

_MAX_TIME = 2**63


def dump_text(text: str) -> Value:
    """Return a name as it stands, or in base64 where it is no UTF-8."""
    return _dump_bytes(text.encode("utf-8", "surrogateescape"))


def _dump_bytes(data: bytes) -> Value:
    if b"\0" not in data:
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(data).decode("ascii")}


def dump_entries(tree: Tree) -> list[dict[str, Any]]:
    """Return every entry of *tree*, parents first."""
    return [_dump_entry(name, node) for name, node in (("/", tree.root), *beneath("/", tree.root))]


def _dump_entry(name: str, node: Node) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": dump_text(name), "mode": node.mode, "mtime": node.mtime}
    if isinstance(node, File):
        entry["content"] = _dump_bytes(node.data)
    return entry


def load(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the constructor's arguments, and the entries, not looked at yet.

    Raises:
        InvalidArgumentError: a key is unknown or missing, or a value has the wrong type.
    """
    read = {
        "format": _format,
        "work_dir": _path,
        "case_sensitive": _flag,
        "max_read_bytes": _count,
        "entries": _list,
    }
    values = _fields(document, "the document", read, required=("format", "entries"))
    entries: list[Any] = values.pop("entries")
    del values["format"]
    return values, entries


def load_entries(entries: list[Any], tree: Tree) -> None:
    """Put *entries* into *tree*.

    Raises:
        InvalidArgumentError: a key is unknown or missing, a value has the wrong type, a path
            stands twice or lies beneath a file.
    """
    read = {"path": _path, "mode": _mode, "mtime": _time, "content": _bytes}
    loaded: set[int] = set()
    stamps: list[tuple[Node, float]] = []
    for index, entry in enumerate(entries):
        where = f"entries[{index}]"
        values = _fields(entry, where, read, required=("path",))
        node = _load_entry(values, tree, f"{where}.path")
        if node.inode in loaded:
            _refuse(f"{where}.path", "stands twice")
        loaded.add(node.inode)
        stamps.append((node, values.get("mtime", node.mtime)))
    for node, mtime in stamps:
        node.mtime = mtime


def _load_entry(values: dict[str, Any], tree: Tree, where: str) -> Node:
    try:
        place = tree.locate(values["path"], values["path"])
    except PathError as error:
        _refuse(where, error.reason)
    if "content" in values:
        if place.node is not None:
            _refuse(where, "stands twice")
        return tree.put(place, values["content"], values.get("mode"))
    if isinstance(place.node, File):
        _refuse(where, "stands twice")
    directory = tree.make_directories(place.parent, place.missing) if place.node is None else place.node
    directory.mode = values.get("mode", DIRECTORY_MODE)
    return directory


def _fields(
    value: Any, where: str, read: Mapping[str, Callable[[Any, str], Any]], *, required: tuple[str, ...]
) -> dict[str, Any]:
    """Return the values of one object, each checked by its reader."""
    if not isinstance(value, Mapping):
        _refuse(where, f"is an object, not {type(value).__name__}")
    if unknown := [key for key in value if key not in read]:
        _refuse(where, f"has an unknown key {unknown[0]!r}")
    if absent := [key for key in required if key not in value]:
        _refuse(where, f"needs a key {absent[0]!r}")
    prefix = "" if where == "the document" else f"{where}."
    return {key: read[key](item, prefix + key) for key, item in value.items()}


def _format(value: Any, where: str) -> str:
    return FORMAT if value == FORMAT else _refuse(where, f"is {FORMAT!r}")


def _path(value: Any, where: str) -> str:
    data = _bytes(value, where)
    try:
        path = check_path(data.decode("utf-8", "surrogateescape"))
    except InvalidArgumentError as error:
        _refuse(where, str(error))
    if not path.startswith("/") or normalise(path) != path:
        _refuse(where, f"{path!r} is not absolute and normalised")
    return path


def _bytes(value: Any, where: str) -> bytes:
    if isinstance(value, Mapping) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, ValueError) as error:
            _refuse(where, f"is no base64: {error}")
    if not isinstance(value, str):
        _refuse(where, 'is a text or {"base64": text}')
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        _refuse(where, f"UTF-8 cannot hold the character at {error.start}")


def _flag(value: Any, where: str) -> bool:
    return value if isinstance(value, bool) else _refuse(where, "is true or false")


def _count(value: Any, where: str) -> int:
    return value if type(value) is int and value > 0 else _refuse(where, "is a positive integer")


def _mode(value: Any, where: str) -> int:
    if type(value) is int and 0 <= value <= 0o7777:
        return value
    _refuse(where, "is permission bits, an integer from 0 to 4095")


def _time(value: Any, where: str) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if type(value) is int and abs(value) <= _MAX_TIME:
        return float(value)
    _refuse(where, "is a finite number of seconds")


def _list(value: Any, where: str) -> list[Any]:
    return value if isinstance(value, list) else _refuse(where, f"is a list, not {type(value).__name__}")


def _refuse(where: str, problem: str) -> NoReturn:
    raise InvalidArgumentError(f"{where}: {problem}")
