"""``check``: which rule decides, by which name, and why."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import Backend, LocalBackend, PermissionDeniedError, PermissionRuleset, guarding
from sandbox_kit.backends.local.confine import obstacle
from sandbox_kit.cli import main
from sandbox_kit.cli.exits import ExitCode

from .programs import kit, without_bubblewrap

RULES = """
default = "allow"

[[rules]]
pattern = "**/.env"
action = "deny"

[[rules]]
pattern = "private/**"
action = "ask"

[write]
default = "deny"

[[write.rules]]
pattern = "src/**"
action = "allow"

[[execute.rules]]
pattern = "rm *"
action = "deny"
"""

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def check(project: Path, tmp_path: Path, capsys: Printed) -> Any:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    def check(*arguments: str) -> tuple[int, dict[str, Any]]:
        options = ["check", "--json", "--root", str(project), "--rules", str(rules), "--commands", "inspected"]
        code = main([*options, *arguments])
        return code, json.loads(capsys.readouterr().out)

    return check


@pytest.mark.parametrize(
    ("arguments", "code", "action", "rule", "name", "why"),
    [
        (("read", "notes.txt"), 0, "allow", None, "notes.txt", "the path as typed"),
        (("read", "./src/../notes.txt"), 0, "allow", None, "notes.txt", "the path as typed"),
        (("read", ".env"), 1, "deny", "deny **/.env", ".env", "the path as typed"),
        (("read", "missing/.env"), 1, "deny", "deny **/.env", "missing/.env", "the path as typed"),
        (("read", "link"), 1, "deny", "deny **/.env", ".env", "where the path really leads"),
        (("ls", "link"), 1, "deny", "deny **/.env", ".env", "where the path really leads"),
        (("read", "private/key"), 1, "ask", "ask private/**", "private/key", "the path as typed"),
        (("write", "notes.txt"), 1, "deny", None, "notes.txt", "the path as typed"),
        (("write", "src/new/file"), 0, "allow", "allow src/**", "src/new/file", "the path as typed"),
        (("edit", "notes.txt"), 1, "deny", None, "notes.txt", "the path as typed"),
        (("grep", "link"), 1, "deny", "deny **/.env", ".env", "where the path really leads"),
        (("read", "../elsewhere"), 1, "deny", "leads outside the root", "../elsewhere", "the path as typed"),
        (("read", "notes.txt/x"), 0, "allow", None, "notes.txt/x", "the path as typed"),
    ],
    ids=str,
)
def test_a_path(
    check: Any,
    project: Path,
    arguments: tuple[str, ...],
    code: int,
    action: str,
    rule: str | None,
    name: str,
    why: str,
) -> None:
    ended, document = check(*arguments)
    decided = (ended, document["action"], document["rule"], document["why"])
    assert decided == (code, action, rule, why)
    assert document["name"] in (name, str(project.resolve() / name))


def test_a_link_on_the_way_is_held_to_rules(check: Any, project: Path) -> None:
    (project / "private").mkdir()
    (project / "private" / "way").symlink_to("../src")
    (project / "entry").symlink_to("private/way")
    code, document = check("read", "entry/app.py")
    assert (code, document["rule"]) == (1, "ask private/**")
    assert document["why"] == "a symbolic link on the way"


def test_a_parent_that_would_be_made_is_judged(check: Any) -> None:
    _, document = check("write", "made/by/need.txt")
    judged = {Path(finding["name"]).name: finding["why"] for finding in document["findings"]}
    assert judged["made"] == judged["by"] == "a directory that would be made"


@pytest.mark.parametrize(
    ("operation", "target"), [("read", "/etc/passwd"), ("read", "/opt/none"), ("write", "/etc/newfile")]
)
def test_where_a_link_leads_is_nothing_to_be_made(check: Any, project: Path, operation: str, target: str) -> None:
    (project / "src" / "out").symlink_to(target)
    _, document = check(operation, "src/out")
    findings = {finding["name"]: finding["why"] for finding in document["findings"]}
    assert findings[target] == "where the path really leads"
    assert "a directory that would be made" not in findings.values()


def test_a_parent_that_would_be_made_beyond_a_link_is_judged(check: Any, project: Path) -> None:
    (project / "src" / "out").symlink_to("../made/by/need")
    _, document = check("write", "src/out")
    judged = {Path(finding["name"]).name: finding["why"] for finding in document["findings"]}
    assert (judged["need"], judged["by"]) == ("where the path really leads", "a directory that would be made")


CALLS: dict[str, Callable[[Backend], object]] = {
    "read": lambda files: files.read("notes.txt"),
    "write": lambda files: files.write("notes.txt", "new"),
    "edit": lambda files: files.edit("notes.txt", "milk", "bread"),
    "ls": lambda files: files.stat("notes.txt"),
    "glob": lambda files: files.glob("*", "src"),
    "grep": lambda files: files.grep("milk", "notes.txt"),
}
TARGETS = {"glob": "src"}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("denied", CALLS)
def test_a_check_consults_what_the_call_consults(
    operation: str, denied: str, project: Path, tmp_path: Path, capsys: Printed
) -> None:
    rules = {denied: {"rules": [{"pattern": "**", "action": "deny"}]}}
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    files = guarding(LocalBackend(project), PermissionRuleset.from_dict(rules))
    try:
        CALLS[operation](files)
        refused = False
    except PermissionDeniedError:
        refused = True
    options = ["--root", str(project), "--rules", str(tmp_path / "rules.json")]
    assert main(["check", *options, operation, TARGETS.get(operation, "notes.txt")]) == int(refused)


@pytest.mark.parametrize(
    ("command", "code", "action", "rule", "name", "why"),
    [
        (("echo", "hello"), 0, "allow", None, "echo hello", "the command"),
        (("rm", "x"), 1, "deny", "deny rm *", "rm x", "the command"),
        (("sh", "-c", "ls && rm x"), 1, "deny", "deny rm *", "rm x", "a part of the command"),
        (("cat", ".env"), 1, "deny", "deny **/.env", ".env", "a path that the command names"),
        (("cat", "--file=private/x"), 1, "ask", "ask private/**", "private/x", "a path that the command names"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_command(
    check: Any,
    project: Path,
    command: tuple[str, ...],
    code: int,
    action: str,
    rule: str | None,
    name: str,
    why: str,
) -> None:
    ended, document = check("execute", "--", *command)
    decided = (ended, document["action"], document["rule"], document["why"])
    assert decided == (code, action, rule, why)
    assert document["name"] in (name, str(project.resolve() / name))
    assert document["target"] == shlex.join(command)


@pytest.mark.parametrize("mode", ["inspected", "confined"])
def test_a_shell_glob_meets_the_names_of_rules_where_nothing_can_be_listed(
    project: Path, tmp_path: Path, capsys: Printed, mode: str
) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({"rules": [{"pattern": "/etc/**", "action": "deny"}]}))
    options = ["--root", str(project), "--rules", str(tmp_path / "rules.json"), "--commands", mode]
    line = ["--shell", "--", "cat /e*c/passwd"]
    outside_counts = mode == "inspected" or obstacle(str(project)) is not None
    assert main(["check", *options, "execute", *line]) == int(outside_counts)
    if mode == "inspected":
        assert main(["run", *options, *line]) == ExitCode.REFUSED
    capsys.readouterr()


def test_a_line_for_the_shell_is_split(check: Any, project: Path) -> None:
    code, document = check("execute", "--shell", "--", "echo x > notes.txt")
    assert (code, document["action"], document["operation"]) == (1, "deny", "write")
    assert document["name"] == str(project.resolve() / "notes.txt")


@pytest.mark.parametrize(
    "arguments", [("execute", "--shell", "rm x | wc"), ("execute", "--", "rm", "x"), ("execute", "rm", "x")]
)
def test_a_command_needs_no_dashes_before_it(check: Any, arguments: tuple[str, ...]) -> None:
    code, document = check(*arguments)
    assert (code, document["rule"]) == (1, "deny rm *")


def test_nothing_is_run_and_nothing_made(check: Any, project: Path) -> None:
    before = sorted(project.rglob("*"))
    check("execute", "--shell", "--", "touch made; echo x > also")
    check("write", "src/new/file")
    assert sorted(project.rglob("*")) == before


def test_where_nothing_can_confine_a_command_would_be_asked_for(project: Path, tmp_path: Path) -> None:
    done = kit("check", "--json", "--root", str(project), "execute", "--", "ls", env=without_bubblewrap(tmp_path))
    document = json.loads(done.stdout)
    assert (done.returncode, document["action"]) == (1, "ask")
    assert "cannot be confined" in document["rule"]


def test_the_text_says_verdict_rule_name_and_why(project: Path, capsys: Printed) -> None:
    assert main(["check", "--root", str(project), "read", "link"]) == 1
    name = project.resolve() / ".env"
    assert capsys.readouterr().out.splitlines() == [
        "deny: read link",
        "  rule: deny **/.env",
        f"  name: {name}",
        "  why:  it is where the path really leads",
    ]


def test_verbose_shows_every_name(project: Path, capsys: Printed) -> None:
    assert main(["check", "-v", "--root", str(project), "--rules", "none", "read", "link"]) == 0
    rest = capsys.readouterr().out.splitlines()[4:]
    root = project.resolve()
    assert rest == [
        f"  allow read    {root}/link: by default (the path as typed)",
        f"  allow read    {root}/.env: by default (where the path really leads)",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["unknown", "x"], 2),
        (["read"], 2),
        (["read", "a", "b"], 2),
        (["execute"], 2),
        (["--rules", "no-such-preset", "read", "x"], 2),
        (["--rules", "missing.toml", "read", "x"], 2),
        (["--root", "/no/such/root", "read", "x"], 125),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_question_that_makes_no_sense_is_one_line(arguments: list[str], code: int, capsys: Printed) -> None:
    assert main(["check", *arguments]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("sandbox-kit: ")
    assert printed.err.count("\n") == 1
