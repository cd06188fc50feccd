"""Sizes as texts: exact, and nothing but ASCII."""

from __future__ import annotations

import sys
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit import InvalidArgumentError, parse_size

UNITS = {"": 1, "b": 1, "k": 2**10, "KiB": 2**10, "m": 2**20, "MB": 2**20, "g": 2**30, "T": 2**40}
units = st.sampled_from(sorted(UNITS))
digits = st.text("0123456789", min_size=1, max_size=18)


@given(digits, st.none() | st.text("0123456789", min_size=1, max_size=64), units, st.sampled_from(["", " ", "\t"]))
def test_a_text_is_the_number_times_its_unit_rounded_down(
    whole: str, fraction: str | None, unit: str, blank: str
) -> None:
    number = whole if fraction is None else f"{whole}.{fraction}"
    size = floor(Fraction(number) * UNITS[unit])
    text = f"{blank}{number}{blank}{unit}{blank}"
    if 0 < size <= sys.maxsize:
        assert parse_size(text) == size
        return
    with pytest.raises(InvalidArgumentError):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 2**29), ("1.5g", 3 * 2**29), ("9007199254740993", 2**53 + 1), ("8191t", 8191 * 2**40), ("0.1k", 102)],
)
def test_examples(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "m", "-1", "1e3", "0", "0.5", ".5g", "1.g", "0.0g", "8388608t", "9" * 19, "1." + "0" * 65 + "g"),
        *("1\N{KELVIN SIGN}", "1k\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}b", "1\N{LATIN SMALL LETTER DOTLESS I}b"),
        *("\N{ARABIC-INDIC DIGIT ONE}", "1\N{NO-BREAK SPACE}m", "1m\N{NO-BREAK SPACE}"),
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"limit: .* is not a positive size"):
        parse_size(text, "limit")


@pytest.mark.parametrize("value", [0, -1, sys.maxsize + 1, True, 1.5, None])
def test_what_is_no_count_of_bytes_is_refused(value: int) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_size(value)


def test_as_many_bytes_as_the_machine_counts_are_taken() -> None:
    assert parse_size(sys.maxsize) == sys.maxsize
