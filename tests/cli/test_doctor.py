"""``doctor``: what there is, what is missing, and what to install."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine.daemon import Engine

from .programs import environment, kit, without_bubblewrap


@pytest.mark.needs("bwrap")
def test_a_machine_that_confines_is_well() -> None:
    done = kit("doctor", "--json")
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert (done.returncode, document["ok"]) == (0, True)
    assert checks["confined commands"]["ok"]
    assert "bubblewrap" in checks["bubblewrap"]["detail"]


def test_what_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    done = kit("doctor", "--json", env=without_bubblewrap(tmp_path))
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert (done.returncode, document["ok"]) == (1, False)
    assert not checks["confined commands"]["ok"]
    assert "apt install bubblewrap" in checks["confined commands"]["detail"]
    assert {name: checks[name]["advice"] for name in ("bubblewrap", "ripgrep", "grep")} == {
        "bubblewrap": "apt install bubblewrap",
        "ripgrep": "apt install ripgrep",
        "grep": "apt install grep",
    }


def test_a_program_that_does_not_work_is_missing(tmp_path: Path) -> None:
    broken = tmp_path / "no-programs" / "rg"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    document = json.loads(kit("doctor", "--json", env=without_bubblewrap(tmp_path)).stdout)
    (ripgrep,) = (check for check in document["checks"] if check["name"] == "ripgrep")
    assert not ripgrep["ok"]
    assert "does not work" in ripgrep["detail"]


def test_the_text_has_a_line_for_every_check(tmp_path: Path) -> None:
    env = without_bubblewrap(tmp_path)
    lines = kit("doctor", env=env).stdout.decode().splitlines()
    names = [check["name"] for check in json.loads(kit("doctor", "--json", env=env).stdout)["checks"]]
    assert [line[8:].partition(":")[0] for line in lines if not line.startswith(" ")] == names
    assert any(line.startswith("MISSING confined commands: ") for line in lines)


def engine_check(env: dict[str, str]) -> dict[str, Any]:
    document = json.loads(kit("doctor", "--json", env=env).stdout)
    (check,) = (check for check in document["checks"] if check["name"] == "Docker engine")
    return dict(check)


def test_an_engine_is_told_of_by_its_version_and_runtimes(engine: Engine) -> None:
    check = engine_check(environment(DOCKER_HOST=engine.host))
    assert (check["ok"], check["needed"], check["advice"]) == (True, False, "")
    assert engine.client().version()["Version"] in check["detail"]
    assert "runc" in check["detail"]


def test_an_engine_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    check = engine_check(environment(DOCKER_HOST=f"unix://{tmp_path}/none.sock"))
    assert (check["ok"], check["needed"]) == (False, False)
    assert "none.sock" in check["detail"]
    assert "DOCKER_HOST" in check["advice"]


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "docker.py").write_text("raise ImportError('no docker here')\n")
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    check = engine_check(environment(PYTHONPATH=path))
    assert (check["ok"], check["advice"]) == (False, "pip install 'sandbox-kit[docker]'")
