"""The environment that commands get."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_kit.backends.local.environment import base_environment, command_environment, encode_environment
from sandbox_kit.errors import InvalidArgumentError


def test_base_is_made_here_and_takes_nothing_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECRET", "LANG", "TERM", "PATH", "HOME"):
        monkeypatch.setenv(name, "of the host")
    base = base_environment("/home/me")
    assert set(base) == {"PATH", "HOME", "LANG", "TERM"}
    assert base["HOME"] == "/home/me"
    assert "of the host" not in base.values()


def test_given_variables_are_added_and_win() -> None:
    assert command_environment("/w", {"A": "1", "HOME": "/other"}) == {
        **base_environment("/w"),
        "A": "1",
        "HOME": "/other",
    }


@pytest.mark.parametrize(
    "env", [{"A=B": "1"}, {"": "1"}, {"A\0": "1"}, {"A": "\0"}, {"A": 1}, {1: "a"}, {"A": None}, {b"A": "1"}]
)
def test_what_no_environment_can_hold_is_refused(env: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        command_environment("/w", env)
    with pytest.raises(InvalidArgumentError):
        encode_environment(env)


def test_undecodable_values_are_kept() -> None:
    assert encode_environment({"A": "\udcff", "B": "é"}) == {b"A": b"\xff", b"B": "é".encode()}
