"""Commands with fields: what an item fills in is a word of its own, and nothing else."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.jobs.template import CommandTemplate

HOSTILE = "`touch hit`$(touch hit)';touch hit;'\";touch hit;\"\ntouch hit\n)touch hit;}\n\\"
"""A value that makes the file ``hit`` wherever a shell takes a part of it for anything but itself."""

PIECES = [
    "'",
    '"',
    "\\",
    " ",
    "#",
    "\n",
    "$",
    "(",
    ")",
    "x",
    "{{",
    "}}",
    "$(",
    "${{a",
    "`",
    "<<E",
    "2>",
    "$((",
    ";",
    "&",
]


def run(command: str, directory: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=directory, capture_output=True, timeout=30, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("value", ["plain", "two words", "it's", '"', "$HOME", "a\nb", "2", "", "-n x", "`id`", "é"])
def test_a_field_of_a_line_is_one_word(value: str, tmp_path: Path) -> None:
    command = CommandTemplate("printf '[%s]' {item}>out; cat out").command(value)
    assert isinstance(command, str)
    assert run(command, tmp_path).stdout.decode() == f"[{value}]"


@given(st.lists(st.sampled_from([*PIECES, "{item}"]), max_size=12))
@settings(max_examples=150)
def test_no_value_ever_leaves_its_word(pieces: list[str]) -> None:
    try:
        template = CommandTemplate(": " + "".join(pieces) + " {item}")
    except InvalidArgumentError:
        return
    command = template.command(HOSTILE)
    assert isinstance(command, str)
    with TemporaryDirectory() as directory:
        run(command, Path(directory))
        assert not Path(directory, "hit").exists()


@pytest.mark.parametrize(
    "source",
    [
        "echo '{item}'",
        'echo "{item}"',
        'echo "a $(echo "{item}")"',
        "echo `echo {item}`",
        "cat <<END\n{item}\nEND",
        "echo $(( {item} + 1 ))",
        "echo $'\\' {item}'",
        "echo \\{item}",
        "echo ${item}",
        "echo ${{x:-{item}}}",
        "echo # it is {item}",
        "echo ${{x#'}} {item}",
        "echo >& {item}",
    ],
)
def test_a_field_that_is_quoted_already_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\{item\} is quoted"):
        CommandTemplate(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("cat '-' {item}", "cat '-' 'x'"),
        ('cp "${{HOME}}/a" {item}', "cp \"${HOME}/a\" 'x'"),
        ("echo $(cat {item})", "echo $(cat 'x')"),
        ("echo it\\'s {item}", "echo it\\'s 'x'"),
        ("echo a#'b' {item}", "echo a#'b' 'x'"),
        ("true # don't\necho {item}", "true # don't\necho 'x'"),
        ("awk '{{print $1}}' {item}", "awk '{print $1}' 'x'"),
        ("out={item}.txt; cat <in >$out", "out='x'.txt; cat <in >$out"),
        ("echo 2>&1 {item}", "echo 2>&1 'x'"),
        ("echo none", "echo none"),
    ],
)
def test_other_syntax_stays_as_it_is(source: str, expected: str) -> None:
    assert CommandTemplate(source).command("x") == expected


def test_a_vector_is_filled_in_without_quotes() -> None:
    template = CommandTemplate(["convert", "{src}", "out/{name}-{size:04d}.png", "{{}}"])
    values = {"src": PurePosixPath("a b.png"), "name": "it's", "size": 7}
    assert template.command(values) == ("convert", "a b.png", "out/it's-0007.png", "{}")


@pytest.mark.parametrize("source", ["", [], [""], ["a", ""], 7, None, ["a", 1], b"a"])
def test_what_is_no_command_is_refused(source: object) -> None:
    with pytest.raises(InvalidArgumentError, match="work"):
        CommandTemplate(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["{", "}", "{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:{b}}", "{print $1}"])
def test_what_is_no_field_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match="written twice"):
        CommandTemplate(source)


@pytest.mark.parametrize(
    ("item", "problem"),
    [({"other": 1}, "no 'item'; it has other"), ({}, "no 'item'"), (None, "NoneType"), (b"x", "bytes"), ([1], "list")],
)
def test_an_item_that_cannot_fill_a_field_is_refused(item: object, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        CommandTemplate("echo {item}").command(item)


def test_a_format_that_the_value_does_not_take_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="number"):
        CommandTemplate("echo {number:03d}").command({"number": "seven"})


@pytest.mark.parametrize("source", ["echo {item}", ["echo", "{item}"]])
def test_it_pickles(source: str | list[str]) -> None:
    template = CommandTemplate(source)
    again = pickle.loads(pickle.dumps(template))
    assert again == template
    assert again.command("a b") == template.command("a b")
