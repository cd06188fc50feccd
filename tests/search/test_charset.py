"""Sets of characters are the characters that they say, in UTF-8 too."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.search.charset import TEXT, CharSet, charset, complement, contains, fold, utf8

EDGES = [0, 1, 9, 10, 11, 13, 14, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
codes = st.one_of(st.sampled_from(EDGES), st.integers(0, 0x10FFFF))
ranges = st.lists(st.tuples(codes, codes).map(lambda pair: (min(pair), max(pair))), max_size=4)


def in_text(code: int) -> bool:
    return code not in (0, 10, 13) and not 0xD800 <= code <= 0xDFFF


@given(ranges, codes)
def test_a_set_has_what_its_ranges_have_of_text(pairs: list[tuple[int, int]], code: int) -> None:
    chars = charset(pairs)
    expected = in_text(code) and any(low <= code <= high for low, high in pairs)
    assert contains(chars, code) == expected
    assert contains(complement(chars), code) == (in_text(code) and not expected)


@given(ranges)
def test_a_set_is_sorted_disjoint_and_its_own_double_complement(pairs: list[tuple[int, int]]) -> None:
    chars = charset(pairs)
    assert list(chars) == sorted(chars)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(chars))
    assert complement(complement(chars)) == chars


@given(ranges, codes)
def test_the_byte_sequences_spell_the_set_and_nothing_else(pairs: list[tuple[int, int]], code: int) -> None:
    chars = charset(pairs)
    branches = (b"".join(b"[\\x%02x-\\x%02x]" % pair for pair in sequence) for sequence in utf8(chars))
    spelled = re.compile(b"|".join(branches) or b"(?!)")
    data = chr(code).encode("utf-8", "surrogatepass")
    assert bool(spelled.fullmatch(data)) == contains(chars, code)


def test_all_of_text_is_eleven_sequences() -> None:
    assert [len(sequence) for sequence in utf8(TEXT)] == [1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4]


CASES: list[tuple[str, str]] = [
    ("k", "kK"),
    ("\u212a", "\u212ak"),
    ("é", "éÉ"),
    ("ß", "ß"),
    ("σ", "σΣ"),
    ("ς", "ςΣ"),
    ("1", "1"),
    ("ſ", "ſS"),
]


@pytest.mark.parametrize(("char", "folded"), CASES)
def test_a_character_also_stands_for_its_own_case_forms(char: str, folded: str) -> None:
    assert fold(((ord(char), ord(char)),)) == charset((ord(other), ord(other)) for other in folded)


def test_large_and_small_sets_fold_alike() -> None:
    large: CharSet = ((0x61, 0x500),)
    small = [fold(((code, code),)) for code in range(0x61, 0x501)]
    assert fold(large) == charset(pair for chars in small for pair in chars)
