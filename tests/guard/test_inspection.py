"""What a guard makes of a command line, where the kernel holds and where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit import inspection
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import GuardedSandbox, guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

RULES = PermissionRuleset("allow", rules=[PermissionRule(each, "deny") for each in ("**/.env", "/etc/**", "**/*.pem")])


@pytest.fixture
def inspected(tmp_path: Path) -> GuardedSandbox:
    (tmp_path / ".env").write_text("TOPSECRET")
    return guarding(LocalSandbox(tmp_path), RULES, commands="inspected")


def refusal(sandbox: GuardedSandbox, command: str) -> PermissionDeniedError:
    with sandbox, pytest.raises(PermissionDeniedError) as refused:
        sandbox.execute(command)
    return refused.value


def test_a_refusal_names_the_path_that_the_command_names(inspected: GuardedSandbox, tmp_path: Path) -> None:
    error = refusal(inspected, "cat ok .env")
    assert (error.operation, error.target, error.rule) == ("read", f"{tmp_path}/.env", "deny **/.env")


@pytest.mark.parametrize(
    ("command", "cwd", "target"),
    [
        ("cat pub", ".", "{}/pub"),
        ("cat to", ".", "{}/to"),
        ("echo x > pub", ".", "{}/pub"),
        ("cat dir/*", ".", "dir/*"),
        ("cat private/*", ".", "private/*"),
        ("cat d*/c*", ".", "d*/c*"),
        ("ls", "dir", "{}/dir"),
        ("ls", "private/deep-customer/..", "{}/private"),
    ],
)
def test_a_refusal_tells_no_name_that_the_rules_hide(tmp_path: Path, command: str, cwd: str, target: str) -> None:
    (tmp_path / "private/deep-customer").mkdir(parents=True)
    (tmp_path / "private/customer").write_text("TOPSECRET")
    for name, to in {"pub": "private/customer", "dir": "private", "private/on": "customer", "to": "private/on"}.items():
        (tmp_path / name).symlink_to(to)
    rules = PermissionRuleset(rules=[PermissionRule("private/**", "deny")])
    sandbox = guarding(LocalSandbox(tmp_path), rules, commands="inspected")
    with sandbox, pytest.raises(PermissionDeniedError) as refused:
        sandbox.execute(command, cwd=cwd)
    assert refused.value.target == target.format(tmp_path)
    assert "customer" not in str(refused.value)


@pytest.mark.parametrize("command", ["cat ~/.env", "cat ~/s/../.env", "cd ~ && cat .env", "cat .e*", "cat */../.[e]nv"])
def test_home_and_globs_stand_for_what_the_shell_makes_of_them(
    inspected: GuardedSandbox, tmp_path: Path, command: str
) -> None:
    (tmp_path / "s").mkdir()
    assert refusal(inspected, command).rule == "deny **/.env"


@pytest.mark.parametrize(
    "command",
    [
        "cat /et?/passwd",
        "cat /*/passwd",
        "cat /etc/pass*",
        "cat ../../et[c]/x",
        "cd /; cat e*/passwd",
        "cat top/e?c/passwd",
    ],
)
def test_globs_outside_the_workspace_stand_for_what_rules_name(
    inspected: GuardedSandbox, tmp_path: Path, command: str
) -> None:
    (tmp_path / "top").symlink_to("/")
    climbed = command.replace("../..", "/".join([".."] * len(tmp_path.parts)))
    assert refusal(inspected, climbed).rule == "deny /etc/**"


def test_globs_outside_the_workspace_that_no_rule_names_are_let_through(inspected: GuardedSandbox) -> None:
    with inspected:
        assert inspected.execute("echo /b[i]n /n*where missing/*").exit_code == 0


def test_a_star_leaves_hidden_names_to_who_writes_the_dot(inspected: GuardedSandbox, tmp_path: Path) -> None:
    (tmp_path / "ok").write_text("fine")
    with inspected:
        assert inspected.execute("cat *").stdout == "fine"


def test_streams_of_the_system_are_nobodys_file(inspected: GuardedSandbox) -> None:
    with inspected:
        assert inspected.execute("echo hi 2>/dev/null >/dev/stdout").stdout == "hi\n"


def test_a_line_that_names_too_many_files_is_refused(
    inspected: GuardedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_MOST_NAMES", 3)
    assert "too many files" in str(refusal(inspected, "cat a b c d e"))


def test_a_line_too_large_to_be_taken_apart_is_refused(inspected: GuardedSandbox) -> None:
    words = " ".join(f"/a/b{number}" for number in range(20_000))
    assert "too many files" in str(refusal(inspected, f"cat {words}"))


@pytest.mark.needs("bwrap")
def test_confined_words_outside_the_workspace_name_what_commands_see(tmp_path: Path) -> None:
    with guarding(LocalSandbox(tmp_path), RULES, commands="confined") as sandbox:
        assert "root:" in sandbox.execute("cat /etc/passwd", check=True).stdout
        with pytest.raises(PermissionDeniedError):
            sandbox.execute("echo x > /etc/passwd")
        with pytest.raises(PermissionDeniedError):
            sandbox.execute("cat .env")
