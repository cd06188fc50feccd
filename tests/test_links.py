"""Which links lead out of a tree, against following each of them step by step."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.links import escaping

MANY = 10_000
HANGS_AFTER = 60.0


def stays_inside(name: str, links: Mapping[str, str]) -> bool:
    """Follow *name* as the file system would."""
    pending, at, followed = name.split("/")[::-1], list[str](), 0
    while pending:
        part = pending.pop()
        target = links.get("/".join([*at, part]))
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return False
            at.pop()
        elif target is None:
            at.append(part)
        else:
            followed += 1
            if target.startswith("/") or followed > 40:
                return False
            pending += target.split("/")[::-1]
    return True


components = st.sampled_from(["a", "b", "c", "d", "..", "."])
names = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4).map("/".join)
targets = st.lists(components, min_size=1, max_size=6).map("/".join) | st.sampled_from(["/", "/a", "", "a//b/"])
trees = st.dictionaries(names, targets, max_size=8)


class TestEscaping:
    @given(trees)
    def test_it_is_what_following_each_link_tells(self, links: dict[str, str]) -> None:
        assert escaping(links) == [name for name in links if not stays_inside(name, links)]

    @given(st.lists(st.integers(0, 9), min_size=4, max_size=10), st.integers(1, 4))
    def test_a_link_that_is_met_again_and_again_counts_each_time(self, nexts: list[int], times: int) -> None:
        links = {
            f"l{number}": "/".join([f"l{following}/.."] * times + ["l0"] if following > number else ["f"])
            for number, following in enumerate(nexts)
        }
        assert escaping(links) == [name for name in links if not stays_inside(name, links)]

    @pytest.mark.parametrize(
        ("links", "stays"),
        [
            ({"l": "f"}, True),
            ({"l": "missing/x"}, True),
            ({"l": "missing/../.."}, False),
            ({"l": "."}, True),
            ({"l": "d/.."}, True),
            ({"d/l": "../f"}, True),
            ({"l": "d/up/f", "d/up": ".."}, True),
            ({"l": ""}, True),
            ({"l": ".."}, False),
            ({"l": "/"}, False),
            ({"l": "d/../../x"}, False),
            ({"l": "d/up/..", "d/up": ".."}, False),
            ({"l": "l"}, False),
            ({"l": "m", "m": "n", "n": "m"}, False),
        ],
    )
    def test_examples(self, links: dict[str, str], stays: bool) -> None:
        assert (next(iter(links)) not in escaping(links)) is stays

    @pytest.mark.parametrize("length", [39, 40, 41, 42])
    def test_no_more_links_are_followed_than_a_system_follows(self, length: int) -> None:
        links = {f"l{number}": f"l{number + 1}" for number in range(length)}
        assert escaping(links) == [f"l{number}" for number in range(length - 40)]


def spread(number: int) -> str:
    return "/".join(["d"] * 60 + [str(number % 100), str(number)])


@pytest.mark.parametrize(
    "links",
    [
        {f"l{number}": f"l{number + 1}" for number in range(MANY)},
        {f"l{number}": f"l{max(number - 1, 0)}" for number in range(MANY)},
        {f"{number:06}": "/".join([f"{number + 1:06}/.."] * 20) for number in range(MANY)},
        {spread(number): "../" * 60 + spread(number + 1) for number in range(MANY)},
        {spread(number): "x/../" * 100 + "f" for number in range(MANY)},
    ],
    ids=["chain", "circle at the end", "fan", "deep", "long texts"],
)
def test_many_links_are_told_without_hanging(links: dict[str, str]) -> None:
    before = monotonic()
    escaping(links)
    assert monotonic() - before < HANGS_AFTER
