"""Fragments of HTML: whatever goes in is text, and no more of it is shown than a page can bear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.html.excerpt import Excerpt
from sandbox_kit.html.fragments import ROWS, line, note, output, picture, table, text
from sandbox_kit.html.terminal import plain, terminal, terminal_text

from .pages import Page

HOSTILE = st.text(st.one_of(st.sampled_from("<>&\"'/=!-? \n\r\t\x1b[];m01aimgscript\0\u202e\ud800"), st.characters()))
STREAMS = st.sampled_from(["stdout", "stderr", "cut", "<b>", '"'])


@given(HOSTILE)
def test_no_text_becomes_a_tag_or_an_attribute(value: str) -> None:
    plain_page = Page(output())
    page = Page(output(line(text(value), text(value, 3)), note(value)))
    assert page.is_tidy
    assert page.found == [*plain_page.found, "p", "p", "span"]


@given(st.lists(st.lists(st.one_of(HOSTILE, st.integers()), max_size=3), max_size=5), st.lists(HOSTILE, max_size=3))
def test_no_cell_becomes_a_tag_or_an_attribute(rows: list[list[str | int]], headers: list[str]) -> None:
    page = Page(table(headers, rows))
    assert page.is_tidy
    assert page.found.count("td") == sum(map(len, rows))
    assert page.found.count("th") == len(headers)


@given(st.lists(st.tuples(STREAMS, HOSTILE), max_size=6))
def test_no_output_of_a_command_becomes_a_tag_or_an_attribute(pieces: list[tuple[str, str]]) -> None:
    page = Page(terminal(pieces))
    assert page.is_tidy
    assert set(page.found) <= {"div", "pre", "span"}
    assert "\x1b" not in page.text


@given(HOSTILE, st.binary(max_size=20))
def test_no_caption_leaves_its_place_in_a_picture(caption: str, data: bytes) -> None:
    page = Page(picture("image/png", data, caption))
    assert page.is_tidy
    assert [name for tag, name, _ in page.attributes if tag == "img"] == ["src", "alt"]


@given(HOSTILE)
def test_what_is_shown_can_be_sent_as_utf8_and_turns_no_line_around(value: str) -> None:
    shown = text(value)
    shown.encode()
    assert not set("\0\x07\x1b\r\x7f\x9b\u202e\u2066") & set(shown)


def test_a_page_takes_no_formula_out_of_an_output() -> None:
    page = Page(output(line(text("a$5 and $6.txt"))))
    outermost = next(value for _, name, value in page.attributes if name == "class")
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set((outermost or "").split())


def test_control_characters_show_as_symbols() -> None:
    assert text("a\0b\x07\x7f\x9b\n\t") == "a\u2400b\u2407\u2421\ufffd\n\t"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert text("x" * 1500, 1000).endswith("x … 500 more characters")
    assert text("x" * 1000, 1000) == "x" * 1000


@pytest.mark.parametrize(("count", "told"), [(ROWS, False), (ROWS + 1, True)])
def test_a_long_table_is_cut_and_says_so(count: int, told: bool) -> None:
    page = Page(table(["n"], [[n] for n in range(count)], count))
    assert page.found.count("td") == ROWS
    assert ("1 more rows are not shown" in page.text) is told


def test_nothing_comes_from_outside_and_nothing_runs() -> None:
    whole = output(picture("image/svg+xml", b"<svg onload='alert(1)'/>", "a"), table(["x"], [["y"]]))
    page = Page(whole)
    assert "script" not in page.found
    assert "url(" not in whole
    assert "@import" not in whole
    (source,) = [value for _, name, value in page.attributes if name == "src"]
    assert source is not None
    assert source.startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Hclear\x1b(B", "clear"),
        ("\x1bPdata\x1b\\text", "text"),
        ("10%\r20%\r30%\n", "30%\n"),
        ("10%\r20%\r", "20%"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("kept\r\x1b[0m\n", "kept\n"),
        ("cut off \x1b[3", "cut off 3"),
        ("\x1b", ""),
    ],
    ids=range(11),
)
def test_escape_sequences_are_left_out_and_a_line_can_begin_anew(printed: str, shown: str) -> None:
    assert plain(printed) == shown
    assert Page(terminal_text("stdout", printed)).text == shown


@pytest.mark.parametrize(
    ("printed", "classes"),
    [
        ("\x1b[31mx", {"sbk-fg1"}),
        ("\x1b[1;92;44mx", {"sbk-bold", "sbk-fg2", "sbk-bg4"}),
        ("\x1b[1m\x1b[22;3;4;7mx", {"sbk-slant", "sbk-under", "sbk-swap"}),
        ("\x1b[31m\x1b[39mx", set()),
        ("\x1b[31m\x1b[mx", set()),
        ("\x1b[38;5;196;1mx", {"sbk-bold"}),
        ("\x1b[48;2;1;2;3;1mx", {"sbk-bold"}),
        ("\x1b[99999999999999999999;2mx", {"sbk-dim"}),
        ("\x1b[31mgone\rx", {"sbk-fg1"}),
        ("\x1b[31m\nx", {"sbk-fg1"}),
    ],
    ids=range(10),
)
def test_colours_show_as_classes(printed: str, classes: set[str]) -> None:
    page = Page(terminal_text("stdout", printed))
    names = {value for tag, _, value in page.attributes if tag == "span"}
    assert {word for each in names for word in (each or "").split()} == classes | {"sbk-out"}


def test_the_two_streams_are_told_apart_in_order_and_keep_their_own_colours() -> None:
    page = Page(terminal([("stdout", "\x1b[32ma\n"), ("stderr", "b\n"), ("stdout", "c\n")]))
    spans = [value for tag, _, value in page.attributes if tag == "span"]
    assert page.text == "a\nb\nc\n"
    assert spans == ["sbk-out", "sbk-fg2", "sbk-err", "sbk-out", "sbk-fg2"]


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("abc", max_size=9))), st.integers(0, 20))
def test_an_excerpt_is_the_beginning_and_the_end(pieces: list[tuple[str, str]], limit: int) -> None:
    excerpt = Excerpt(limit)
    for stream, value in pieces:
        excerpt.add(stream, value)
    every = [(stream, character) for stream, value in pieces for character in value]
    shown = [(stream, character) for stream, value in excerpt.pieces for character in value if stream != "cut"]
    head, tail = limit // 2, limit - limit // 2
    cut = len(every) > limit
    assert shown == ([*every[:head], *every[len(every) - tail :]] if cut else every)
    told = [value for stream, value in excerpt.pieces if stream == "cut"]
    assert told == ([f"… {len(every) - limit:,} characters are not shown …\n"] if cut else [])


def test_a_flood_of_output_stays_small() -> None:
    excerpt = Excerpt()
    for _ in range(50_000):
        excerpt.add("stdout", "\x1b[31m<")
        excerpt.add("stderr", '"')
    assert len(terminal(excerpt.pieces)) < 2**21
