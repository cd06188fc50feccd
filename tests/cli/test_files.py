"""``ls``, ``cat`` and ``grep``: what is printed, for programs and for people."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandbox_kit.cli import main

from .programs import at_terminal, environment, kit, started

HOSTILE = "\x1b[31mred\nline"

Printed = pytest.CaptureFixture[bytes]


def lines(printed: Printed) -> list[bytes]:
    return printed.readouterr().out.splitlines()


@pytest.fixture
def root(project: Path) -> str:
    return str(project)


def test_ls_lists_what_the_rules_show(root: str, capfdbinary: Printed) -> None:
    assert main(["ls", "--root", root]) == 0
    assert lines(capfdbinary) == [b"notes.txt", b"src/"]


def test_ls_without_rules_lists_dot_files_and_links_too(root: str, capfdbinary: Printed) -> None:
    assert main(["ls", "--root", root, "--rules", "none"]) == 0
    assert lines(capfdbinary) == [b".env", b"link", b"notes.txt", b"src/"]


def test_ls_beneath_a_directory_gives_paths_that_cat_takes(root: str, capfdbinary: Printed) -> None:
    assert main(["ls", "--root", root, "src"]) == 0
    (path,) = lines(capfdbinary)
    assert main(["cat", "--root", root, path.decode()]) == 0
    assert b"print" in capfdbinary.readouterr().out


def test_ls_long_has_mode_and_size(project: Path, capfdbinary: Printed) -> None:
    (project / "notes.txt").chmod(0o640)
    assert main(["ls", "-l", "--root", str(project), "notes.txt"]) == 0
    (line,) = lines(capfdbinary)
    assert line.startswith(b"-rw-r----- ")
    assert b" 26 " in line


def test_ls_json_has_every_field(root: str, capfdbinary: Printed) -> None:
    assert main(["ls", "--root", root, "--json", "notes.txt"]) == 0
    document = json.loads(capfdbinary.readouterr().out)
    (entry,) = document["entries"]
    assert entry.keys() == {"name", "path", "is_dir", "size", "mtime", "mode", "is_symlink"}
    assert (entry["path"], entry["size"], document["skipped"]) == ("notes.txt", 26, [])


def test_a_name_that_is_no_utf8_reaches_a_pipe_as_it_is(project: Path, capfdbinary: Printed) -> None:
    (project / "src" / os.fsdecode(b"caf\xe9")).touch()
    assert main(["ls", "--root", str(project), "src"]) == 0
    assert lines(capfdbinary) == [b"src/app.py", b"src/caf\xe9"]
    assert main(["ls", "--root", str(project), "--json", "src"]) == 0
    names = [entry["name"] for entry in json.loads(capfdbinary.readouterr().out)["entries"]]
    assert names == ["app.py", "caf\udce9"]


def test_cat_prints_bytes_as_they_are_one_file_after_another(project: Path, capfdbinary: Printed) -> None:
    content = bytes(range(256)) * 1000
    (project / "blob").write_bytes(content)
    assert main(["cat", "--root", str(project), "blob", "notes.txt"]) == 0
    assert capfdbinary.readouterr().out == content + b"buy milk\nTODO: bake bread\n"


def test_cat_json_is_one_object_a_file(root: str, capfdbinary: Printed) -> None:
    assert main(["cat", "--root", root, "--json", "notes.txt", "src/app.py"]) == 0
    documents = [json.loads(line) for line in lines(capfdbinary)]
    assert [document["path"] for document in documents] == ["notes.txt", "src/app.py"]
    assert documents[0]["content"] == "buy milk\nTODO: bake bread\n"


@pytest.mark.parametrize("path", [".env", "link"])
def test_cat_of_a_credential_is_refused_by_any_name(root: str, path: str, capfdbinary: Printed) -> None:
    assert main(["cat", "--root", root, path]) == 126
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert printed.err == f"sandbox-kit: read {path}: denied by rule deny **/.env\n".encode()


@pytest.mark.parametrize(
    ("path", "code"),
    [("missing", 125), ("src", 125), ("notes.txt/x", 125), ("../outside", 126), ("/etc/hostname", 126)],
)
def test_a_file_that_cannot_be_read_is_one_line(root: str, path: str, code: int, capfdbinary: Printed) -> None:
    assert main(["cat", "--root", root, "--rules", "none", path]) == code
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert printed.err.startswith(b"sandbox-kit: ")
    assert printed.err.count(b"\n") == 1


def test_grep_prints_path_line_and_text(root: str, capfdbinary: Printed) -> None:
    assert main(["grep", "--root", root, "TO(DO|KEN)"]) == 0
    assert sorted(lines(capfdbinary)) == [b"notes.txt:2:TODO: bake bread", b"src/app.py:2:# TODO: more"]


def test_grep_that_finds_nothing_says_so_by_its_exit_code(root: str, capfdbinary: Printed) -> None:
    assert main(["grep", "--root", root, "TOKEN"]) == 1
    assert capfdbinary.readouterr() == (b"", b"")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-i", "BUY"], [b"notes.txt:1:buy milk"]),
        (["-F", "os.name)"], [b"src/app.py:3:print(os.name)"]),
        (["--glob", "*.py", "TODO"], [b"src/app.py:2:# TODO: more"]),
        (["TODO", "notes.txt"], [b"notes.txt:2:TODO: bake bread"]),
        (["--hidden", "--rules", "none", "TOKEN"], [b".env:1:TOKEN=t0p"]),
        (["--rules", "none", "TOKEN", "."], []),
        (["-C", "1", "TODO", "notes.txt"], [b"notes.txt-1-buy milk", b"notes.txt:2:TODO: bake bread"]),
        (["--", "-[x]", "."], []),
    ],
    ids=["ignore-case", "fixed", "glob", "path", "hidden", "not-hidden", "context", "dash"],
)
def test_grep_options(root: str, arguments: list[str], expected: list[bytes], capfdbinary: Printed) -> None:
    assert main(["grep", "--root", root, *arguments]) == (0 if expected else 1)
    assert lines(capfdbinary) == expected


def test_grep_prints_each_line_of_overlapping_context_once(project: Path, capfdbinary: Printed) -> None:
    (project / "many").write_text(
        "".join(f"{'hit' if number in (2, 4, 9) else 'line'} {number}\n" for number in range(1, 11))
    )
    assert main(["grep", "--root", str(project), "-C", "1", "hit", "many"]) == 0
    shown = [line.removeprefix(b"many") for line in lines(capfdbinary)]
    expected = [b"-1-line 1", b":2:hit 2", b"-3-line 3", b":4:hit 4", b"-5-line 5", b"--"]
    assert shown == [*expected, b"-8-line 8", b":9:hit 9", b"-10-line 10"]


def test_grep_separates_the_context_of_two_files(project: Path, capfdbinary: Printed) -> None:
    (project / "src" / "b.py").write_text("x\nTODO\n")
    assert main(["grep", "--root", str(project), "-C", "1", "TODO", "src"]) == 0
    shown = lines(capfdbinary)
    assert shown.count(b"--") == 1
    assert sorted(shown[: shown.index(b"--")] + shown[shown.index(b"--") + 1 :]) == [
        b"src/app.py-1-import os",
        b"src/app.py-3-print(os.name)",
        b"src/app.py:2:# TODO: more",
        b"src/b.py-1-x",
        b"src/b.py:2:TODO",
    ]


def test_grep_says_that_its_limit_cut_the_answer(project: Path, capfdbinary: Printed) -> None:
    (project / "many").write_text("hit\n" * 5)
    assert main(["grep", "--root", str(project), "-m", "2", "hit", "many"]) == 0
    assert capfdbinary.readouterr() == (
        b"many:1:hit\nmany:2:hit\n",
        b"sandbox-kit: stopped after 2 matches; there are more\n",
    )


def test_grep_json_is_one_object_a_match(root: str, capfdbinary: Printed) -> None:
    assert main(["grep", "--root", root, "--json", "-C", "1", "TODO", "notes.txt"]) == 0
    (match,) = map(json.loads, lines(capfdbinary))
    expected = {"path": "notes.txt", "line_number": 2, "line": "TODO: bake bread", "before": ["buy milk"], "after": []}
    assert match == {**expected, "binary": False}


def test_grep_says_that_a_binary_file_matches(project: Path, capfdbinary: Printed) -> None:
    (project / "blob").write_bytes(b"hit\0\x1b[31m\n")
    assert main(["grep", "--root", str(project), "hit", "blob"]) == 0
    assert capfdbinary.readouterr().out == b"blob:1:binary file matches\n"


@pytest.mark.parametrize("arguments", [["a("], [r"(a)\1"], ["--glob", "{a}", "x"], ["-C", "-1", "x"], ["-C", "x", "x"]])
def test_a_search_that_cannot_be_made_is_a_usage_error(root: str, arguments: list[str], capfdbinary: Printed) -> None:
    assert main(["grep", "--root", root, *arguments]) == 2
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert printed.err.startswith(b"sandbox-kit: ")
    assert printed.err.count(b"\n") == 1


def test_matches_arrive_while_the_search_goes_on(project: Path) -> None:
    (project / "many").write_text("hit\n" * 200_000)
    with started("grep", "--root", str(project), "hit", "many") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"many:1:hit\n"
        assert process.poll() is None
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (141, b"")


@pytest.mark.parametrize("command", [["ls"], ["ls", "-l"], ["grep", "hit"], ["grep", "-C", "1", "hit"]])
def test_names_cannot_write_to_a_terminal(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / HOSTILE).write_text("hit\n")
    ended = at_terminal(*command, "--root", str(tmp_path), env=environment(NO_COLOR="1"))
    assert ended.code == 0
    assert b"\\x1b[31mred\\nline" in ended.screen
    assert b"\x1b" not in ended.screen


def test_errors_cannot_write_to_a_terminal(tmp_path: Path) -> None:
    done = kit("cat", "--root", str(tmp_path), HOSTILE)
    assert done.stderr == b"sandbox-kit: \\x1b[31mred\\nline: no such file or directory\n"


@pytest.mark.parametrize("command", [["cat", "a"], ["grep", "."]])
def test_contents_cannot_write_to_a_terminal(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "a").write_text("caf\N{LATIN SMALL LETTER E WITH ACUTE}\t\x1b]0;title\x07\r\n")
    ended = at_terminal(*command, "--root", str(tmp_path), env=environment(NO_COLOR="1"))
    assert "café\t\\x1b]0;title\\x07".encode() in ended.screen
    assert b"\x1b" not in ended.screen


def test_a_terminal_gets_colour(project: Path) -> None:
    assert b"\x1b[1;34msrc\x1b[0m/" in at_terminal("ls", "--root", str(project)).screen


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_declined(project: Path, variables: dict[str, str]) -> None:
    assert b"\x1b" not in at_terminal("ls", "--root", str(project), env=environment(**variables)).screen


def test_a_pipe_gets_no_colour(project: Path) -> None:
    assert kit("ls", "--root", str(project), env=environment(TERM="xterm-256color")).stdout == b"notes.txt\nsrc/\n"
