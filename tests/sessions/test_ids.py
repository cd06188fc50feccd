"""Session ids: one rule, and no path, device or surprise by another name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.sessions.ids import check_session_id, is_session_id

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}

PATHS = ["../x", "/abs", "a/../b", "..%2Fx", "", ".", "..", "a\\b", "a:b", ".a"]
NAMES = ["CON", "con.txt", "Nul", "COM1", "lpt9.tar.gz", "a.", "-a", "_a", "x" * 65, "x" * 300]
CHARACTERS = ["a\0b", "a\nb", "a\n", "a b", "\u0661", "\xe9", "a\udce9"]
NO_IDS = [*PATHS, *NAMES, *CHARACTERS]


def naive(text: str) -> bool:
    return (
        1 <= len(text) <= 64
        and all(character in LETTERS + "._-" for character in text)
        and text[0] in LETTERS
        and not text.endswith(".")
        and text.lower().partition(".")[0] not in DEVICES
    )


@pytest.mark.parametrize("text", ["a", "7", "A-b_c.d", "x" * 64, "a..b", "console", "com10", "null", "a-con", "u.con"])
def test_an_id_is_itself(text: str) -> None:
    assert check_session_id(text) == text


@pytest.mark.parametrize("text", NO_IDS, ids=ascii)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="session_id"):
        check_session_id(text)
    assert not is_session_id(text)


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"], ("a",)], ids=repr)
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        check_session_id(value)


def test_the_refusal_is_a_value_error_of_bounded_length() -> None:
    with pytest.raises(ValueError, match=re.escape("...")) as caught:
        check_session_id("x" * 10**6)
    assert len(str(caught.value)) < 300


@given(st.one_of(st.text(LETTERS + "._-", max_size=70), st.text(max_size=5), st.sampled_from(sorted(DEVICES))))
def test_it_is_the_rule_as_it_is_written(text: str) -> None:
    assert is_session_id(text) is naive(text)
