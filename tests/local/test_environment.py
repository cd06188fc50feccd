"""The environment that commands get."""

from __future__ import annotations

import sys

import pytest

from sandbox_kit.backends.local.environment import PATH, base_environment, command_environment, encode_environment


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


@pytest.mark.parametrize("own", ["/opt/venv/bin", "/home/me/.venv/bin"])
def test_this_python_is_found_before_every_other(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{own}/python3")
    assert base_environment("/w")["PATH"] == f"{own}:{PATH}"


@pytest.mark.parametrize("own", ["/usr/bin", "/usr/local/bin", "/odd:place/bin", "relative"])
def test_path_is_the_standard_one_where_this_python_adds_nothing(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{own}/python3")
    assert base_environment("/w")["PATH"] == PATH


def test_a_program_that_embeds_python_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/editor/bin/editor")
    monkeypatch.setattr(sys, "base_exec_prefix", "/opt/python")
    assert base_environment("/w")["PATH"] == f"/opt/python/bin:{PATH}"


def test_undecodable_values_are_kept() -> None:
    assert encode_environment({"A": "\udcff", "B": "é"}) == {b"A": b"\xff", b"B": "é".encode()}
