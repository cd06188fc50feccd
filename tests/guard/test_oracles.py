"""Nothing tells what is denied from what is missing: every call answers alike, however the name is spelled."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError, SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.testing.host import give_away, ordinary_user

FILES = {"private/key.txt": "k", "private/deep/x": "k", "ok.txt": "ok"}
KINDS = {"present": "key.txt", "missing": "none.txt", "directory": "deep", "beneath": "key.txt/x", "parent": "no/x"}
Call = Callable[[Backend, str, Path], object]
CALLS: dict[str, Call] = {
    "read": lambda backend, path, host: backend.read(path),
    "read_bytes": lambda backend, path, host: backend.read_bytes(path),
    "open_read": lambda backend, path, host: backend.open_read(path).read(),
    "write": lambda backend, path, host: backend.write(path, "new"),
    "edit": lambda backend, path, host: backend.edit(path, "k", "new"),
    "ls": lambda backend, path, host: backend.ls(path),
    "glob": lambda backend, path, host: list(backend.glob("*", path)),
    "glob-pattern": lambda backend, path, host: list(backend.glob(path)),
    "grep": lambda backend, path, host: list(backend.grep("k", path)),
    "stat": lambda backend, path, host: backend.stat(path),
    "exists": lambda backend, path, host: backend.exists(path),
    "mkdir": lambda backend, path, host: backend.mkdir(path),
    "remove": lambda backend, path, host: backend.remove(path),
    "remove-all": lambda backend, path, host: backend.remove(path, recursive=True),
    "move": lambda backend, path, host: backend.move(path, "moved"),
    "move-to": lambda backend, path, host: backend.move("ok.txt", path),
    "upload": lambda backend, path, host: backend.upload(host / "source", path),
    "upload-tree": lambda backend, path, host: backend.upload(host / "tree", path),
    "download": lambda backend, path, host: backend.download(path, host / "copy"),
    "download-rest": lambda backend, path, host: backend.download(path, host / "copy", denied="skip"),
    "export": lambda backend, path, host: backend.export(path).read(),
}
OF_THE_LINK = ("remove", "remove-all", "move")
"""Calls that act on a final link itself, wherever it leads."""

EVERY_RULE = pytest.mark.parametrize("rule", ["private/**", "private/{key.txt,none.txt,deep,no}"])

SPELLINGS = {
    "plain": "private/{}",
    "climbing-in": "./private/deep/../{}",
    "absolute": "{root}/private/{}",
    "climbing-out": "private/{}/../../ok.txt",
    "climbing-out-twice": "private/{}/../../private/../ok.txt",
}
LINKED = {
    "link-to-directory": "link/{}",
    "chain": "chain/{}",
    "inner-link": "private/back/{}",
    "up-through-a-link": "link/{}/../../ok.txt",
    "as-given": "{given}/link/{}",
    "link-that-climbs": "climbs/{}",
}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "host/tree").mkdir(parents=True)
    (tmp_path / "host/source").write_text("s")
    (tmp_path / "host/tree/key.txt").write_text("s")
    return tmp_path / "host"


def on_disk(root: Path) -> LocalBackend:
    """The files, links of every kind to them, and the root under another name."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    links = {"link": "private", "chain": "link", "private/back": ".", "climbs": "private/deep/.."}
    for kind, name in KINDS.items():
        links[f"to-{kind}"] = f"private/{name}"
        links[f"over-{kind}"] = f"to-{kind}"
        links[f"out-{kind}"] = f"private/{name}/../../ok.txt"
    for name, target in links.items():
        (root / name).symlink_to(target)
    root.with_name("given").symlink_to(root.name)
    return LocalBackend(root.with_name("given"))


def answer(backend: Backend, call: str, path: str, host: Path) -> tuple[str, str]:
    """What the caller learns, but for the name that it gave and for how long that is."""
    try:
        said = repr(CALLS[call](backend, path, host))
    except SandboxError as error:
        said = f"{re.sub(r'offset [0-9]+', 'offset', str(error))} {error.__context__!r}"
        return type(error).__name__, said.replace(path, "*")
    return "answer", said.replace(path, "*")


def telling(
    backend: Backend, form: str, host: Path, calls: Iterable[str] = CALLS, **names: Path | str
) -> dict[str, set[tuple[str, str]]]:
    """The calls whose answers differ between names of the same *form*, and these answers."""
    paths = [form.format(name, kind=kind, **names) for kind, name in KINDS.items()]
    found = {call: {answer(backend, call, path, host) for path in paths} for call in calls}
    return {call: answers for call, answers in found.items() if len(answers) > 1}


def guarded(backend: Backend, pattern: str) -> Backend:
    return guarding(backend, PermissionRuleset("allow", rules=[PermissionRule(pattern, "deny")]))


@EVERY_RULE
@pytest.mark.parametrize("form", SPELLINGS.values(), ids=SPELLINGS)
def test_in_memory(rule: str, form: str, host: Path) -> None:
    backend = guarded(StateBackend(FILES, work_dir="/w"), rule)
    assert telling(backend, form, host, root="/w") == {}


@EVERY_RULE
@pytest.mark.parametrize("form", (SPELLINGS | LINKED).values(), ids=SPELLINGS | LINKED)
def test_on_disk(rule: str, form: str, host: Path, tmp_path: Path) -> None:
    root, given = tmp_path / "root", tmp_path / "given"
    assert telling(guarded(on_disk(root), rule), form, host, root=root, given=given) == {}


@EVERY_RULE
@pytest.mark.parametrize("form", ["to-{kind}", "over-{kind}", "out-{kind}"])
def test_by_a_final_link(rule: str, form: str, host: Path, tmp_path: Path) -> None:
    backend = guarded(on_disk(tmp_path / "root"), rule)
    assert telling(backend, form, host, [call for call in CALLS if call not in OF_THE_LINK]) == {}
    shown = {entry.name for entry in backend.ls()}
    assert shown.isdisjoint(form.format(kind=kind) for kind in KINDS)


@EVERY_RULE
@pytest.mark.parametrize("call", OF_THE_LINK)
def test_by_what_is_done_to_a_link_itself(rule: str, call: str, host: Path, tmp_path: Path) -> None:
    def make(kind: str) -> Backend:
        return guarded(on_disk(tmp_path / kind / "root"), rule)

    assert len({answer(make(kind), call, f"to-{kind}", host) for kind in KINDS}) == 1


def test_a_link_that_leads_outside_is_held_to_the_rules_for_every_name_on_its_way(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("k")
    (outside / "middle").symlink_to("secret")
    (outside / "first").symlink_to(outside / "middle")
    (root / "out").symlink_to(outside / "first")
    (root / "chain").symlink_to("out")
    (root / "climbing").symlink_to("../outside/first")
    for denied in ("first", "middle", "secret"):
        backend = guarded(LocalBackend(root), f"{outside}/{denied}")
        assert backend.ls() == []
        for name in ("out", "chain", "climbing"):
            for call in ("read", "stat", "ls", "grep", "write", "export"):
                assert answer(backend, call, name, tmp_path)[0] == "PermissionDeniedError", (denied, name, call)


@pytest.mark.skipif(sys.platform == "win32", reason="commands are POSIX")
@pytest.mark.parametrize("command", ["cat out", "cat chain", "cat {outside}/first", "echo x > out"])
def test_a_command_line_may_not_name_a_link_that_leads_outside_to_what_is_denied(tmp_path: Path, command: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("k")
    (outside / "first").symlink_to("secret")
    (root / "out").symlink_to(outside / "first")
    (root / "chain").symlink_to("out")
    ruleset = PermissionRuleset("allow", rules=[PermissionRule(f"{outside}/secret", "deny")])
    with guarding(LocalSandbox(root), ruleset, commands="inspected") as sandbox:
        with pytest.raises(PermissionDeniedError):
            sandbox.execute(command.format(outside=outside))
        assert sandbox.execute("cat /etc/hostname || true").exit_code == 0
    assert (outside / "secret").read_text() == "k"


def test_what_is_denied_is_not_named_where_the_file_system_refuses_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    backend = guarded(on_disk(root), "private/**")
    assert {entry.name for entry in backend.ls()} >= {"ok.txt"}
    (root / "private/deep").chmod(0o444)
    (root / "private").chmod(0)
    give_away(tmp_path)
    for mode in (0, 0o444):
        (root / "private").chmod(mode)
        with ordinary_user():
            for matches in (backend.glob("**"), backend.grep("k")):
                list(matches)
                assert matches.skipped == ()
            assert backend.export(denied="skip").denied > 0
            for path in ("link/key.txt", "link/none", "link/deep/x", "link/key.txt/x"):
                assert answer(backend, "read", path, tmp_path)[0] == "PermissionDeniedError"
    (root / "private").chmod(0o700)


def test_a_denied_directory_that_moves_away_during_a_walk_is_not_named() -> None:
    backend = StateBackend({"a/f": "needle\n", "private/f": "needle\n", "z/f": "needle\n"})
    guarded = guarding(backend, PermissionRuleset("allow", rules=[PermissionRule("private/**", "deny")]))
    matches = guarded.grep("needle")
    next(matches)
    backend.move("private", "elsewhere")
    list(matches)
    assert not any("private" in skipped.path for skipped in matches.skipped)
