"""Commands with fields: what an item fills in is a word of its own, and nothing else."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.jobs.template import CommandTemplate

HOSTILE = "`touch hit`$(touch hit)';touch hit;'\";touch hit;\"\ntouch hit\n)touch hit;}\n\\"
"""A value that makes the file ``hit`` wherever a shell takes a part of it for anything but itself."""

SHELLS = [shell for shell in (["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"]) if which(shell[0])] or [
    ["sh"]
]

PIECES = [
    *(
        "'",
        '"',
        "\\",
        " ",
        "#",
        "\n",
        "\\\n",
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
        ">&",
        ";",
    ),
    *("&", "=", "!", "<", "|", "case a in ", " esac", "if :; then ", "; fi"),
]


def run(command: str, directory: Path, shell: Sequence[str] = ("/bin/sh",)) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*shell, "-c", command], cwd=directory, capture_output=True, timeout=30, stdin=subprocess.DEVNULL
    )


def is_harmless(source: str, shell: Sequence[str]) -> bool:
    """Whether no part of a hostile value is carried out, wherever in *source* its field stands."""
    command = CommandTemplate(source).command(HOSTILE)
    assert isinstance(command, str)
    with TemporaryDirectory() as directory:
        run(command, Path(directory), shell)
        return not Path(directory, "hit").exists()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_field_of_a_line_is_one_word(shell: list[str], tmp_path: Path) -> None:
    values = [
        "plain",
        "two words",
        "it's",
        '"',
        "$HOME",
        "a\nb",
        "2",
        "",
        "-n x",
        "`id`",
        "é",
        "*",
        "~",
        "\\",
        "\udcff",
    ]
    items = {f"v{number}": value for number, value in enumerate(values)}
    source = "".join(f"printf '[%s]' {{{name}}}>>out; " for name in items)
    command = CommandTemplate(source).command(items)
    assert isinstance(command, str)
    assert run(command, tmp_path, shell).returncode == 0
    assert (tmp_path / "out").read_bytes() == b"".join(b"[%s]" % os.fsencode(value) for value in values)


@given(st.lists(st.sampled_from([*PIECES, "{item}"]), max_size=12), st.sampled_from(SHELLS))
@settings(max_examples=150)
def test_no_value_ever_leaves_its_word(pieces: list[str], shell: list[str]) -> None:
    try:
        CommandTemplate(source := ": " + "".join(pieces) + " {item}")
    except InvalidArgumentError:
        return
    assert is_harmless(source, shell)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize(
    "source",
    [
        "echo `date`{item}",
        "echo `echo {item}`",
        "echo $(date){item}",
        "echo ${{x:-{item}}}",
        "f() {{ echo {item}; }}; f 1; set -- 2; echo {item}",
        "case {item} in {item}) ;; esac",
        "for x in {item}; do echo $x; done",
        "echo a >{item}",
    ],
)
def test_a_value_is_no_code(source: str, shell: list[str]) -> None:
    assert is_harmless(source, shell)


@pytest.mark.parametrize(
    "source",
    [
        "echo '{item}'",
        'echo "{item}"',
        'echo "a $(echo "{item}")"',
        "cat <<END\n{item}\nEND",
        "cat <\\\n<END\n{item}\nEND",
        "echo $(( {item} + 1 ))",
        "echo $(\\\n( {item} ))",
        "echo $[ {item} ]",
        "echo $'\\' {item}'",
        "echo $'\\'' >& a\\'{item}",
        "echo \\{item}",
        "echo ${item}",
        "echo ${{{item}}}",
        "echo # it is {item}",
        "echo $(date)#'\n{item} '",
        "(echo a)#'\necho >& a\\'{item}",
        "echo \\ #'\n{item} '",
        "echo ${{x#'}} {item}",
        "echo >& {item}",
        "echo >\\\n& {item}",
        "echo >& a{item}",
        "echo >&1{item}",
    ],
)
def test_a_field_where_it_is_no_word_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\{item\} stands (within|after|in) "):
        CommandTemplate(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("cat '-' {item}", "cat '-' {}"),
        ('cp "${{HOME}}/a" {item}', 'cp "${HOME}/a" {}'),
        ('x="$(date)"; echo "$x `id`" {item}', 'x="$(date)"; echo "$x `id`" {}'),
        ("echo $((1 + 1)) {item}", "echo $((1 + 1)) {}"),
        ("echo $(cat {item})", "echo $(cat {})"),
        ("echo it\\'s {item}", "echo it\\'s {}"),
        ("echo a#'b' {item}", "echo a#'b' {}"),
        ("true # don't\necho {item}", "true # don't\necho {}"),
        ("awk '{{print $1}}' {item}", "awk '{print $1}' {}"),
        ("out={item}.txt; cat <in >$out", "out={}.txt; cat <in >$out"),
        ("echo 2>&1 {item} {item}", "echo 2>&1 {} {}"),
    ],
)
def test_other_syntax_stays_as_it_is(source: str, expected: str) -> None:
    assert CommandTemplate(source).command("x") == "__field_1='x'\n" + expected.replace("{}", '"${__field_1}"')


def test_a_line_without_fields_is_as_it_stands() -> None:
    assert CommandTemplate("echo ${{HOME}}").command("x") == "echo ${HOME}"


def test_a_line_may_have_several_fields_each_in_its_format(tmp_path: Path) -> None:
    command = CommandTemplate("echo {n} {name}-{n:03d}.{n}").command({"n": 7, "name": "it's"})
    assert isinstance(command, str)
    assert run(command, tmp_path).stdout == b"7 it's-007.7\n"


@pytest.mark.parametrize("source", ["echo {item} ${{__field_1@P}}", "eval $__field_1 {item}"])
def test_the_variable_of_a_field_is_not_for_the_line(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match="__field_"):
        CommandTemplate(source)


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
