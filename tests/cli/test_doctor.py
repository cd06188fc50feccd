"""``doctor``: what there is, what is missing, and what to install."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .programs import kit, without_bubblewrap


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
