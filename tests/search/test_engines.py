"""One dialect: ripgrep, GNU grep and the library's own search find the same lines."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_kit.search.dialect import GREP_ENV, Dialect, parse
from sandbox_kit.search.hits import Hit
from sandbox_kit.search.records import RecordParser, grep_options, ripgrep_options
from sandbox_kit.search.scan import Scanner

from .oracles import hits_in
from .strategies import files, patterns

engines = pytest.mark.parametrize(
    "engine",
    [pytest.param("rg", marks=pytest.mark.needs("rg")), pytest.param("grep", marks=pytest.mark.needs("gnu-grep"))],
)
reuses_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def ran(argv: list[str], directory: Path) -> bytes:
    done = subprocess.run(
        argv, cwd=directory, env={"PATH": os.environ["PATH"], **GREP_ENV}, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) in ((0, b""), (1, b"")), (argv, done.stderr)
    return done.stdout


def hits_of(engine: str, dialect: Dialect, directory: Path, context: int = 0, hidden: bool = False) -> list[Hit]:
    """What the engine finds in every file of the directory, sorted by name."""
    options = (ripgrep_options if engine == "rg" else grep_options)(dialect, context=context, hidden=hidden)
    parser = RecordParser(context=context)
    hits = parser.feed(ran([engine, *options, "."], directory)) + parser.close()
    return sorted((hit._replace(name=hit.name.removeprefix(b"./")) for hit in hits), key=lambda hit: hit[:2])


def scanned(dialect: Dialect, data: bytes, context: int = 0) -> list[Hit]:
    return list(Scanner(dialect, context=context).scan(io.BytesIO(data), b"f"))


@engines
@reuses_directory
@given(pattern=patterns, ignore_case=st.booleans(), data=files, context=st.integers(0, 2))
def test_an_external_program_finds_what_the_scan_finds(
    engine: str, tmp_path: Path, pattern: str, ignore_case: bool, data: bytes, context: int
) -> None:
    dialect = parse(pattern, ignore_case=ignore_case)
    (tmp_path / "f").write_bytes(data)
    assert hits_of(engine, dialect, tmp_path, context) == scanned(dialect, data, context)


@given(pattern=patterns, ignore_case=st.booleans(), data=files, context=st.integers(0, 2))
def test_the_scan_finds_the_lines_that_match_one_by_one(
    pattern: str, ignore_case: bool, data: bytes, context: int
) -> None:
    dialect = parse(pattern, ignore_case=ignore_case)
    assert scanned(dialect, data, context) == hits_in(data, dialect.matcher(), name=b"f", context=context)


LITERALS = [
    "-f.env",
    "-L",
    "--",
    "a.b",
    "a\\",
    "x|y",
    "(",
    "[",
    "don't",
    "'; touch pwned; '",
    "$(touch pwned)",
    "é^$",
    "{1}",
]


@engines
@pytest.mark.parametrize("text", LITERALS)
def test_a_plain_string_is_itself_and_never_an_option(engine: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"aXb xy\n" + text.encode() + b"\n")
    (tmp_path / "-L").write_bytes(b"nothing\n")
    dialect = parse(text, fixed=True)
    assert [(hit.name, hit.line) for hit in hits_of(engine, dialect, tmp_path)] == [(b"f", text.encode())]
    assert os.listdir(tmp_path).count("pwned") == 0


@engines
def test_names_and_contents_are_told_apart(engine: str, tmp_path: Path) -> None:
    contents = {
        b"dev_2026:06_sys.log": b"a:12:b needle\n",
        b"C:\\x": b"needle",
        b"n\nb.txt": b"needle\r\n",
        b"a\nok.txt:1:SECRET": b"x\nneedle\n",
        b"gpt-4-config.py": b"release-2026-final\nneedle\n--\n",
        b"-r": b"needle -\n",
        b"caf\xe9 \xff": b"\xff needle\n",
    }
    for name, data in contents.items():
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_bytes(data)
    dialect = parse("needle")
    expected = [
        hit for name in sorted(contents) for hit in hits_in(contents[name], dialect.matcher(), name=name, context=1)
    ]
    assert hits_of(engine, dialect, tmp_path, context=1) == expected


@engines
def test_binary_files_utf16_and_odd_line_ends_are_the_same_everywhere(engine: str, tmp_path: Path) -> None:
    data = {
        b"bin": b"match 0\nhello\0world match\nmatch line\n",
        b"late": b"match line\nhello\0world\nmatch 2\n",
        b"bom": b"\xef\xbb\xbfmatch\n",
        b"utf16": "match\n".encode("utf-16"),
        b"ends": "a\u2028match\x0bb\x85\u0085c\nmatch2\n".encode(),
    }
    for name, content in data.items():
        (tmp_path / name.decode()).write_bytes(content)
    found = hits_of(engine, parse("match"), tmp_path)
    expected = [hit for name in sorted(data) for hit in hits_in(data[name], lambda raw: b"match" in raw, name=name)]
    assert found == expected
    assert [(hit.name, hit.line_number, hit.binary) for hit in found if hit.name in (b"bin", b"late")] == [
        (b"bin", 1, False),
        (b"bin", 2, True),
        (b"late", 1, False),
        (b"late", 3, False),
    ]


@engines
@pytest.mark.parametrize(
    ("hidden", "expected"), [(False, [b"shown"]), (True, [b".dot/f", b".env", b"ignored", b"shown"])]
)
def test_dot_names_are_searched_on_demand_and_ignore_files_never_count(
    engine: str, hidden: bool, expected: list[bytes], tmp_path: Path
) -> None:
    (tmp_path / ".dot").mkdir()
    for name in (".dot/f", ".env", "shown", "ignored"):
        (tmp_path / name).write_text("needle\n")
    (tmp_path / ".ignore").write_text("ignored\n")
    shown = [hit.name for hit in hits_of(engine, parse("needle"), tmp_path, hidden=hidden)]
    assert shown == (expected if hidden else [b"ignored", *expected])


@engines
def test_a_line_of_20_mb_comes_whole_out_of_the_program_and_is_cut_here(engine: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 20_000_000 + b"needle\nneedle 2")
    hits = hits_of(engine, parse("needle"), tmp_path)
    assert [(hit.line_number, hit.offset, len(hit.line)) for hit in hits] == [(1, 0, 2**20), (2, 20_000_007, 8)]
