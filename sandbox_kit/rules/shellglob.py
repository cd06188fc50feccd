"""One component of a shell glob, matched against file names.

Source: POSIX.1-2017 XCU 2.13.
"""

from __future__ import annotations

import re

from sandbox_kit.rules.command_pattern import ANY, whole_text

__all__ = ["compile_shell_glob"]

_TOKEN = re.compile(
    r"(?P<star>\*+)|(?P<any>\?)|\\(?P<escaped>.)"
    r"|\[(?P<negated>[!^]?)(?P<members>\]?(?:\[[:=.][^]]*\]|\\.|[^]\\])*+)\]|(?P<literal>.)",
    re.DOTALL,
)
_MEMBER = re.compile(r"\\?(.)(?:-\\?([^]]))?", re.DOTALL)
_NAMED = re.compile(r"\[[:=.]")


def compile_shell_glob(pattern: str) -> re.Pattern[str]:
    """Return a regex for the whole names that a shell would put in the place of *pattern*.

    Matching is linear. No pattern is refused: a bracket that does not close is literal, and a class that
    depends on the locale (``[[:alpha:]]``), or has a reversed range, stands for any character. A leading dot
    is matched like any other character; leaving hidden names out is the caller's.

    Args:
        pattern: one path component, literal specials escaped by a backslash.
    """
    return re.compile(f"(?s:{whole_text([_regex(match) for match in _TOKEN.finditer(pattern)])})")


def _regex(token: re.Match[str]) -> str:
    if token["star"]:
        return ANY
    if token["any"]:
        return "."
    if token["members"] is not None:
        return _bracket(token["negated"], token["members"])
    return re.escape(token["escaped"] or token["literal"])


def _bracket(negated: str, members: str) -> str:
    ranges = [(low, high or low) for low, high in _MEMBER.findall(members)]
    if _NAMED.search(members) or any(high < low for low, high in ranges):
        return "."
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges)
    return f"[{'^' if negated else ''}{inside}]" if inside else re.escape(f"[{negated}]")
