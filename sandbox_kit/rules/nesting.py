"""How deep a document is, told from its text before a parser spends memory or stack on it."""

from __future__ import annotations

import re

__all__ = ["DEEPEST", "check_json_depth", "check_toml_depth"]

DEEPEST = 16
"""The most brackets that may be open at once, and the most parts of a dotted key."""

_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"?+|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)
_TOML = re.compile(
    r"""
    (?P<part>
        \"{3} (?: [^"\\] | \\. | "(?!"") )*+ (?: "{3,5} )?+
      | '{3} (?: [^'] | '(?!'') )*+ (?: '{3,5} )?+
      | " (?: [^"\\\n] | \\[^\n] )*+ "?+
      | ' [^'\n]*+ '?+
      | [A-Za-z0-9_-]++
    )
    | (?P<dot> \. ) | (?P<blank> [ \t]++ ) | (?P<open> [\[{] ) | (?P<close> [\]}] ) | \#[^\n]*+ | .
    """,
    re.DOTALL | re.VERBOSE,
)


def check_json_depth(text: str) -> None:
    """Look at a JSON document, in linear time.

    Raises:
        ValueError: it nests deeper than :data:`DEEPEST` brackets.
    """
    depth = 0
    for token in _JSON.finditer(text):
        depth = _deeper(depth, token.lastgroup)


def check_toml_depth(text: str) -> None:
    """Look at a TOML document, in linear time.

    Raises:
        ValueError: it nests deeper than :data:`DEEPEST` brackets, or a key has more parts.
    """
    depth = dots = 0
    for token in _TOML.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots >= DEEPEST:
                raise ValueError(f"a key has more than {DEEPEST} parts")
        elif kind not in ("part", "blank"):
            dots = 0
            depth = _deeper(depth, kind)


def _deeper(depth: int, kind: str | None) -> int:
    """Return the depth after a token.

    Raises:
        ValueError: it is more than :data:`DEEPEST`.
    """
    depth += (kind == "open") - (kind == "close")
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    return depth
