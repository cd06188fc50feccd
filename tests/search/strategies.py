"""Patterns of the dialect, and lines that they have a chance to match."""

from __future__ import annotations

from hypothesis import strategies as st

CLEAN = ["a", "b", "B", "x", "_", "1", " ", "-", "]", "^", ".", "\t", "é", "É", "€", "😀", "\u212a", "k"]
UNCLEAN = [b"\r", b"\0", b"\xff", b"\xe2\x82", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xc0\x80", b"\xef\xbb\xbf"]

ATOMS = [
    *[
        "a",
        "b",
        "x",
        "_",
        "1",
        " ",
        "-",
        "é",
        "€",
        "k",
        r"\.",
        r"\]",
        r"\^",
        "]",
        r"\x41",
        r"\u00e9",
        r"\U0001F600",
        r"\t",
    ],
    *[".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"],
    *[
        "[ab]",
        "[^a]",
        "[^\\r\\n]",
        "[a-x]",
        "[^a-x]",
        "[]a]",
        "[^]a]",
        "[a-]",
        r"[\w-]",
        r"[^\s]",
        "[^-]",
        "[é€]",
        "[á-ü]",
    ],
    *["[^^-]", r"[\\^-]", "[[.]", r"[\^\]\[-]", "[+--]", "[ -~]", r"[^\d_]", r"[a\u0100-\U0010FFFFx]"],
]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{2,}", "{0,3}?", "{0}"]
ASSERTIONS = [r"\b", r"\B"]


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds(
        "{}{})".format, st.sampled_from(["(", "(?:", "(?P<n>"]), inner.filter(lambda text: "(?P" not in text)
    )
    repeated = st.builds("{}{}".format, st.one_of(st.sampled_from(ATOMS), group), st.sampled_from(QUANTIFIERS))
    either = st.builds("(?:{}|{})".format, inner, inner)
    return st.one_of(repeated, either, group, st.lists(inner, min_size=2, max_size=4).map("".join))


_bodies = st.recursive(st.sampled_from([*ATOMS, *ASSERTIONS]), _grown, max_leaves=8).filter(
    lambda text: text.count("(?P") < 2
)
_branches = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "^", r"\A", r"\B^"]),
    _bodies,
    st.sampled_from(["", "", "$", r"\Z", r"$\b"]),
)

patterns = st.one_of(
    _branches, st.builds("{}|{}".format, _branches, _branches).filter(lambda text: text.count("(?P") < 2)
)
clean_lines = st.lists(st.sampled_from(CLEAN), max_size=12).map("".join)
lines = st.lists(st.sampled_from([*(text.encode() for text in CLEAN), *UNCLEAN]), max_size=12).map(b"".join)
files = st.builds(
    lambda ended, last: b"".join(line + b"\n" for line in ended) + last,
    st.lists(lines, max_size=12),
    st.one_of(st.just(b""), lines),
)
