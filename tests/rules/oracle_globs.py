"""A slow and obviously right matcher for path patterns that are known to be valid, and strategies for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st


def expand(pattern: str) -> list[str]:
    """Every text that the braces of *pattern* stand for."""
    depth, start, cuts = 0, 0, list[int]()
    for at, char in significant(pattern):
        if char == "{":
            start, depth = (at, 1) if not depth else (start, depth + 1)
            cuts = [at] if depth == 1 else cuts
        elif depth and char == "," and depth == 1:
            cuts.append(at)
        elif depth and char == "}":
            depth -= 1
            if not depth:
                cuts.append(at)
                options = [pattern[a + 1 : b] for a, b in pairwise(cuts)]
                return [text for option in options for text in expand(pattern[:start] + option + pattern[at + 1 :])]
    return [pattern]


def significant(pattern: str) -> Iterator[tuple[int, str]]:
    """The characters outside classes and escapes, with their places."""
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
        elif pattern[at] == "[":
            at = class_end(pattern, at)
        else:
            yield at, pattern[at]
            at += 1


def class_end(pattern: str, at: int) -> int:
    """Where the class that opens at *at* is over."""
    at += 2 if pattern[at + 1] in "!^" else 1
    first = True
    while first or pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
        first = False
    return at + 1


def name_matches(pattern: str, name: str) -> bool:
    """Whether one segment matches one name, by trying everything."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_matches(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "?":
        return name_matches(pattern[1:], name[1:])
    if pattern[0] == "[":
        end = class_end(pattern, 0)
        return class_accepts(pattern[1 : end - 1], name[0]) and name_matches(pattern[end:], name[1:])
    literal = pattern[1] if pattern[0] == "\\" else pattern[0]
    return name[0] == literal and name_matches(pattern[2 if pattern[0] == "\\" else 1 :], name[1:])


def class_accepts(body: str, char: str) -> bool:
    """Whether the text between the brackets of a class names *char*."""
    negated = body[0] in "!^"
    body = body[1:] if negated else body
    found = False
    while body:
        first, body = (body[1], body[2:]) if body[0] == "\\" else (body[0], body[1:])
        last = first
        if len(body) > 1 and body[0] == "-":
            last, body = (body[2], body[3:]) if body[1] == "\\" else (body[1], body[2:])
        found = found or first <= char <= last
    return found != negated


def segments(pattern: str, work_dir: str) -> list[str]:
    """The segments from the root of a pattern without braces."""
    pieces = pattern.split("/")
    if pattern.startswith("/"):
        start: list[str] = []
    elif pieces[0] == "**" or not any(pieces[1:]):
        start = ["**"]
    else:
        start = [name for name in work_dir.split("/") if name]
    end = ["**"] if pattern.endswith("/") else []
    return start + [piece for piece in pieces if piece not in ("", ".", "\\.")] + end


def row_matches(row: Sequence[str], names: Sequence[str]) -> bool:
    """Whether segments match names, one for one, by trying everything."""
    if not row:
        return not names
    if row[0] == "**":
        return any(row_matches(row[1:], names[skip:]) for skip in range(len(names) + 1))
    return bool(names) and name_matches(row[0], names[0]) and row_matches(row[1:], names[1:])


def matches(pattern: str, path: str, work_dir: str = "/") -> bool:
    """Whether *pattern* matches the normal absolute *path* itself."""
    names = [name for name in path.split("/") if name]
    return any(row_matches(segments(text, work_dir), names) for text in expand(pattern))


def covers(pattern: str, path: str, work_dir: str = "/") -> bool:
    """Whether *pattern* matches *path* or a directory above it."""
    names = [name for name in path.split("/") if name]
    return any(matches(pattern, "/" + "/".join(names[:count]), work_dir) for count in range(len(names) + 1))


_PIECES = st.sampled_from(
    ["a", "b", "ab", ".", "-", "é", "*", "?", "[ab]", "[!a]", "[^b-d]", "[]a]", "\\*", "\\[", "[a\\]-]"]
)
_SEGMENT = st.lists(_PIECES, min_size=1, max_size=4).map("".join)
_BRACES = st.lists(_SEGMENT, min_size=2, max_size=3).map(lambda options: "{" + ",".join(options) + "}")
_NESTED = st.lists(st.one_of(_SEGMENT, _BRACES), min_size=2, max_size=2).map(
    lambda options: "{" + ",".join(options) + "}"
)
_STEP = st.one_of(_SEGMENT, _SEGMENT, _BRACES, _NESTED, st.just("**"), st.just("*"), st.just("."))

PATTERNS = st.builds(
    lambda start, steps, end: start + "/".join(steps) + end,
    st.sampled_from(["", "", "/", "./", "**/", "//"]),
    st.lists(_STEP, min_size=1, max_size=4),
    st.sampled_from(["", "", "", "/", "/**", "/{a,b/a}"]),
)
NAMES = st.text(alphabet="ab.-é*[]\n", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, max_size=5).map(lambda names: "/" + "/".join(names))
WORK_DIRS = st.sampled_from(["/", "/a", "/b/ab"])
