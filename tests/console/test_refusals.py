"""What rules refuse: by every tool and every spelling, and that the text of a refusal holds nothing of the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ErrorText, Media, Tool
from sandbox_kit.errors import PathNotFoundError, ReadLimitError, SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .consoles import text, tools

SECRET = "t0p-s3cr3t"

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("ls", {}),
    ("ls", {"path": "PATH"}),
    ("read_file", {"path": "PATH"}),
    ("glob", {"pattern": "**/*"}),
    ("glob", {"pattern": "PATH"}),
    ("grep", {"pattern": ".", "hidden": True}),
    ("grep", {"pattern": ".", "path": "PATH"}),
    ("edit_file", {"path": "PATH", "old_text": "s3", "new_text": "S3"}),
    ("execute", {"command": "cat PATH"}),
    ("execute", {"command": "cat *; cat .*; cat $(echo PATH)"}),
    ("run_in_background", {"command": "cat PATH"}),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/sub").mkdir(parents=True)
    for name in (".env", "sub/.env"):
        (tmp_path / "root" / name).write_text(f"TOKEN={SECRET}\n")
    (tmp_path / "root/link").symlink_to(".env")
    (tmp_path / "root/open.txt").write_text("open\n")
    return tmp_path / "root"


def everything(console: dict[str, Tool]) -> str:
    """Return all that any tool tells of the credential, by any name of it."""
    told: list[str | Media] = []
    for path in (".env", "./sub/../.env", "link", "sub/.env"):
        for name, arguments in CALLS:
            if name in console:
                told.append(
                    console[name].call(
                        {
                            key: value.replace("PATH", path) if isinstance(value, str) else value
                            for key, value in arguments.items()
                        }
                    )
                )
    return "\n".join(map(repr, told))


@pytest.mark.needs("bwrap")
def test_no_tool_tells_a_credential(root: Path) -> None:
    with guarding(LocalSandbox(root), SECRETS, commands="confined") as box:
        console = tools(box)
        assert "open.txt" in text(console["ls"]())
        told = everything(console) + repr(console["read_output"](process_id=1))
    assert SECRET not in told
    assert {path.read_text() for path in root.rglob(".env")} == {f"TOKEN={SECRET}\n"}


def test_a_credential_is_told_where_no_rule_hides_it(root: Path) -> None:
    with LocalSandbox(root) as box:
        assert SECRET in everything(tools(box))


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_refusal_names_the_rule_and_what_to_do_and_not_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("hidden-name")
    (tmp_path / "hidden-name").write_text(SECRET)
    console = tools(LocalBackend(tmp_path), PermissionRuleset(rules=[PermissionRule("hidden-*", "deny")]))
    result = text(console["read_file"](path="link"))
    assert result.startswith("Error: read link: denied by rule deny hidden-*; nothing was done")
    assert "hidden-name" not in result


def test_a_refusal_is_the_same_whether_the_file_is_there_or_not() -> None:
    rules = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])
    there, gone = (tools(StateBackend(files), rules)["read_file"] for files in ({".env": SECRET}, {}))
    assert there(path=".env") == gone(path=".env")


def test_what_a_person_refuses_is_told_as_such() -> None:
    rules = PermissionRuleset(read=OperationPermissions("ask"))
    result = tools(StateBackend({"x": SECRET}), rules, ask=lambda *question: False)["read_file"](path="x")
    assert isinstance(result, ErrorText)
    assert "not approved" in result
    assert not result.needs_approval


@pytest.mark.parametrize(
    "raised", [PathNotFoundError("the person's own"), ReadLimitError("theirs")], ids=["path", "limit"]
)
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
def test_what_the_one_who_is_asked_raises_passes_through(tool: str, raised: SandboxError) -> None:
    backend = StateBackend({"x": "old"})
    asking = [False]

    def ask(*question: str) -> bool:
        if asking[0]:
            raise raised
        return True

    console = tools(backend, PermissionRuleset(read=OperationPermissions("ask")), ask=ask)
    console["read_file"](path="x")
    backend.remove("x")
    backend.write("x", "new")
    asking[0] = True
    with pytest.raises(type(raised)) as caught:
        console[tool].call({"path": "x"} | ({"content": ""} if tool == "write_file" else {}))
    assert caught.value is raised
    assert backend.read("x") == "new"
