"""What a text names on other machines, and how it starts as a script: neither is a local path."""

from __future__ import annotations

import re

__all__ = ["PERCENT", "local_text", "saved_name", "unquoted"]

PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])(?!(?:[A-Za-z0-9.-]*\+)?file:)"
    r"(?:(?:https?|ftps?|ssh|wss?)://|[A-Za-z][A-Za-z0-9+.-]*://(?!/))"
    r"[^\s/'\"`\\<>|;,()]*((?:/[^\s'\"`\\<>|;,()]*)?)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<![\w.+-])[\w.+-]+@\w[\w.-]*:([^\s'\"`\\<>|;,()]*)")
_SHEBANG = re.compile(r"#![ \t]*(?:/(?!\.\.?/)[\w.+-]+)+")
_CLIMB = re.compile(r"(?:^|/)\.\.(?:/|$)")


def local_text(text: str) -> str:
    """*text* with each URL and each ``user@host:path`` as what it would be saved as, shebangs without their program.

    A URL with the scheme ``file``, or one of no well-known scheme without a host, is a local path and stays; so
    does one that climbs by ``..``, which may be one.
    """
    if "://" in text:
        text = _URL.sub(_saved, text)
    if "@" in text:
        text = _LOGIN.sub(_saved, text)
    return _SHEBANG.sub("#!", text) if "#!" in text else text


def _saved(remote: re.Match[str]) -> str:
    return remote[0] if _CLIMB.search(remote[1]) else saved_name(remote[1])


def saved_name(path: str) -> str:
    """The name that the file at *path* on another machine is saved as: its last component, without a query."""
    path = path.partition("?")[0].partition("#")[0].rstrip("/")
    return unquoted(path.rpartition("/")[2].rpartition(":")[2])


def unquoted(url: str) -> str:
    """*url* with its percent escapes decoded."""
    return PERCENT.sub(lambda match: chr(int(match[1], 16)), url)
