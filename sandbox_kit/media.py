"""Which files are no text, and what they are: by their content, then by their name."""

from __future__ import annotations

from pathlib import PurePosixPath

__all__ = ["media_type", "type_by_content"]

_LOOKED_AT = 8192
_UNKNOWN = "application/octet-stream"

_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)

_NAMES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".ico": "image/vnd.microsoft.icon",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".pdf": "application/pdf",
    ".zip": "application/zip",
    ".gz": "application/gzip",
    ".tar": "application/x-tar",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".mov": "video/quicktime",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def media_type(path: str, content: bytes) -> str | None:
    """Return what a file is that is no text; None for text, also with bytes that are not UTF-8.

    Args:
        path: its name.
        content: its bytes; a NUL near their start tells that they are no text.
    """
    known = type_by_content(content)
    if known is not None or b"\0" not in content[:_LOOKED_AT]:
        return known
    return _NAMES.get(PurePosixPath(path).suffix.lower(), _UNKNOWN)


def type_by_content(content: bytes) -> str | None:
    """Return which image or PDF a file is, by how it begins; None where that does not tell."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((found for start, found in _STARTS if content.startswith(start)), None)
