"""Every call, on every kind of backend, by every spelling of a path that the rules deny."""

from __future__ import annotations

import io
import tarfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import GuardedBackend, guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

SECRET = "TOPSECRET"
DENIED = ("**/.env", "*.pem", "private/**", "caf\u00e9/**")
FILES = {
    **dict.fromkeys((".env", "sub/.env", "private/key.txt", "private/deep/x", "certs/a.pem", "caf\u00e9/k"), SECRET),
    **dict.fromkeys(("ok.txt", "sub/b.txt", "data/keep.log"), "harmless"),
}
SPELLINGS = (
    *(".env", "./.env", "sub/../.env", "missing/../.env", "ok.txt/../.env", ".env/", ".env/.", ".env/beneath"),
    *("sub//.env", "sub/./.env", "private", "private/", "private/nope", "private/deep/../key.txt", "private//deep/x/"),
    *("certs/../certs/a.pem", "{W}/sub/../private/key.txt", "//{W}//.env", "caf\u00e9/k", "cafe\u0301/k"),
)


@pytest.fixture(params=["memory", "directory", "sandbox"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "memory":
        yield StateBackend(dict(FILES), work_dir="/w")
        return
    root = tmp_path / "root"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    if request.param == "directory":
        yield LocalBackend(root)
    else:
        with LocalSandbox(root) as sandbox:
            yield sandbox


def denying(bare: Backend, *patterns: str) -> GuardedBackend:
    guarded = guarding(bare, PermissionRuleset(rules=[PermissionRule(pattern, "deny") for pattern in patterns]))
    assert isinstance(guarded, GuardedBackend)
    return guarded


def contents(bare: Backend) -> dict[str, bytes]:
    return {entry.path: bare.read_bytes(entry.path) for entry in bare.glob("**/*") if not entry.is_dir}


Call = Callable[[Backend, str, Path], object]
CALLS: dict[str, Call] = {
    "read": lambda backend, path, host: backend.read(path),
    "read_bytes": lambda backend, path, host: backend.read_bytes(path),
    "open_read": lambda backend, path, host: backend.open_read(path),
    "write": lambda backend, path, host: backend.write(path, "x"),
    "edit": lambda backend, path, host: backend.edit(path, "T", "x"),
    "ls": lambda backend, path, host: backend.ls(path),
    "stat": lambda backend, path, host: backend.stat(path),
    "exists": lambda backend, path, host: backend.exists(path),
    "glob": lambda backend, path, host: backend.glob("*", path),
    "grep": lambda backend, path, host: list(backend.grep("T", path)),
    "mkdir": lambda backend, path, host: backend.mkdir(path),
    "remove": lambda backend, path, host: backend.remove(path),
    "remove a tree": lambda backend, path, host: backend.remove(path, recursive=True),
    "move from": lambda backend, path, host: backend.move(path, "elsewhere"),
    "move to": lambda backend, path, host: backend.move("ok.txt", path),
    "upload": lambda backend, path, host: backend.upload(host / "up", path),
    "download": lambda backend, path, host: backend.download(path, host / "down"),
    "export": lambda backend, path, host: backend.export(path),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_names_a_denied_path_is_refused_however_it_is_spelled(
    bare: Backend, call: str, tmp_path: Path
) -> None:
    (tmp_path / "up").write_text("x")
    guarded, before = denying(bare, *DENIED), contents(bare)
    for spelling in SPELLINGS:
        with pytest.raises(PermissionDeniedError):
            CALLS[call](guarded, spelling.replace("{W}", bare.work_dir), tmp_path)
    assert contents(bare) == before
    assert not (tmp_path / "down").exists()


@pytest.mark.parametrize("call", ["remove a tree", "move from", "download", "export"])
def test_a_tree_that_holds_a_denied_file_is_refused_whole(bare: Backend, call: str, tmp_path: Path) -> None:
    guarded, before = denying(bare, *DENIED), contents(bare)
    for directory in ("sub", "certs"):
        with pytest.raises(PermissionDeniedError):
            CALLS[call](guarded, directory, tmp_path)
    assert contents(bare) == before
    assert not (tmp_path / "down").exists()


def test_walks_leave_out_what_is_denied(bare: Backend) -> None:
    guarded = denying(bare, *DENIED)
    seen = {
        entry.path
        for pattern in ("**/*", "{.env,ok.txt}", ".en[v]", "pri*", "*/.env")
        for entry in guarded.glob(pattern)
    }
    assert seen == {"ok.txt", "sub", "sub/b.txt", "certs", "data", "data/keep.log"}
    assert [match.path for match in guarded.grep("TOP|harm", hidden=True, context=3)].count("ok.txt") == 1
    assert not any(SECRET in match.line for match in guarded.grep(".", hidden=True))
    for selected in (".env", "*.pem", "/private/**", "{.env,*.txt}", "**/[k]*"):
        assert not any(SECRET in match.line for match in guarded.grep(".", glob=selected, hidden=True))


def test_trees_leave_out_what_is_denied_when_asked_to(bare: Backend, tmp_path: Path) -> None:
    guarded = denying(bare, *DENIED)
    with tarfile.open(fileobj=io.BytesIO(guarded.export(denied="skip").read())) as tar:
        names = {unicodedata.normalize("NFC", member.name) for member in tar if member.isfile()}
    assert names == {"ok.txt", "sub/b.txt", "data/keep.log"}
    guarded.download("sub", tmp_path / "down", denied="skip")
    assert [path.name for path in (tmp_path / "down").iterdir()] == ["b.txt"]


@pytest.mark.parametrize("target", ["open/keep.log", "open"], ids=["file", "directory"])
def test_no_file_becomes_readable_by_its_new_name(bare: Backend, target: str) -> None:
    rules = [PermissionRule("open/**", "allow"), PermissionRule("**/*.log", "deny")]
    guarded = guarding(bare, PermissionRuleset(read=OperationPermissions(rules=rules)))
    with pytest.raises(PermissionDeniedError):
        guarded.move("data/keep.log" if target != "open" else "data", target)
    assert bare.read("data/keep.log") == "harmless"


@pytest.mark.parametrize("operation", ["read", "write", "edit"])
def test_an_edit_needs_reading_writing_and_editing(bare: Backend, operation: str) -> None:
    own = OperationPermissions(rules=[PermissionRule("ok.txt", "deny")])
    held: dict[str, Any] = {operation: own}
    guarded = guarding(bare, PermissionRuleset(**held))
    with pytest.raises(PermissionDeniedError):
        guarded.edit("ok.txt", "harmless", "x")


@pytest.mark.parametrize("denied_first", [True, False])
def test_every_call_sees_the_same_order_of_rules(bare: Backend, denied_first: bool) -> None:
    rules = [PermissionRule("data/**", "deny"), PermissionRule("**/keep.log", "allow")]
    guarded = guarding(bare, PermissionRuleset(rules=rules if denied_first else rules[::-1]))
    for call in ("read", "ls", "grep", "stat", "export"):
        if denied_first:
            with pytest.raises(PermissionDeniedError):
                CALLS[call](guarded, "data/keep.log", Path())
        else:
            CALLS[call](guarded, "data/keep.log", Path())
    walked = [entry.path for entry in guarded.glob("**/*.log")] + [
        match.path for match in guarded.grep("h", glob="*.log")
    ]
    assert walked == ([] if denied_first else ["data/keep.log"] * 2)
