"""Shell globs as a shell takes them."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_kit.rules.shellglob import compile_shell_glob

NAMES = (".env", "a", "ab", "abc", "b", "a-c", "a b", "a]", "a[", "a*", "[a]", "[", "-", "A", "a\nb", "1", "!a", "a\\")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (".e*", [".env"]),
        ("*b", ["ab", "b", "a b", "a\nb"]),
        ("a?", ["ab", "a]", "a[", "a*", "a\\"]),
        ("a[bc]", ["ab"]),
        ("a[!bc]", ["a]", "a[", "a*", "a\\"]),
        ("a[^a-z]", ["a]", "a[", "a*", "a\\"]),
        ("a[]]", ["a]"]),
        ("a[\\]]", ["a]"]),
        ("a[", ["a["]),
        ("\\[a\\]", ["[a]"]),
        ("a\\*", ["a*"]),
        ("a**", ["a", "ab", "abc", "a-c", "a b", "a]", "a[", "a*", "a\nb", "a\\"]),
        ("* *", ["a b"]),
        ("[[:alpha:]]", ["a", "b", "[", "-", "A", "1"]),
        ("[z-a]", ["a", "b", "[", "-", "A", "1"]),
        ("[]", []),
        ("[a-]", ["a", "-"]),
        ("[!]", []),
    ],
)
def test_glob_stands_for_names(pattern: str, names: list[str]) -> None:
    regex = compile_shell_glob(pattern)
    assert [name for name in NAMES if regex.fullmatch(name)] == names


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names")
    for name in NAMES:
        (path / name).touch()
    return path


@pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b", "*", "?", "[a-c]", "[!a]", "[]b]", "\\*", "-", "[", "]"]), min_size=1, max_size=4
    )
)
def test_glob_stands_for_what_the_shell_puts_there(directory: Path, parts: list[str]) -> None:
    pattern = "".join(parts)
    script = f"set -- {pattern}; printf '%s\\0' \"$@\""
    done = subprocess.run(["sh", "-c", script], cwd=directory, stdout=subprocess.PIPE, check=True, timeout=20)
    expanded = set(done.stdout.decode().split("\0")[:-1]) & set(NAMES)
    assert expanded <= {name for name in NAMES if compile_shell_glob(pattern).fullmatch(name)}


@given(st.text("a*?[]!^-\\:b\n", max_size=12))
def test_no_glob_is_refused(pattern: str) -> None:
    compile_shell_glob(pattern).fullmatch("ab")


def test_hard_glob_ends_soon() -> None:
    began = time.monotonic()
    assert not compile_shell_glob("*a" * 100 + "*b").fullmatch("a" * 4096)
    assert time.monotonic() - began < 5
