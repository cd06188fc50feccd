"""A command as shell code, run by the shells of this machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sandbox_kit.backends.shell.commands import script
from sandbox_kit.backends.shell.limits import TELL, keeping
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.primitives import Command

from .pipes import SHELLS, PipeDuplex
from .test_loop import run

words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
names = words.filter(lambda name: name != "" and "=" not in name)


@pytest.fixture(scope="module", params=sorted(SHELLS))
def loop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    request.getfixturevalue("needs")(SHELLS[request.param][0])
    duplex = PipeDuplex(SHELLS[request.param], str(tmp_path_factory.mktemp("loop")))
    yield Loop(duplex)
    duplex.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    argv=st.lists(words, min_size=1), env=st.dictionaries(words.filter(lambda n: n and "=" not in n), words, max_size=3)
)
@example(argv=[""], env={"-": "", "-i": "x"})
def test_arguments_and_variables_arrive_as_they_are(loop: Loop, argv: list[str], env: dict[str, str]) -> None:
    command = Command(("printf", r"%s\0", "first", *argv), env={**env, "PATH": "/usr/bin:/bin"})
    code, printed, said = run(loop, script(command, "/"))
    assert (code, said) == (0, b"")
    assert printed == b"".join(word.encode() + b"\0" for word in ("first", *argv))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(text=words, length=st.sampled_from([0, 200_000]))
def test_a_line_is_given_to_a_shell_as_it_is(loop: Loop, text: str, length: int) -> None:
    line = f"printf '%s\n' {shlex.quote(text)}; : {'x' * length}\nexit 3"
    assert run(loop, script(Command((), line=line), "/")) == (3, text.encode() + b"\n", b"")


@pytest.mark.parametrize("directory", ["gone", "link", "file"])
def test_another_directory_starts_nothing(loop: Loop, tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/")
    code, printed, _ = run(loop, script(Command((), line="echo never"), str(tmp_path / directory)))
    assert (code, printed) == (126, b"")


@pytest.mark.parametrize("name", ["", "a=b"])
def test_a_variable_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        script(Command(("true",), env={name: "x"}), "/")


def test_limits_are_set_back(tmp_path: Path) -> None:
    for shell in SHELLS.values():
        duplex = PipeDuplex(shell, str(tmp_path))
        try:
            loop = Loop(duplex)
            _, told, _ = run(loop, f"{{ {TELL}; }} >&8")
            run(loop, keeping(told.decode()))
            assert run(loop, "ulimit -S -n 30; limits; c=$?; ulimit -S -n >&8")[0] == 0
            assert run(loop, f"{{ {TELL}; }} >&8")[1] == told
        finally:
            duplex.close()
