"""Command lines taken apart: simple commands, and what cannot be split."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_kit.rules.commands import READERS, CommandLine, split_command


def texts(line: str) -> list[str]:
    """The first text of each simple command."""
    commands = split_command(line).commands
    assert commands is not None, line
    return [command.texts[0] for command in commands]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("  # only a comment", []),
        ("ls -la", ["ls -la"]),
        ("a;b&c&&d||e|f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("a |& b", ["a", "b"]),
        ("a # b; c\nd", ["a", "d"]),
        ("a#b ; c", ["a#b", "c"]),
        ("git log && cat .env", ["git log", "cat .env"]),
        ("echo a\ncat .env", ["echo a", "cat .env"]),
        ("r''m -\"r\"f \\/", ["rm -rf /"]),
        ("r\\\nm x", ["rm x"]),
        ("\\\n rm x", ["rm x"]),
        ("rm \\\n\tx", ["rm x"]),
        ("A=1 B='2 3' rm x", ["rm x"]),
        ("A=1", []),
        ("A=1 >f", []),
        ("PATH=. git log", ["PATH=.", "git log"]),
        ("LD_PRELOAD=./x.so git log", ["LD_PRELOAD=./x.so", "git log"]),
        ("BASH_ENV=x; a", ["BASH_ENV=x", "a"]),
        ("'A'=1 x", ["A=1 x"]),
        ("a=(x y) b", ["b"]),
        ("a=(x # c\n $(y)\n'z' )\nb", ["y", "b"]),
        ("a[1]=x b", ["b"]),
        (">f a <g 2>&1 b", ["a b"]),
        ("a 2>f", ["a"]),
        ("a 2 >f", ["a 2"]),
        ("a '2'>f", ["a 2"]),
        ("a >&2 <&- 3>&1- b", ["a b"]),
        ("(a; (b))", ["a", "b"]),
        ("{ a; }", ["a"]),
        ("! a", ["a"]),
        ("time -p y=1 a; time (b); time -- { c; }; time", ["a", "b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done", ["a", "b"]),
        ("until a\ndo b\ndone", ["a", "b"]),
        ("for x in a b; do c; done", ["c"]),
        ("for x do c; done", ["c"]),
        ("for x; do c; done", ["c"]),
        ("for x { c; }", ["c"]),
        ("for x\nin a b\ndo c; done", ["c"]),
        ("for x in do a; do c; done", ["c"]),
        ("for ((i=0; i<3; i++)); do c; done", ["c"]),
        ("for ((;;)) do c; done", ["c"]),
        ("select x in a; do c; done", ["c"]),
        ("case x in a) b;; (c|d) e;& f) g; esac; h", ["b", "e", "g", "h"]),
        ("case x\nin\na) b\n;;\nesac\nc", ["b", "c"]),
        ("case $(a) in esac", ["a"]),
        ("case x in esac | a", ["a"]),
        ("$(case x in a) b;; esac)", ["b", "$(case x in a) b;; esac)"]),
        ("f() { a; }; b", ["a", "b"]),
        ("f ( ) ( a )", ["a"]),
        ("f()\n{ a; }", ["a"]),
        ("function f { a; }", ["a"]),
        ("function f() { a; }", ["a"]),
        ("echo if then", ["echo if then"]),
        ("'if' a", ["if a"]),
        ("[[ a && b || ( c < d ) ]] && e", ["[[ a b c d ]]", "e", "[[ a", "b", "c", "]]"]),
        ("[[ -f x ]]", ["[[ -f x ]]"]),
        ("((a = 1 << 2)); b", ["b", "a = 1"]),
        ("echo $((1 + (2 * 3))) $(( $(a) ))", ["a", "echo $((1 + (2 * 3))) $(( $(a) ))"]),
        ("echo $(a $(b))", ["b", "a $(b)", "echo $(a $(b))"]),
        ("echo `a \\`b\\``", ["b", "a `b`", "echo `a \\`b\\``"]),
        ("$\\\n(a) b", ["a", "$\\\n(a) b", "b"]),
        ('"$(a)"', ["a", "$(a)"]),
        ('echo "`a \\"x y\\"`"', ["a x y", 'echo `a \\"x y\\"`']),
        ("a <(b) >(c)", ["b", "c", "a <(b) >(c)"]),
        ("a < <(b)", ["b", "a <(b)"]),
        ("a <<X\n$(b)\nX\nc", ["a", "b", "c"]),
        ("a <<'X'\n$(b)\nX\nc", ["a", "c"]),
        ("a <<-X\n\tb\n\tX\nc", ["a", "c"]),
        ("a <<X <<Y\n1\nX\n2\nY\nc", ["a", "c"]),
        ("a <<X; b\n1\nX\nc", ["a", "b", "c"]),
        ("a <<X\nb\\\nX\nX\nc", ["a", "c"]),
        ('a <<X\n`b` \\$(c) "d"\nX', ["a", "b"]),
        ("a <<X", ["a"]),
        ("a <<X\nb", ["a"]),
        ("while a; do b; done <<X\nc\nX", ["a", "b"]),
        ("$(a <<X\nb\nX\n)", ["a", "$(a <<X\nb\nX\n)"]),
        ("a <<<b", ["a"]),
        ("a &>f b", ["a b", "a", "b"]),
        ("{a,-b} {1..3} x{,y}", ["a -b 1 2 3 x xy"]),
        ("a {x} {} {x,{y,z}w} {c..a} {01..03} {1..5..2}", ["a {x} {} x yw zw c b a 01 02 03 1 3 5"]),
        ("a '{x,y}' {x\\,y} {x,y", ["a {x,y} {x,y} {x,y"]),
        ("a {$x,b}", ["a $x b"]),
        (
            "$'\\x61\\142' $'\\u00e9\\U0001F600\\n\\q\\cA'",
            ["ab é😀\nq\x01", "$\\x61\\142 $\\u00e9\\U0001F600\\n\\q\\cA"],
        ),
        ("$'\\xc3\\xa9' $'a\\0b'", ["é a", "$\\xc3\\xa9 $a\\0b"]),
        ('$"a"', ["a"]),
        ("a $", ["a $"]),
        ("a \\", ["a \\"]),
        ('a "b\\q\\$\\\nc"', ["a b\\q$c"]),
        ("a ${x:-'b c'}", ["a ${x:-'b c'}", "a b c"]),
        ('a ${x:+"b\\}"}', ['a ${x:+"b\\}"}', "a b}"]),
        ('a "${x:-$(b)}"', ["b", "a ${x:-$(b)}", "a $(b)"]),
        ("X='rm -rf /'; $X", ["$X", "rm -rf /"]),
        ("$UNSET rm x", ["$UNSET rm x", "rm x"]),
        ("$A $B", ["$A $B"]),
        ("rm${IFS}x", ["rm${IFS}x", "rm x"]),
        ("r$@m x", ["r$@m x", "rm x"]),
        ("rm -rf $DIR/", ["rm -rf $DIR/", "rm -rf /"]),
        ("A=a; A+=b; $A c", ["$A c", "ab c"]),
        ("export A=a; $A", ["export A=a", "$A", "a"]),
        ("A=; $A b", ["$A b", "b"]),
        ("A=' '; $A b", ["$A b", "b"]),
    ],
)
def test_line_is_split_into_simple_commands(line: str, expected: list[str]) -> None:
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        *((f"{shell} -c 'rm x'", "rm x") for shell in ("sh", "bash", "dash", "zsh", "ash", "ksh", "/bin/sh", "-sh")),
        ("bash -ec 'rm x'", "rm x"),
        ("bash -lc 'rm x'", "rm x"),
        ("bash -e -c 'rm x'", "rm x"),
        ("bash -c -e 'rm x'", "rm x"),
        ("bash +e -c -- 'rm x'", "rm x"),
        ("bash -c - 'rm x'", "rm x"),
        ("bash -euo pipefail -c 'rm x'", "rm x"),
        ("bash --rcfile f --norc -c 'rm x' y", "rm x"),
        ("sh -c \"sh -c 'rm x'\"", "rm x"),
        ("sh <<X\nrm x\nX", "rm x"),
        ("sh -s y <<X\nrm x\nX", "rm x"),
        ("sh <<< 'rm x'", "rm x"),
        ("cat <<X | sh\nrm x\nX", "rm x"),
        ("{ sh; } <<X\nrm x\nX", "rm x"),
        ("echo rm x | bash", "rm x"),
        ("printf 'r\\155 x' | bash -s", "rm x"),
        ("sudo sh <<X\nrm x\nX", "rm x"),
        ("sudo rm x", "rm x"),
        ("sudo -u root -n rm x", "rm x"),
        ("sudo -nu root rm x", "rm x"),
        ("sudo -uroot A=1 rm x", "rm x"),
        ("sudo --user root -- rm x", "rm x"),
        ("sudo --user=root rm x", "rm x"),
        ("sudo -u root -- A=1 rm x", "rm x"),
        ("env -i -u Y A=1 rm x", "rm x"),
        ("env -S 'rm x'", "rm x"),
        ("env -S'rm x' y", "rm x y"),
        ("env -iS rm x", "rm x"),
        ("env --split-string='rm x'", "rm x"),
        ("eval rm x", "rm x"),
        ("eval 'rm' \"x\"", "rm x"),
        ("nohup nice -n 5 timeout -k 1 -s KILL 9 rm x", "rm x"),
        ("stdbuf -oL rm x", "rm x"),
        ("/usr/bin/time -p -o f rm x", "rm x"),
        ("time -o f rm x", "rm x"),
        ("sudo $UNSET rm x", "rm x"),
        ("xargs -0 -n 1 rm x", "rm x"),
        ("busybox rm x", "rm x"),
        ("busybox sh -c 'rm x'", "rm x"),
        ("command rm x", "rm x"),
        ("exec -a y rm x", "rm x"),
        ("flock f rm x", "rm x"),
        ("flock f -c 'rm x'", "rm x"),
        ("su root -c 'rm x'", "rm x"),
        ("su --command='rm x'", "rm x"),
        ("script -qc 'rm x' f", "rm x"),
        ("ssh -p 22 host rm x", "rm x"),
        ("watch -n 1 rm x", "rm x"),
        ("trap 'rm x' EXIT", "rm x"),
        ("alias y='rm x'", "rm x"),
        ("parallel rm x", "rm x"),
        ("find . -name y -exec rm x ; -print", "rm x"),
        ("find . -ok rm x \\;", "rm x"),
        ("find . -exec a {} + -execdir rm x", "rm x"),
        ("fd y -x rm x", "rm x"),
        ("X=sh; $X -c 'rm x'", "rm x"),
        ("X='sh -c'; $X 'rm x'", "rm x"),
    ],
)
def test_command_inside_a_command_comes_out_as_its_own(line: str, inner: str) -> None:
    assert inner in texts(line)


@pytest.mark.parametrize(
    "line", ["sh script", "sh -c", "sudo", "sudo -u", "find . -exec", "env -S", "eval", "su -c", "ssh h"]
)
def test_wrapper_without_an_inner_command_is_itself_alone(line: str) -> None:
    assert texts(line) == [line]


def test_program_is_seen_by_its_basename_too() -> None:
    commands = split_command("/usr/bin/git log /x/y").commands
    assert commands is not None
    assert commands[0].words == ("/usr/bin/git", "log", "/x/y")
    assert commands[0].texts == ("/usr/bin/git log /x/y", "git log /x/y")


def test_words_of_a_sequence_are_not_shell_text() -> None:
    command = split_command(["echo", "a;b", "$(c)", "*", ""])
    assert command.line == "echo a;b $(c) * "
    assert [simple.words for simple in command.commands or ()] == [("echo", "a;b", "$(c)", "*", "")]
    assert not any(claim.pattern for claim in command.claims)


def test_sequence_that_runs_a_shell_is_looked_into() -> None:
    command = split_command(["sh", "-c", "rm x"])
    assert [simple.texts[0] for simple in command.commands or ()] == ["sh -c rm x", "rm x"]


def test_nothing_is_no_command() -> None:
    assert split_command([]) == CommandLine("", (), (), ())


BROKEN = [
    "a 'b",
    'a "b',
    "a `b",
    "a $'b",
    "a `b\\",
    "a $'b\\",
    "a $(b",
    "a ${b",
    'a "${b',
    "a $((b",
    "a $((b)",
    "a )",
    "( a",
    "$(( a) )",
    "((a)",
    "case x in a) b",
    "case x in a",
    "case x in a & b) c;; esac",
    "case x in a <f) b;; esac",
    "a ;; b",
    "esac",
    "a (b)",
    "a b()",
    "A=1 f() b",
    "a=(b",
    "a=(b; c)",
    "a >",
    "a > ;",
    "a > #b",
    "a <<",
    "a <<$X\nX",
    "$(a <<X)\nb\nX",
    "a <<X $(b\n)\nX",
    "a <<X\nb\\\nX\nX\\\n\nX",
    "a <<X\n\\\nX\n",
    "a <<X\n$(\nX\nb\n)\nX",
    "[[ a",
    "[[ a ; b ]]",
    "[[ a\nb ]]",
    "$[1]",
    "${ a; }",
    "${|a; }",
    "\"${x:-'y'}\"",
    "$(( 'a' ))",
    "coproc a",
    "a " + "''" * 20_000,
    'a "' + "$x" * 20_000 + '"',
    "a\0b",
    "a {1..9999}",
    "a {" + ",".join("x" * 2000) + "}",
    "a " + "{a,b}" * 12,
    "a " + "{a," * 40 + "}" * 40,
    "a {b," + "c" * 600_000 + "}d",
    "a " + "$x" * 300 + "$y",
    "sh -c 'a \"'",
    "$(" * 40 + ")" * 40,
    "${x:-" * 40 + "}" * 40,
    "eval " * 40 + "a",
    "sudo " * 40 + "a",
    "a " * 20_000,
    "[[ " + "a " * 20_000 + "]]",
    "a=(" + "a " * 20_000 + ")",
    "A=" + "x" * 4000 + "; " + ("a " + "$A" * 200 + "\n") * 3,
    ":; " + "cat <<X\n`a`\nX\n" * 5000,
    "cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd h",
]


@pytest.mark.parametrize("line", BROKEN, ids=lambda line: repr(line[:30]))
def test_what_cannot_be_split_has_no_commands(line: str) -> None:
    assert split_command(line).commands is None


@pytest.mark.parametrize(
    ("line", "candidate"),
    [
        ("rm -rf / '", "rm -rf /"),
        ("a; r''m -rf / \"", "rm -rf /"),
        ("A=1 rm x )", "rm x"),
        ("sudo rm x $[1]", "rm x"),
        ("sh -c 'rm x' \"", "rm x"),
        ('bash -c "rm x', "rm x"),
        ("$'r\\x6d' x \"", "$rm x"),
        ("eval eval eval rm x '", "eval eval eval rm x"),
    ],
)
def test_broken_line_still_shows_what_to_deny(line: str, candidate: str) -> None:
    command = split_command(line)
    assert command.commands is None
    assert any(text.startswith(candidate) for simple in command.candidates for text in simple.texts)


def test_shells_that_read_a_line_differently_are_both_heard() -> None:
    quoted_in_bash = "echo $'a\\'; rm -rf / #'"
    assert "rm -rf /" in texts(quoted_in_bash)
    assert "rm -rf /" not in texts(f"bash -c {shlex.quote(quoted_in_bash)}")[1:]
    assert "rm -rf /" in texts(f"dash -c {shlex.quote(quoted_in_bash)}")
    assert "rm x" in texts("a &>f rm x")


@pytest.mark.parametrize("unit", ["a ", "'a'", "$(", "{a,b}", "\\", "$A", "cd a;", "<a ", "<", "`\\`"])
def test_huge_line_ends_soon(unit: str) -> None:
    began = time.monotonic()
    split_command(unit * (2**20 // len(unit)))
    assert time.monotonic() - began < 20


def test_huge_line_of_many_paths_overflows() -> None:
    command = split_command("cat " + " ".join(f"f{number}" for number in range(12_000)))
    assert command.overflow
    assert command.commands is None


def test_huge_broken_line_overflows() -> None:
    assert split_command("a '" + "x" * 300_000).overflow


def test_broken_line_of_many_paths_overflows() -> None:
    assert split_command("a ' " + " ".join(f"f{number}" for number in range(12_000))).overflow


def test_readers_never_write() -> None:
    assert {"cat", "grep", "head", "ls"} <= READERS
    assert not {"tee", "cp", "dd", "xargs", "python3", "uniq", "git", "tar", "sh"} & READERS


PLAIN_WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=5)


@given(PLAIN_WORDS)
def test_quoted_words_come_back(words: list[str]) -> None:
    commands = split_command("x " + shlex.join(words)).commands
    assert commands is not None
    assert list(commands[0].words) == ["x", *words]


@given(st.lists(st.text("ab'\"\\ \n", max_size=6), min_size=1, max_size=4).map(" ".join))
def test_words_agree_with_shlex(line: str) -> None:
    line = "x " + line.replace("\n", " ").strip()
    try:
        expected = shlex.split(line)
    except ValueError:
        expected = None
    commands = split_command(line).commands
    if expected is not None:
        assert [list(command.words) for command in commands or ()] == [expected]


FRAGMENTS = st.one_of(
    st.text("abc./-_=%@", min_size=1, max_size=4),
    st.text('ab $`"\\;|&*#\n{},', max_size=5).map(lambda text: f"'{text}'"),
    st.text("ab ;|&*#'\n{},", max_size=5).map(lambda text: f'"{text}"'),
    st.sampled_from(["\\ ", "\\'", "\\\\", "\\$", "\\;", "\\\n", '"\\$"', '"\\`"', '"\\a"', '"\\\n"', "\\#", "a#"]),
)
WORDS = st.lists(st.lists(FRAGMENTS, min_size=1, max_size=4).map("".join), min_size=1, max_size=4)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell")
@settings(max_examples=60, deadline=None)
@given(WORDS)
def test_words_agree_with_the_shell(words: list[str]) -> None:
    line = "printf '%s\\0' x" + "".join(f" {word}" for word in words)
    done = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, check=True, timeout=20)
    commands = split_command(line).commands
    assert commands is not None
    assert list(commands[0].words[2:]) == done.stdout.decode().split("\0")[:-1]


TOKENS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "c x",
            "a 'q'",
            'b "r"',
            ";",
            "&&",
            "||",
            "|",
            "\n",
            "(",
            ")",
            "{ ",
            ";}",
            "$(",
            "`",
            "'",
            '"',
            "\\",
            " # ",
        ),
        *(
            "<<X\n",
            "<<'X'\n",
            "\nX\n",
            "case x in ",
            "x)",
            ";;",
            " esac ",
            " if ",
            " then ",
            " fi ",
            "$'",
            "\\'",
            "((",
            "))",
        ),
        *(
            "[[ ",
            " ]]",
            "&>o ",
            "f() ",
            " do ",
            " done ",
            "for x in 1; do ",
            "${x:-",
            "}",
            "$((",
            "y=1 ",
            ">o ",
            "!",
            "\\\n",
        ),
    ]
)
RECORD = "; ".join(f"{name}() {{ echo @{name} >&2; return 1; }}" for name in "abc")


@given(st.one_of(st.text(), st.lists(TOKENS, max_size=12).map("".join)))
def test_no_text_makes_it_raise(text: str) -> None:
    assert split_command(text).line == text
    assert split_command([text]).line == text


@pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell")
@settings(max_examples=100, deadline=None)
@given(st.lists(TOKENS, min_size=2, max_size=8).map("".join))
def test_no_command_that_a_shell_runs_is_missed(tmp_path_factory: pytest.TempPathFactory, line: str) -> None:
    commands = split_command(line).commands
    if commands is None:
        return
    found = {command.words[0] for command in commands}
    script = f"ulimit -t 2\n{RECORD}\n{line}"
    environment = {"PATH": "/nowhere"}
    done = subprocess.run(
        [shutil.which("sh") or "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        env=environment,
        cwd=tmp_path_factory.getbasetemp(),
        check=False,
    )
    ran = {line[1:] for line in done.stderr.decode().splitlines() if line.startswith("@")}
    assert ran <= found


def test_the_same_words_as_text_and_as_a_sequence_are_told_apart_each_time() -> None:
    for _ in range(2):
        text, words = split_command("cat a;b"), split_command(["cat", "a;b"])
        assert (text.commands, words.commands) != (words.commands, text.commands)
        assert split_command(["cat a;b"]).commands != words.commands


def test_a_sequence_that_changes_is_read_anew() -> None:
    words = ["cat", "a"]
    split_command(words)
    words[1] = "b"
    assert split_command(words).line == "cat b"
