"""Attempts to reach a denied file by a command, each for real: the kernel stops every one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import confine

from .confinement import PATH, SECRET, Denials, Workspace

pytestmark = pytest.mark.needs("bwrap")

CASES: list[dict[str, Any]] = [
    case
    for case in json.loads(Path(__file__).parents[1].joinpath("data", "bypasses.json").read_text())
    if case["op"] == "execute" and "only" not in case
]
STAYS_OPEN = {"cmd-git-objects"}
PROTECTED = (".env", "sub/.env", "private/key.txt", "private/deep/x.txt", "certs/a.pem")


@pytest.fixture(params=[0, 1000], ids=["helped", "by bubblewrap"], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes the mounts: the helper where it works, or bubblewrap."""
    monkeypatch.setattr(confine, "FEW", request.param)


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    for name in PROTECTED:
        workspace.put(name, f"KEY={SECRET}\n")
    workspace.put("ok.txt", "fine")
    return workspace


def rules(workspace: Workspace) -> Denials:
    private = workspace.name("W/private")
    return Denials(deny=(r".*/\.env", r".*/[^/]*\.pem", private))


def attempts(case: dict[str, Any], workspace: Workspace) -> list[str]:
    """The case's calls, each as a command line; what it reads back is read by a command as well."""
    values = {"W": workspace.root, "O": f"{workspace.root}-outside", "N": Path(workspace.root).name}
    lines = []
    for operation, argument in case["attempt"]:
        for key, value in values.items():
            argument = argument.replace("{" + key + "}", value)
        lines.append(f"cat {argument}" if operation == "read" else argument)
    return lines


def plainly(line: str, workspace: Workspace) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=workspace.root,
        env={"PATH": PATH, "HOME": workspace.root},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def set_up(case: dict[str, Any], workspace: Workspace) -> None:
    Path(f"{workspace.root}-outside").mkdir()
    for line in case["setup"]:
        plainly(line, workspace)


def contents(workspace: Workspace) -> dict[str, str | None]:
    paths = {name: Path(workspace.root, name) for name in PROTECTED}
    listing = {"listing": " ".join(sorted(path.name for path in Path(workspace.root, "private").glob("*")))}
    return listing | {name: path.read_text() if path.exists() else None for name, path in paths.items()}


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] not in STAYS_OPEN], ids=lambda case: case["id"])
def test_confined_commands_get_nothing_denied(case: dict[str, Any], filled: Workspace) -> None:
    set_up(case, filled)
    before = contents(filled)
    printed = [filled.run(line, rules(filled)) for line in attempts(case, filled)]
    assert SECRET not in "".join(printed)
    assert contents(filled) == before


@pytest.mark.parametrize("case", [c for c in CASES if not c.get("no_control")], ids=lambda case: case["id"])
def test_the_same_commands_succeed_without_confinement(case: dict[str, Any], filled: Workspace) -> None:
    set_up(case, filled)
    before = contents(filled)
    printed = [plainly(line, filled) for line in attempts(case, filled)]
    assert SECRET in "".join(printed) or contents(filled) != before


def test_a_secret_in_the_history_of_a_repository_is_hidden_with_the_repository(filled: Workspace) -> None:
    case = next(case for case in CASES if case["id"] == "cmd-git-objects")
    set_up(case, filled)
    [line] = attempts(case, filled)
    assert SECRET in filled.run(line, rules(filled))
    assert SECRET not in filled.run(line, Denials(deny=(r".*/\.env", r".*/\.git")))
