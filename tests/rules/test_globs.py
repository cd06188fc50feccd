"""One path pattern: what it matches, what it refuses, where a walk looks for it."""

from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from sandbox_kit.errors import InvalidArgumentError, PatternError
from sandbox_kit.rules.globs import Glob, WalkGlob, compile_filter_glob, compile_walk_glob, normal_path, parse_glob

from . import oracle_globs as oracle

TABLE = Path(__file__).parent.parent / "data" / "glob-semantics.tsv"


def rows() -> list[tuple[str, str, str, str]]:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return [(json.loads(pattern), json.loads(path), deny, allow) for pattern, path, deny, allow, *_ in lines]


def parse_or_skip(pattern: str) -> Glob:
    try:
        return parse_glob(pattern)
    except PatternError:
        assume(False)
        raise


@pytest.mark.parametrize(("pattern", "path", "deny", "allow"), rows())
def test_the_table_of_semantics_holds(pattern: str, path: str, deny: str, allow: str) -> None:
    if deny == "refused":
        with pytest.raises(PatternError) as caught:
            parse_glob(pattern)
        assert caught.value.pattern == pattern
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= len(pattern)
        return
    glob = parse_glob(pattern)
    assert glob.covers(normal_path(path)) is (deny == "match")
    assert glob.matches(normal_path(path)) is (allow == "match")


@given(oracle.PATTERNS, oracle.PATHS, oracle.WORK_DIRS)
def test_a_pattern_matches_what_trying_everything_finds(pattern: str, path: str, work_dir: str) -> None:
    glob = parse_or_skip(pattern)
    assert glob.matches(path, work_dir) is oracle.matches(pattern, path, work_dir)
    assert glob.covers(path, work_dir) is oracle.covers(pattern, path, work_dir)


@pytest.mark.parametrize("pattern", [None, b"a", 1, ["a"]])
def test_a_pattern_that_is_no_text_is_refused(pattern: Any) -> None:
    for compile_pattern in (parse_glob, compile_walk_glob, compile_filter_glob):
        with pytest.raises(InvalidArgumentError, match="a pattern is a str"):
            compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "offset"),
    [
        ("/", 0),
        (".", 0),
        ("./", 0),
        ("//.", 0),
        ("{.,a}", 1),
        ("[.]", 0),
        ("{,a}", 0),
        ("a\0b", 1),
        ("a/../b", 2),
        ("..", 0),
        ("{.,..}/x", 3),
        ("\\.\\./x", 0),
        ("[.][.]/x", 0),
        ("a{/..,b}", 3),
        ("[a/b]", 2),
        ("/w/[a\\/b]", 5),
        ("~", 0),
        ("~root/x", 0),
        ("{!a,b}", 1),
        ("{,a}~x", 4),
        ("/etc/** ", 7),
        ("\t/etc", 0),
        ("\ufeff/etc", 0),
        ("\u00a0", 0),
        ("**/*.{pem, key}", 10),
        ("{a ,b}", 2),
        ("[a", 0),
        ("[]", 0),
        ("[!]", 0),
        ("[a\\", 2),
        ("[b-a]", 1),
        ("[\\]-\\[]", 1),
        ("[[:alpha:]]", 1),
        ("[a[:alpha:]]", 2),
        ("[:alpha:]", 0),
        ("[[=a=]]", 1),
        ("[[.a.]]", 1),
        ("{a}", 0),
        ("x{}", 1),
        ("{a,{b}}", 3),
        ("{1..3}", 1),
        ("{a..e..2}", 1),
        ("{1..3,x}", 1),
        ("{a,b", 0),
        ("a}", 1),
        ("{a,b}}", 5),
        ("@(a|b)", 0),
        ("x+(a)", 1),
        ("*(a)", 0),
        ("?(a)", 0),
        ("a***", 1),
        ("x/**y", 2),
        ("a{**,b}", 2),
        ("***", 0),
        ("a\\", 1),
        ("\\a", 0),
        ("x\\1", 1),
        ("\\é", 0),
        ("a\\/b", 1),
        ("{" * 11 + "a,b" + "}" * 11, 10),
        ("{a,b}" * 11, 0),
        ("{a,b}" * 9 + "x" * 4000, 0),
        ("a/\ud800", 2),
        ("\udbff\udc00", 0),
        ("cafe\u0301/[b", 6),
        ("e\u0301{a}", 2),
        ("\udcc3\udca9/..", 3),
        ("/Å/[z-a]", 4),
    ],
)
def test_what_could_be_inert_is_refused_with_its_place(pattern: str, offset: int) -> None:
    with pytest.raises(PatternError) as caught:
        parse_glob(pattern)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("\\!a", "/w/!a"),
        ("/w/!a", "/w/!a"),
        ("\\~", "/~"),
        ("/w/~x", "/w/~x"),
        ("x\\ ", "/x "),
        ("[ ]x", "/ x"),
        ("a b", "/a b"),
        ("\\*(x)", "/*(x)"),
        ("a\\\\(x)", "/a\\(x)"),
        ("a,b", "/a,b"),
        ("a]", "/a]"),
        ("[]]", "/]"),
        ("[]-a]", "/^"),
        ("[!]]", "/a"),
        ("[^^]", "/!"),
        ("[!!]", "/^"),
        ("[a-]", "/-"),
        ("[-a]", "/-"),
        ("[\\-\\]]", "/]"),
        ("[.]env", "/.env"),
        ("[.:]", "/:"),
        ("{[a,b],c}", "/,"),
        ("{*,a}*", "/anything"),
        ("{**,a}/x", "/p/q/x"),
        ("x{,/**}", "/x"),
        ("a{,b}{,c}", "/abc"),
        ("{{{a,b},c},d}", "/a"),
        ("...", "/..."),
        ("..a", "/..a"),
        ("{e,x}\u0301", "/é"),
        ("[e]\u0301", "/é"),
        ("[e\u0301]x", "/éx"),
    ],
)
def test_what_looks_special_and_is_not_matches_as_it_stands(pattern: str, path: str) -> None:
    assert parse_glob(pattern).matches(normal_path(path))


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("x", ["/x", "/w/x", "/v/a/x"], ["/xx"]),
        ("x/", ["/x", "/v/x/y"], ["/y"]),
        ("**/x/y", ["/x/y", "/v/x/y"], ["/v/x"]),
        ("a/x", ["/w/a/x"], ["/a/x", "/w/b/a/x"]),
        ("./x", ["/w/x"], ["/x", "/w/a/x"]),
        ("./**", ["/w", "/w/a/b"], ["/", "/v", "/ww"]),
        ("./**/x", ["/w/x", "/w/a/x"], ["/x"]),
        ("x/.", ["/w/x"], ["/x"]),
        ("/x", ["/x"], ["/w/x"]),
        ("{a,b/c}", ["/a", "/v/a", "/w/b/c"], ["/b/c", "/v/b/c"]),
        ("{/a,b}", ["/a", "/v/b"], ["/v/a"]),
        ("/**", ["/", "/a/b"], []),
        ("**/", ["/", "/a/b"], []),
    ],
)
def test_slashes_decide_where_an_alternative_starts(pattern: str, inside: list[str], outside: list[str]) -> None:
    glob = parse_glob(pattern)
    assert [path for path in inside if not glob.matches(path, "/w")] == []
    assert [path for path in outside if glob.matches(path, "/w")] == []


@pytest.mark.parametrize(
    ("pattern", "prefixes"),
    [
        ("/etc/**", {"/etc"}),
        ("/etc/passwd", {"/etc/passwd"}),
        ("/a/b*/c", {"/a"}),
        ("private/**", {"/w/private"}),
        ("./*", {"/w"}),
        ("**/.env", set()),
        (".env", set()),
        ("/*/x", set()),
        ("/{a,b/c}/**", {"/a", "/b/c"}),
        ("{x,y/z}", {"/w/y/z"}),
    ],
)
def test_a_literal_prefix_is_what_leads_up_to_the_first_wildcard(pattern: str, prefixes: set[str]) -> None:
    assert parse_glob(pattern).literal_prefixes("/w") == prefixes


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("", "/w"),
        (".", "/w"),
        ("a", "/w/a"),
        ("./a//b/", "/w/a/b"),
        ("/a/./b/.", "/a/b"),
        ("/a/../../b", "/b"),
        ("../a", "/a"),
        ("//", "/"),
        ("/.hidden", "/.hidden"),
        ("/...", "/..."),
        ("e\u0301", "/w/é"),
        ("\udcff", "/w/\udcff"),
    ],
)
def test_a_path_has_one_normal_spelling(path: str, normal: str) -> None:
    assert normal_path(path, "/w") == normal
    assert normal_path(normal) == normal


@pytest.mark.parametrize("spelling", ["caf\udcc3\udca9", "cafe\u0301", "caf\u00e9"])
def test_escaped_bytes_that_are_a_character_are_that_character(spelling: str) -> None:
    for path in ("caf\udcc3\udca9", "caf\u00e9"):
        assert parse_glob(spelling).matches(normal_path(path))
    assert parse_glob("caf\udcc3").matches(normal_path("caf\udcc3"))


def test_a_path_with_a_surrogate_that_stands_for_no_byte_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at 3"):
        normal_path("/a/\ud800")


def test_what_is_kept_of_parsed_patterns_is_bounded() -> None:
    braces = "{" + ",".join(map(str, range(32))) + "}"
    tracemalloc.start()
    for number in range(60):
        assert len(parse_glob(f"{number}/{braces}/{braces}").alternatives) == 1024
        assert parse_glob("x" * 2**21 + str(number)).source.endswith(str(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20 * 2**20
    assert parse_glob("a/b") is parse_glob("a/b")


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        normal_path("/a\0b")


def test_a_glob_travels() -> None:
    glob = parse_glob("{a,b/[c-d]*}/")
    assert pickle.loads(pickle.dumps(glob)) == glob


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 1000 + "b", "/" + "a" * 4095),
        ("?*" * 1000 + "b", "/" + "a" * 4095),
        ("/" + "[ab]" * 900 + "*" + "[ab]" * 900 + "c", "/" + "a" * 4095),
        ("*" + "[ab]" * 1000 + "[cd]*", "/" + "a" * 4095),
        ("*" + "?" * 2000 + "[cd]", "/" + "a" * 4095),
        ("**/a/" * 800 + "b", "/a" * 2047),
        ("**/*a/" * 600 + "b", "/a" * 2047),
        ("**/" + "a/" * 2000 + "b", "/a" * 2047),
        ("{*a,*b}" * 10 + "c", "/" + "ab" * 2000),
    ],
    ids=["stars", "questions", "classes", "run-inside", "run-at-the-end", "globstars", "both", "segments", "braces"],
)
def test_the_worst_patterns_end_soon(pattern: str, path: str) -> None:
    glob = parse_glob(pattern)
    started = time.monotonic()
    assert not glob.covers(path)
    assert time.monotonic() - started < 5


def test_a_filter_takes_a_pattern_as_a_rule_does() -> None:
    found = compile_filter_glob("src/*.py", "/w")
    assert found.matches("/w/src/a.py")
    assert not found.matches("/w/src/a.py/x")
    assert found.covers("/w/src/a.py/x")
    assert not found.covers("/w/src")
    with pytest.raises(PatternError):
        compile_filter_glob("../private/*")


TREE: dict[str, object] = {
    "top.py": None,
    "src": {"app": {"main.py": None}, "a.py": None, "link": None},
    ".hidden": {"x.py": None},
}


def walk(glob: WalkGlob, tree: dict[str, object], links: tuple[str, ...] = ()) -> list[str]:
    found = []

    def enter(directory: object, state: int, above: str) -> None:
        entries = directory if isinstance(directory, dict) else {}
        names = glob.literals(state)
        for name, child in entries.items():
            if names is not None and name not in names:
                continue
            path = above + name
            at = glob.enter(state, name)
            if glob.selects(at, is_dir=child is not None):
                found.append(path)
            beneath = glob.enter(state, name, link=path in links)
            if glob.continues(beneath):
                enter(child, beneath, path + "/")

    if glob.selects(glob.start, is_dir=True):
        found.append(".")
    enter(tree, glob.start, "")
    return sorted(found)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["top.py"]),
        ("**/*.py", [".hidden/x.py", "src/a.py", "src/app/main.py", "top.py"]),
        ("src/**/*.py", ["src/a.py", "src/app/main.py"]),
        ("src/*", ["src/a.py", "src/app", "src/link"]),
        ("*/", [".hidden", "src"]),
        ("{src,top.py}/", ["src"]),
        ("{*/,top.py}", [".hidden", "src", "top.py"]),
        ("src", ["src"]),
        ("./**/app", ["src/app"]),
        ("src/**", ["src", "src/a.py", "src/app", "src/app/main.py", "src/link"]),
        ("**", [".", ".hidden", ".hidden/x.py", "src", "src/a.py", "src/app", "src/app/main.py", "src/link", "top.py"]),
        ("nothing/here", []),
    ],
)
def test_a_walk_finds_what_the_pattern_selects(pattern: str, found: list[str]) -> None:
    assert walk(compile_walk_glob(pattern), TREE) == found


def test_a_relative_path_is_matched_without_a_walk() -> None:
    glob = compile_walk_glob("{src/**/*.py,caf\u00e9,out/}")
    assert glob.matches("src/a.py")
    assert glob.matches("src/x/y/a.py/")
    assert glob.matches("cafe\u0301")
    assert glob.matches("out", is_dir=True)
    assert not glob.matches("out")
    assert not glob.matches("a.py")


def test_two_stars_do_not_cross_a_link_and_a_named_segment_does() -> None:
    tree: dict[str, object] = {"pub": {"key": None, "deep": {"key": None}}}
    assert walk(compile_walk_glob("**/key"), tree, links=("pub",)) == []
    assert walk(compile_walk_glob("**/*"), tree, links=("pub",)) == ["pub"]
    assert walk(compile_walk_glob("pub/key"), tree, links=("pub",)) == ["pub/key"]
    assert walk(compile_walk_glob("pub/**"), tree, links=("pub",)) == ["pub", "pub/deep", "pub/deep/key", "pub/key"]


def test_a_walk_knows_the_names_that_it_need_not_list() -> None:
    glob = compile_walk_glob("{src,lib}/x/*.py")
    assert glob.literals(glob.start) == ("lib", "src")
    inside = glob.enter(glob.start, "src")
    assert glob.literals(inside) == ("x",)
    assert glob.literals(glob.enter(inside, "x")) is None
    assert glob.enter(inside, "y") == 0
    assert compile_walk_glob("**").literals(compile_walk_glob("**").start) is None
    assert compile_walk_glob("caf\u00e9").literals(compile_walk_glob("caf\u00e9").start) is None


@pytest.mark.parametrize("pattern", ["/*.py", "../x", "a/../b", "/w/src/*.py", ""])
def test_a_walk_that_leaves_its_start_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_walk_glob(pattern)


def test_an_absolute_pattern_beneath_the_start_is_taken_as_relative() -> None:
    assert walk(compile_walk_glob("/w/src/*.py", "/w"), TREE) == ["src/a.py"]
    assert walk(compile_walk_glob("/src/*.py", "/"), TREE) == ["src/a.py"]
    with pytest.raises(PatternError):
        compile_walk_glob("/etc/*", "/w")


@given(oracle.PATTERNS, oracle.PATHS)
def test_a_walk_selects_what_the_pattern_matches_from_its_start(pattern: str, path: str) -> None:
    assume(not pattern.startswith("/") and not pattern.endswith("/"))
    parse_or_skip(pattern)
    assume(all(not text.endswith("/") and not text.startswith("/") for text in oracle.expand(pattern)))
    glob = compile_walk_glob(pattern)
    state = glob.start
    for name in [name for name in path.split("/") if name]:
        assert glob.continues(state) or not glob.enter(state, name)
        state = glob.enter(state, name)
    anchored = [text if "/" in text else f"./{text}" for text in oracle.expand(pattern)]
    assert glob.selects(state, is_dir=False) is any(oracle.matches(text, path) for text in anchored)
