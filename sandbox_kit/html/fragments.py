"""Pieces of HTML: text that can only be text, tables, pictures, and the frame around them.

Everything is escaped where it becomes :data:`Markup`, bounded, and says what was cut. There is no
script, no reference to anything outside, and no attribute but ``class`` and those of a picture.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Literal, NewType

from sandbox_kit.html.style import STYLE

__all__ = [
    "ROWS",
    "Markup",
    "MediaType",
    "framed",
    "joined",
    "line",
    "note",
    "output",
    "picture",
    "span",
    "table",
    "text",
    "visible",
]

Markup = NewType("Markup", str)
"""HTML that holds its input only as text."""

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"]

_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""What MathJax, which many notebook pages load, leaves alone: names with a dollar sign are no formulas."""

ROWS = 200
"""How many rows of a table are shown."""

_CELL = 1000
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(value: str) -> str:
    """Return *value* with a symbol for each control character but newlines and tabs, and nothing that turns a line."""
    return _UNSEEN.sub(_seen, value)


def _seen(match: re.Match[str]) -> str:
    """A picture of a control character, and for what has none a replacement character."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def text(value: str, limit: int | None = None) -> Markup:
    """Return *value* as text: no part of it is markup, controls show as symbols, nothing turns the line around.

    Args:
        value: any text, surrogates too.
        limit: how many characters are shown; None for all.
    """
    rest = 0 if limit is None else len(value) - limit
    shown = value[:limit] + f" … {rest:,} more characters" if rest > 0 else value
    return Markup(escape(visible(shown)))


def joined(parts: Iterable[Markup], separator: str = "") -> Markup:
    """Return *parts* one after another, with *separator*, a text, between them."""
    return Markup(text(separator).join(parts))


def span(content: Markup, *classes: str) -> Markup:
    """Return *content* as it is, or with *classes*, names of this style sheet."""
    return Markup(f'<span class="{" ".join(classes)}">{content}</span>') if classes else content


def line(*parts: Markup) -> Markup:
    """Return a line of *parts*, with a dot between them."""
    return Markup(f'<p class="sbk-line">{joined(parts, " · ")}</p>')


def note(message: str) -> Markup:
    """Return a line that tells something besides, such as what was cut."""
    return line(span(text(message, _CELL), "sbk-note"))


def framed(*blocks: Markup) -> Markup:
    """Return *blocks* in a frame that scrolls when they are high."""
    return Markup(f'<div class="sbk-frame">{joined(blocks)}</div>')


def output(*blocks: Markup) -> Markup:
    """Return *blocks* as one whole output, with the style that they need; a page takes no formula out of it."""
    return Markup(f'<div class="sandbox-kit {_NO_FORMULAS}"><style>{STYLE}</style>{joined(blocks)}</div>')


def table(headers: Sequence[str], rows: Iterable[Sequence[str | int]], total: int | None = None) -> Markup:
    """Return a table of at most :data:`ROWS` rows; a number is a cell of its own kind.

    Args:
        headers: one a column.
        rows: the cells of each; those after the last one that is shown are not asked for.
        total: how many there are, where that is known: what is left out is then told.
    """
    body = [joined(map(_cell, row)) for row in islice(rows, ROWS)]
    head = joined(Markup(f"<th>{text(each, _CELL)}</th>") for each in headers)
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    whole = framed(
        Markup(f'<table class="sbk-table"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'),
    )
    left = 0 if total is None else total - len(body)
    return joined([whole, note(f"{left:,} more rows are not shown")]) if left > 0 else whole


def _cell(value: str | int) -> Markup:
    if isinstance(value, int):
        return Markup(f'<td class="sbk-number">{value:,}</td>')
    return Markup(f"<td>{text(value, _CELL)}</td>")


def picture(media_type: MediaType, data: bytes, caption: str) -> Markup:
    """Return a picture with its bytes inside; as an image it runs no script, whatever it is.

    Args:
        media_type: of the bytes.
        data: the whole file.
        caption: told beneath it, and where it cannot be shown.
    """
    told = text(caption, _CELL)
    source = f"data:{media_type};base64,{b64encode(data).decode('ascii')}"
    return Markup(
        f'<div class="sbk-picture"><img src="{source}" alt="{told}"><p class="sbk-line sbk-note">{told}</p></div>'
    )
