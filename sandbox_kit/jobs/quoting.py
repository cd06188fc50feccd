"""Fields of a shell's line: their values come in variables, so that no reading of the line makes code of them."""

from __future__ import annotations

import re

__all__ = ["assigned", "obstacle"]

_UNDERSTOOD = re.compile(
    r"""
    \\.                                                       # an escaped character, or a line's continuation
    | (?<!\$)'[^']*'
    | "(?: \\. | (?:\$\(|`)[^()'"`\\]*[)`] | \$\{[^{}'"`\\]*\} | [^"\\`$] | \$(?![({]) )*"
    | \$\(\([^()'"`\\]*\)\)                                   # arithmetic
    | (?<![^ \t\n;|&(]) (?<!\\[ \t\n;|&(]) \#[^\n]*(?=\n)     # a comment that has ended
    """,
    re.DOTALL | re.VERBOSE,
)
"""What has ended before a field, and says nothing of it."""

_OBSTACLES = (
    (re.compile("['\"]"), "within quotes"),
    (re.compile(r"[\\$]\Z|\$\{\Z"), "after a backslash or $"),
    (re.compile(r"(?<![^\s;|&()<>`])#"), "after what may be a comment"),
    (re.compile("<<"), "after a here-document"),
    (re.compile(r"\(\(|\$\[[^]]*\Z"), "in arithmetic"),
    (re.compile(r"[<>]&(?![ \t]*[\d-]+[\s;|&()])"), "after >& or <&, whose word bash expands twice"),
)
"""What makes a field stand where its value does not become one word, or not as it is."""


def obstacle(before: str) -> str | None:
    """Say why a field cannot stand where *before* ends, as far as a look at it tells; None if it can.

    It only spares surprises: a value is no code wherever it stands, but for what evaluates its words by its own nature.
    """
    rest = _UNDERSTOOD.sub(lambda found: "" if found[0] == "\\\n" else "x", before)
    return next((where for pattern, where in _OBSTACLES if pattern.search(rest)), None)


def assigned(variable: str, value: str) -> str:
    """An assignment for the beginning of a line, which makes *value* what *variable* holds, whatever is in it."""
    return f"{variable}='" + value.replace("'", "'\\''") + "'"
