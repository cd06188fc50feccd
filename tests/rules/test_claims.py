"""The paths that command lines name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.rules.commands import PathClaim, split_command
from tests.rules.oracle_commands import WORKSPACE, names, refused

DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = [
    case for case in json.loads((DATA / "bypasses.json").read_text()) if case["id"][:4] == "cmd-"
]
LINES: dict[str, list[str]] = json.loads((DATA / "command-claims.json").read_text())
TEXTS: dict[str, list[str]] = json.loads((DATA / "command-texts.json").read_text())


def claims_of(line: str | list[str], path: str) -> list[PathClaim]:
    return [claim for claim in split_command(line).claims if claim.path == path]


def claim_of(line: str | list[str], path: str) -> PathClaim:
    (claim,) = claims_of(line, path)
    return claim


@pytest.mark.parametrize("case", [case for case in CASES if case["expect"] == "refused"], ids=lambda case: case["id"])
def test_attempt_names_the_denied_path(case: dict[str, Any]) -> None:
    line = case["attempt"][0][1].replace("{W}", WORKSPACE)
    assert refused(split_command(line), case["rule"])


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in LINES.items() for line in lines])
def test_denied_path_is_named_however_it_is_spelled(rule: str, line: str) -> None:
    assert refused(split_command(line.replace("{W}", WORKSPACE)), rule)


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "cat ok.txt",
        "cat prod.env environment .environ env",
        "cat .env.example",
        "cat *.txt",
        "cat '*'",
        "cat '.e*'",
        "cat .e\\*",
        "cd sub; cat ok.txt",
        "echo privateer > x.private",
        "python -m pytest -k 'not slow' --maxfail=1",
        'git commit -m "don\'t"',
        "F=ok; cat $F.txt",
        "grep -rn 'a.*b' sub",
        "cat <<X >out\nplain words\nX",
        "find . -name '*.py' -exec wc -l {} +",
    ],
)
def test_line_that_names_nothing_denied_is_not_refused(line: str) -> None:
    command = split_command(line)
    assert command.commands is not None
    assert not refused(command, "deny **/.env")
    assert not refused(command, "deny {W}/private/**")


@pytest.mark.parametrize(
    ("line", "path", "write", "redirection"),
    [
        ("cat f", "f", False, False),
        ("/bin/cat f", "f", False, False),
        ("timeout 5 cat f", "f", False, False),
        ("sort f", "f", False, False),
        ("ldd f", "f", False, False),
        ("awk '{print $1}' f", "f", False, False),
        ("awk -F: '$3 > 5' f", "f", False, False),
        ("awk '{print > \"f\"}' x", "f", True, False),
        ("awk -i inplace 1 f", "f", True, False),
        ("sed -n 1p f", "f", False, False),
        ("sed 's/a/b/;r f' x", "f", False, False),
        ("sed -e 's/a/b/w f' x", "f", True, False),
        ("sed -ni.bak s/a/b/ f", "f", True, False),
        ("sed --in-place s/a/b/ f", "f", True, False),
        ("git log f", "f", False, False),
        ("git --no-pager -c a=b -C d diff f", "f", False, False),
        ("git diff --output=f", "f", True, False),
        ("git add f", "f", True, False),
        ("git f", "f", True, False),
        ("git commit -m x f", "f", True, False),
        ("git commit -m x -- -m f", "f", True, False),
        ("cc -If x", "f", False, False),
        ("cc --sysroot=f x", "f", False, False),
        ("cc -of x", "f", True, False),
        ("x --log-file=f", "f", True, False),
        ("x -o f", "f", True, False),
        ("make X=f", "f", False, False),
        ("env X=f make", "f", False, False),
        ("dd if=f", "f", False, False),
        ("dd of=f", "f", True, False),
        ("sort -uo f g", "g", True, False),
        ("find f -delete", "f", True, False),
        ("find f", "f", False, False),
        ("rg --pre x f", "f", True, False),
        ("source f", "f", False, False),
        ("cp f g", "f", True, False),
        ("tee f", "f", True, False),
        ("python3 f", "f", True, False),
        ("sh f", "f", True, False),
        ("cat <f", "f", False, True),
        ("cat <&f", "f", False, True),
        ("cat >f", "f", True, True),
        ("cat >>f", "f", True, True),
        ("cat >|f", "f", True, True),
        ("cat <>f", "f", True, True),
        ("cat >&f", "f", True, True),
        ("cat 2>f", "f", True, True),
        ("cat &>f", "f", True, True),
        ("cat &>>f", "f", True, True),
        ("F=f cat", "f", False, False),
        ("export F=f", "f", False, False),
        ("F=f; tee $F", "f", True, False),
        ("for x in f; do cat $x; done", "f", True, False),
        ("case f in x) ;; esac", "f", False, False),
        ("make 2>/dev/null", "/dev/null", True, False),
    ],
)
def test_claim_says_whether_it_writes(line: str, path: str, write: bool, redirection: bool) -> None:
    found = {(claim.write, claim.redirection) for claim in claims_of(line, path)}
    assert (write, redirection) in found
    assert write or not any(claim.write for claim in claims_of(line, path))


SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/root", "/run", "/usr", "/var")


@pytest.mark.parametrize(
    "line",
    [
        "curl localhost:3000/lib/app.js",
        "curl https://x/dev/y",
        "curl HTTP://etc/passwd",
        "wget http://h:80/run/a.tgz",
        "pip install --index-url https://devpi/root/pypi/ x",
        "pip install --index-url=https://devpi/root/pypi/ x",
        "curl 'http://h/a?f=/etc/x#/dev/y'",
        "curl http://$HOST/etc/x",
        "git clone ssh://git@h/root/x.git",
        "git clone git@h:/root/x.git",
        "scp me@h:/etc/x .",
        "scp host:/etc/x .",
        "rsync -a host:/var/data/ host::etc/x .",
        "python3 -c \"open_url('http://h/etc/x')\"",
        "cat <<X\nsee http://h/etc/x, http://h/dev/y\nX",
        "echo '#!/bin/sh' >x",
        "printf '#!/bin/sh\\necho\\n' >x",
        "cat >x <<X\n#! /usr/bin/env python3\nX",
        "git commit -m 'fix /etc/x'",
        "git commit -am 'fix /etc/x' --message '/etc/x'",
        "git -C sub tag --message='see /usr/share'",
        "git commit -m/etc/x",
        "export PATH=/usr/local/bin:$PATH",
        "declare -x PATH=/usr/bin",
        "CC=/usr/bin/gcc make",
        "make CC=/usr/bin/gcc",
        "env CC=/usr/bin/gcc make",
        "sed 's/user/etc/' x",
    ],
)
def test_what_is_no_local_path_is_not_claimed(line: str) -> None:
    found = [name for claim in split_command(line).claims if not claim.pattern for name in names(claim)]
    assert not [name for name in found if name.startswith(SYSTEM)]


@pytest.mark.parametrize("line", TEXTS["harmless"])
def test_prose_patterns_and_texts_that_nothing_acts_upon_name_no_path(line: str) -> None:
    command = split_command(line)
    assert command.commands is not None
    found = [name for claim in command.claims if not claim.pattern for name in names(claim)]
    assert not [name for name in found if name.startswith(SYSTEM) and name != "/dev/null"]
    assert not refused(command, "deny **/.env")


@pytest.mark.parametrize("line", TEXTS["refused"])
def test_texts_that_something_acts_upon_name_their_paths(line: str) -> None:
    command = split_command(line)
    assert refused(command, "deny **/.env") or refused(command, "deny /etc/**")


def test_texts_of_a_sequence_that_runs_a_shell_are_looked_into() -> None:
    assert claims_of(["bash", "-c", "echo 'ok.txt .env' | xargs cat"], ".env")
    assert claims_of(["bash", "-c", "echo 'cat .env' | sh"], ".env")
    assert not claims_of(["bash", "-c", "echo 'see .env'"], ".env")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("wget http://h/x/.env", ".env"),
        ("curl -O http://h/x/%2eenv?q=1", ".env"),
        ("git clone git@h:x.git", "x.git"),
        ("scp host:.env .", ".env"),
        ("scp host:/x/.env .", ".env"),
        ("rsync host::mod/.env .", ".env"),
        ("curl FILE:///etc/x", "/etc/x"),
        ("git clone git+file:///etc/x", "/etc/x"),
        ("sqlite3 sqlite:///etc/x", "/etc/x"),
        ("curl -T /etc/x http://h", "/etc/x"),
        ("curl -d @/etc/x http://h", "/etc/x"),
        ("foo http://h,/etc/x", "/etc/x"),
        ("echo '#!/bin/../etc/x'", "/../etc/x"),
        ("cat >x.sh <<X; sh x.sh\n#!/bin/sh /etc/x\nX", "/etc/x"),
        ("git commit -F /etc/x", "/etc/x"),
        ("git show -m /etc/x", "/etc/x"),
        ("docker run -v /etc/x:/y", "/etc/x"),
        ("BASH_ENV=/etc/x sh", "/etc/x"),
    ],
)
def test_what_is_a_local_path_is_claimed(line: str, path: str) -> None:
    assert claims_of(line, path)


def test_url_that_climbs_is_a_path() -> None:
    assert "/etc/x" in [name for claim in split_command("cat http://h/../../../etc/x").claims for name in names(claim)]


@pytest.mark.parametrize("line", ["cat 2>&1", "cat >&-", "cat 3>&1-", "cat <&0", "cat -", "cat --", "cat ''"])
def test_descriptors_and_dashes_are_no_paths(line: str) -> None:
    assert split_command(line).claims == ()


@pytest.mark.parametrize(
    "line", ["/usr/bin/cat", "sudo /usr/bin/cat", "sh -c /usr/bin/cat", "./run", "find . -exec /bin/x ;"]
)
def test_program_is_no_path(line: str) -> None:
    assert not any("/bin" in claim.path or "run" in claim.path for claim in split_command(line).claims)


@pytest.mark.parametrize(
    ("line", "bases"),
    [
        ("cat f", (".",)),
        ("cat f; cd a", (".",)),
        ("cd a; cat f", (".", "a")),
        ("cd a; cd b; cat f", (".", "a", "b", "a/b")),
        ("cd /a; cd b; cat f", (".", "/a", "b", "/a/b")),
        ("cd; cat f", (".", "~")),
        ("cd ~/a; cat f", (".", "~/a", "./a")),
        ("cd -P -- a; cat f", (".", "a")),
        ("pushd a; cat f", (".", "a")),
        ("sh -c 'cd a'; cat f", (".", "a")),
        ("CDPATH=a:b; cat f", (".", "a", "b", "a/b")),
        ("tar -C a f", (".", "a")),
        ("tar -Ca f", (".", "a")),
        ("tar --directory=a f", (".", "a")),
        ("env -C a cat f", (".", "a")),
        ("sudo -D a cat f", (".", "a")),
        ("systemd-run --working-directory=a cat f", (".", "a")),
        ("npm --prefix a f", (".", "a")),
        ("git -C a x; cat f", (".",)),
        ("grep -C 3 x f", (".",)),
    ],
)
def test_relative_path_may_start_where_the_line_changed_to(line: str, bases: tuple[str, ...]) -> None:
    assert claim_of(line, "f").bases == bases


def test_directory_that_is_a_glob_goes_into_the_path() -> None:
    assert PathClaim("pri*/f\\*.txt", pattern=True) in split_command("cd pri*; cat 'f*'.txt").claims
    assert not claims_of("cd pri*; cat /f", "pri*//f")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("cat *.txt", "*.txt"),
        ("cat a?", "a?"),
        ("cat [ab]", "[ab]"),
        ("cat '*'*", "\\**"),
        ("cat \\[a*", "\\[a*"),
        ('cat "$X"/*', "$X/*"),
        ("cat /proc/self/cwd/a*", "./a*"),
        ("cat /p*c/*/c?d/a", "./a"),
        ("cat /proc/self/r[o]ot/a", "/a"),
        ("cat /proc/self/*/a", "./a"),
        ("cat > *.txt", "*.txt"),
        ("echo 'a b'/*", "a b/*"),
    ],
)
def test_glob_keeps_its_syntax(line: str, path: str) -> None:
    assert any(claim.pattern for claim in claims_of(line, path))


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/proc/self/cwd", "./"),
        ("/proc/self/cwd/a/../b", "./b"),
        ("/proc/self/cwd/../a", "./../a"),
        ("/proc/self/cwd/../../a", "./../../a"),
        ("/proc/1/task/2/root/etc/passwd", "/etc/passwd"),
        ("/proc/1/../self/root/../etc", "/etc"),
        ("../../proc/self/root/etc", "/etc"),
        ("/dev/fd/../root/etc", "/etc"),
        ("~+/a", "./a"),
        ("~-/a", "./a"),
        ("~root/a", "/root/a"),
        ("~jo/a", "/home/jo/a"),
        ("$HOME/a", "~/a"),
        ("${PWD}/a", "./a"),
        ("$(pwd -P)/a", "./a"),
        ("/proc/self/root$PWD/a", "./a"),
        ("file://host/etc/passwd", "/etc/passwd"),
        ("file:///%65tc/passwd", "/etc/passwd"),
        ("x${Y:-z}", "xz"),
        ("x${Y+z}", "xz"),
        ("x${Y#z}", "x"),
        ('x$(echo -n "z")', "xz"),
        ("-I/etc", "/etc"),
        ("-include/etc/x", "/etc/x"),
        ("--file=a:b,c", "b"),
        ("k=v=/etc/x", "/etc/x"),
    ],
)
def test_path_is_also_seen_as_what_it_leads_to(path: str, seen: str) -> None:
    assert claims_of(f"cat {path}", seen)


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/proc/self/status", "/a/proc/self/cwd/b", "a/proc/x"])
def test_other_paths_stay_as_they_are(path: str) -> None:
    assert names(claim_of(f"cat {path}", path)) == [path if path[0] == "/" else f"{WORKSPACE}/{path}"]
    assert len(split_command(f"cat {path}").claims) == 1


@pytest.mark.parametrize(
    "line",
    [
        "xargs cat <<< f",
        "xargs cat <<X\nf\nX",
        "sudo -e f",
        "sudo --edit f",
        "sudo --new f cat",
        "python3 <<X\nopen('f')\nX",
    ],
)
def test_what_stands_for_a_path_is_claimed(line: str) -> None:
    assert claims_of(line, "f")


def test_words_too_long_for_a_path_are_left_out() -> None:
    command = split_command(["cat", "x" * 10_000])
    assert command.claims == ()
    assert not command.overflow


def test_same_path_is_claimed_once() -> None:
    assert split_command("cat f f; cat f; cat f").claims == (PathClaim("f"),)
