"""Many patterns in order: the first that matches, and what lies beneath a directory."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import PatternError
from sandbox_kit.rules import globset, nametable
from sandbox_kit.rules.globs import normal_path, parse_glob
from sandbox_kit.rules.globset import GlobSet, Member

from . import oracle_globs as oracle

Rules = list[tuple[str, bool]]


def valid(pattern: str) -> bool:
    try:
        parse_glob(pattern)
    except PatternError:
        return False
    return True


RULES = st.lists(st.tuples(oracle.PATTERNS.filter(valid), st.booleans()), max_size=8)


def build(rules: Rules, work_dir: str = "/") -> GlobSet:
    return GlobSet(
        Member(index, steps, beneath)
        for index, (pattern, beneath) in enumerate(rules)
        for steps in parse_glob(pattern).steps(work_dir)
    )


def matching(rules: Rules, path: str, work_dir: str = "/") -> list[int]:
    answers = ((oracle.covers if beneath else oracle.matches)(pattern, path, work_dir) for pattern, beneath in rules)
    return [index for index, answer in enumerate(answers) if answer]


@given(RULES, st.lists(oracle.PATHS, max_size=4), oracle.WORK_DIRS)
def test_a_set_answers_what_a_scan_of_its_patterns_finds(rules: Rules, paths: list[str], work_dir: str) -> None:
    found = build(rules, work_dir)
    for path in paths * 2:
        expected = matching(rules, path, work_dir)
        assert found.every(path) == expected
        assert found.first(path) == (expected[0] if expected else None)


SHAPES = ("*{0}", "{0}*", "*{0}*", "?{0}", "{0}[x-z]", "a*{0}", "{0}*.b", "*.{0}", "*a*{0}*", "/d/*{0}*", "**/{0}/x*")
WORDS = st.text(alphabet="abxy.", min_size=1, max_size=4).filter(lambda word: not word.startswith("."))


@given(
    st.lists(st.tuples(st.sampled_from(SHAPES), WORDS), min_size=20, max_size=40),
    st.lists(WORDS, min_size=1, max_size=6),
)
def test_many_patterns_of_every_shape_answer_as_a_scan(shapes: list[tuple[str, str]], names: list[str]) -> None:
    rules = [(shape.format(word), bool(index % 2)) for index, (shape, word) in enumerate(shapes)]
    found = build(rules)
    for count in range(1, len(names) + 1):
        path = "/" + "/".join(names[:count])
        expected = matching(rules, path)
        assert found.first(path) == (expected[0] if expected else None)


def asked_of_many_directories(found: GlobSet) -> GlobSet:
    for number in range(globset.SCAN_AFTER):
        found.first(f"/{number}/n")
    return found


@given(RULES, st.lists(oracle.PATHS, max_size=4), oracle.WORK_DIRS)
def test_a_set_asked_of_many_directories_answers_as_before(rules: Rules, paths: list[str], work_dir: str) -> None:
    found = asked_of_many_directories(build(rules, work_dir))
    for path in paths:
        expected = matching(rules, path, work_dir)
        assert found.first(path) == (expected[0] if expected else None)


@given(
    st.lists(st.tuples(st.sampled_from(SHAPES), WORDS), min_size=1, max_size=8),
    st.lists(WORDS, min_size=1, max_size=6),
)
def test_a_search_for_the_names_that_matter_misses_none(shapes: list[tuple[str, str]], names: list[str]) -> None:
    rules = [("**/" + shape.format(word).lstrip("*/"), True) for shape, word in shapes if shape != "*{0}*"]
    rules += [(f"**/*{word}*", True) for shape, word in shapes if shape == "*{0}*"]
    found = asked_of_many_directories(build(rules))
    path = "/" + "/".join([*names, "last"])
    expected = matching(rules, path)
    assert found.first(path) == (expected[0] if expected else None)


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/a/b/x/f", 0),
        ("/a/b", 0),
        ("/q/a/b/f", None),
        ("/a/q/b", None),
        ("/a/q/b/f", None),
        ("/x/y/k.pem/z/f", 1),
        ("/x/id_k/f", 2),
        ("/x/my-token-1/f", 3),
        ("/x/idk/pem/f", None),
        ("/etc/x/y", None),
        ("/x/etc", 4),
        ("/x/y/etc/z/f", 4),
    ],
)
def test_names_that_no_segment_matches_part_those_that_one_does(path: str, first: int | None) -> None:
    patterns = ("/a/b", "**/*.pem", "**/id_*", "**/*token*", "/x/**/etc")
    found = asked_of_many_directories(build([(pattern, True) for pattern in patterns]))
    assert found.first(path) == first


@pytest.mark.parametrize(
    "rules",
    [
        [(f"**/n{number}", True) for number in range(200)],
        [(f"**/*t{number}*", True) for number in range(9)],
        [("**/[ab]?/x", True), ("**/*/y/*/z", True)],
    ],
    ids=["many segments", "many inner texts", "no text"],
)
def test_sets_that_no_search_is_worth_while_for_answer_as_well(rules: Rules) -> None:
    found = asked_of_many_directories(build(rules))
    for path in ("/a/n150/b", "/a/xt7x/b", "/c/ab/x/d", "/a/b/y/c/z/d", "/a/b/c"):
        expected = matching(rules, path)
        assert found.first(path) == (expected[0] if expected else None)


@given(RULES, oracle.PATHS, oracle.PATHS)
def test_what_is_said_of_all_beneath_a_directory_holds(rules: Rules, directory: str, below: str) -> None:
    cover, alive = build(rules).beneath(directory)
    assert alive == sorted(set(alive))
    assert cover is None or all(index < cover for index in alive)
    if below != "/":
        expected = matching(rules, normal_path(f"{directory}/{below}"))
        first = expected[0] if expected else None
        assert cover is None or cover in expected
        assert first == cover or first in alive


def test_an_empty_set_matches_nothing() -> None:
    found = GlobSet([])
    assert found.first("/a") is None
    assert found.every("/a") == []
    assert found.beneath("/") == (None, [])


def test_the_root_is_a_path_like_any_other() -> None:
    assert build([("/*", True), ("/**", False)]).first("/") == 1
    assert build([("*", True)]).first("/") is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globset, "MAX_REMEMBERED", 4)
    monkeypatch.setattr(globset, "MAX_KEY", 12)
    found = build([("**/x", True), ("/d/**/y", False)])
    for number in range(20):
        assert found.first(f"/d/{number}/y") == 1
        assert found.first(f"/d/{number}/a/long/way/down/y") == 1
        assert found.first(f"/d/{number}/x/y") == 0
    assert len(found._states) <= 4
    assert all(len(directory) <= 12 for directory in found._states)
    assert len(found._names) <= 4


def test_many_contained_texts_are_found_by_three_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nametable, "MAX_REST", 2)
    found = build([("*token*", True), ("*a*", True), ("*to?en*ken*", True), ("*[0-9]*", True)])
    assert found.first("/x-token-y") == 0
    assert found.every("/a-token-ken") == [0, 1, 2]
    assert found.every("/toke7") == [3]
    assert found.first("/to") is None


def test_threads_share_a_set() -> None:
    found = build([(f"**/n{number}*", True) for number in range(50)])
    wrong: list[str] = []

    def ask(start: int) -> None:
        for number in range(start, start + 500):
            path = f"/d{number}/e/n{number % 50}-"
            if found.first(path) != min(i for i in range(50) if f"n{number % 50}-".startswith(f"n{i}")):
                wrong.append(path)

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 2000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("patterns", "path"),
    [
        (["**/" + "a/" * 2000 + "b"], "/a" * 2047),
        (["**/*[ab]/" * 400 + "b"], "/a" * 2047),
        ([f"**/?[{chr(97 + i % 26)}{chr(98 + i // 26)}]*/x" for i in range(500)], "/abc" * 1000),
        (["*a" * 1000 + "b", "?*" * 1000 + "b"], "/" + "a" * 4095),
    ],
    ids=["segments", "globstars", "classes", "stars"],
)
def test_the_worst_sets_end_soon(patterns: list[str], path: str) -> None:
    found = build([(pattern, True) for pattern in patterns])
    started = time.monotonic()
    assert found.first(path) is None
    assert time.monotonic() - started < 5
