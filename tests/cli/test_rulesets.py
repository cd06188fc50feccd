"""``rules``: documents are validated whole, presets shown whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox_kit import PRESETS, PermissionRule, PermissionRuleset, PresetRow, preset_table
from sandbox_kit.cli import main

Printed = pytest.CaptureFixture[str]

BROKEN = {"rules": [{"pattern": "a[", "action": "deny"}, {"pattern": "b", "action": "forbid"}], "reed": "deny"}


def test_a_ruleset_is_valid(tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "rules.json"
    path.write_text('{"default": "deny"}')
    assert main(["rules", "validate", str(path)]) == 0
    assert capsys.readouterr() == (f"{path}: valid\n", "")


def test_every_problem_is_told_one_a_line(tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(BROKEN))
    assert main(["rules", "validate", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    problems = printed.err.splitlines()
    assert len(problems) == 3
    assert all(problem.startswith(f"sandbox-kit: {path}: ") for problem in problems)
    assert {place for place in ("rules[0].pattern", "rules[1].action", "reed") if place in printed.err} == {
        "rules[0].pattern",
        "rules[1].action",
        "reed",
    }


@pytest.mark.parametrize(("document", "code"), [({"default": "allow"}, 0), (BROKEN, 1)], ids=["valid", "broken"])
def test_validation_as_json(tmp_path: Path, document: object, code: int, capsys: Printed) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(document))
    assert main(["rules", "validate", "--json", str(path)]) == code
    answer = json.loads(capsys.readouterr().out)
    assert (answer["valid"], len(answer["problems"])) == (code == 0, 3 * code)


def test_a_broken_ruleset_stops_any_command(tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(BROKEN))
    assert main(["ls", "--root", str(tmp_path), "--rules", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 3
    assert all(line.startswith(f"sandbox-kit: {path}: ") for line in printed.err.splitlines())


def test_a_document_that_is_missing_is_a_usage_error(tmp_path: Path, capsys: Printed) -> None:
    assert main(["rules", "validate", str(tmp_path / "missing.json")]) == 2
    assert "missing.json: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_as_json_is_a_document_that_means_the_same(name: str, capsys: Printed) -> None:
    assert main(["rules", "show", "--json", name]) == 0
    assert PermissionRuleset.from_dict(json.loads(capsys.readouterr().out)) == PRESETS[name]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_as_text_has_every_verdict_and_rule(name: str, capsys: Printed) -> None:
    assert main(["rules", "show", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = dict(line.split(": ") for line in lines if not line.startswith(" "))
    verdicts = {operation: said for operations, said in heads.items() for operation in operations.split(", ")}
    assert verdicts == {row.operation: told(row) for row in preset_table() if row.preset == name}
    shown = {tuple(line.split("  #")[0].split(maxsplit=1)) for line in lines if line.startswith(" ")}
    rules = {(rule.action, rule.pattern) for each in ("read", "write", "execute") for rule in rules_of(name, each)}
    assert shown == rules


def told(row: PresetRow) -> str:
    targets = (
        f"{row.workspace} on a harmless command, {row.system} on one that removes the system tree"
        if row.operation == "execute"
        else f"{row.workspace} in the workspace, {row.secret} on credentials, {row.system} in the system tree"
    )
    return f"{row.default} by default, {targets}"


def rules_of(name: str, operation: str) -> tuple[PermissionRule, ...]:
    own = {"read": PRESETS[name].read, "write": PRESETS[name].write, "execute": PRESETS[name].execute}[operation]
    return own.rules if own else ()


def test_common_rules_are_shown_once(tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rules]]\npattern = "x"\naction = "deny"\ndescription = "no"\n')
    assert main(["rules", "show", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "read, write, edit, ls, glob, grep: allow by default",
        "execute: allow by default",
        "every path operation, after its own rules:",
        "  deny  x  # no",
    ]
