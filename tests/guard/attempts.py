"""The stage on which attempts to reach a denied file are made, and what proves that one was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import SandboxError
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

Case = dict[str, Any]

CASES: list[Case] = json.loads((Path(__file__).parent.parent / "data" / "bypasses.json").read_text())
SECRET = "TOPSECRET"
PATH_OPERATIONS = ("read", "write", "edit", "ls", "glob", "grep")
PROTECTED = (".env", "sub/.env", "private/key.txt", "private/deep/x.txt", "certs/a.pem")
RACING_READS = 3000


class Stage:
    """A workspace with secrets in it, a directory outside it, and the rules of one case."""

    def __init__(self, base: Path, case: Case) -> None:
        self.case = case
        self.workspace = base / "ws"
        self.outside = base / "outside"
        self._fill()
        for line in case["setup"]:
            subprocess.run(["bash", "-c", line], cwd=self.workspace, check=True, capture_output=True)
        self.before = self._snapshot()

    def _fill(self) -> None:
        for name in PROTECTED:
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"KEY={SECRET}-{path.name.strip('.')}\n")
        (self.workspace / "ok.txt").write_text("nothing here\n")
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(f"{SECRET}-outside\n")

    def text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for name, real in {
            "{W}": str(self.workspace),
            "{O}": str(self.outside),
            "{N}": self.workspace.name,
            "{Wrel}": str(self.workspace).lstrip("/"),
            "{PID}": str(os.getpid()),
        }.items():
            value = value.replace(name, real)
        return value

    def ruleset(self) -> PermissionRuleset:
        """The case's own rules, for every path operation or for the ones that it names."""
        defaults = [("deny", pattern) for pattern in ("**/.env", "/etc/**", "**/*.pem", "{W}/private/**")]
        chosen = self.case.get("rules", defaults) + [("deny", each) for each in self.case.get("rules_extra", ())]
        rules = tuple(PermissionRule(self.text(pattern), action) for action, pattern in chosen)
        on = self.case.get("rules_on", PATH_OPERATIONS)
        held: dict[str, Any] = {operation: OperationPermissions(rules=rules) for operation in on}
        return PermissionRuleset("allow", **held)

    def in_memory(self) -> StateBackend:
        """The same files held in memory, under the same names, beside an /etc/passwd."""
        files: dict[str, str | bytes] = {"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"}
        for directory, _, names in os.walk(self.workspace.parent):
            for name in names:
                path = Path(directory, name)
                files[str(path)] = path.read_bytes()
        return StateBackend(files, work_dir=str(self.workspace))

    @staticmethod
    def left_outside(path: Path) -> list[str]:
        """What a command has put at *path*, outside the workspace, where the sandbox itself does not look."""
        return [path.read_text()] if path.exists() else []

    def _snapshot(self) -> dict[str, str | None]:
        files = {
            str(path): path.read_bytes().hex() if path.is_file() else None
            for directory in ("private", "certs")
            for path in (self.workspace / directory).rglob("*")
        }
        return files | {name: (self.workspace / name).read_bytes().hex() for name in PROTECTED if ".env" in name}

    def changed(self) -> bool:
        return self._snapshot() != self.before


class Outcome:
    """What an attempt got out: every text that came back, and every error."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.names: list[str] = []
        self.errors: list[SandboxError] = []
        self.succeeded = False

    def reached(self, stage: Stage, backend: Backend) -> bool:
        """Whether the attempt got what the rules withhold."""
        proof = stage.case["proof"]
        if proof == "leak":
            return stage.case.get("marker", SECRET) in "\n".join([*self.texts, *map(str, self.errors)])
        if proof == "changed":
            return stage.changed() if not isinstance(backend, StateBackend) else _memory_changed(stage, backend)
        if proof == "oracle-grep":
            return any("echoed" in text for text in self.texts)
        if proof.startswith("list:"):
            return proof.removeprefix("list:") in self.names
        return self.succeeded


def _memory_changed(stage: Stage, backend: StateBackend) -> bool:
    return any("PWNED" in backend.read(f"{stage.workspace}/{name}") for name in PROTECTED) or any(
        "new2" in entry.name for entry in backend.ls(f"{stage.workspace}/private")
    )


def attempt(stage: Stage, backend: Backend) -> Outcome:
    """Make every call of the case, whatever the one before it raised."""
    outcome = Outcome()
    for verb, *arguments in stage.case["attempt"]:
        values = [stage.text(value) for value in arguments]
        try:
            CALLS[verb](stage, backend, outcome, *values)
            outcome.succeeded = True
        except SandboxError as error:
            outcome.errors.append(error)
    return outcome


def _read(stage: Stage, backend: Backend, outcome: Outcome, path: str) -> None:
    if isinstance(backend, Sandbox) and Path(path).is_relative_to(stage.outside):
        outcome.texts += stage.left_outside(Path(path))
    else:
        outcome.texts.append(backend.read(path))


def _read_bytes(stage: Stage, backend: Backend, outcome: Outcome, path: str) -> None:
    outcome.texts.append(backend.read_bytes(path).decode("utf-8", "replace"))


def _write(stage: Stage, backend: Backend, outcome: Outcome, path: str, content: str) -> None:
    backend.write(path, content)


def _edit(stage: Stage, backend: Backend, outcome: Outcome, path: str, old: str, new: str) -> None:
    backend.edit(path, old, new)


def _ls(stage: Stage, backend: Backend, outcome: Outcome, path: str) -> None:
    outcome.names += [entry.name for entry in backend.ls(path)]


def _glob(stage: Stage, backend: Backend, outcome: Outcome, pattern: str, path: str) -> None:
    outcome.names += [entry.name for entry in backend.glob(pattern, path)]


def _grep(
    stage: Stage,
    backend: Backend,
    outcome: Outcome,
    pattern: str,
    path: str,
    glob: str | None = None,
    ignore_hidden: bool = False,
) -> None:
    with backend.grep(pattern, path, glob=glob, hidden=not ignore_hidden) as matches:
        outcome.texts += [f"{match.path}:{match.line}" for match in matches]


def _execute(stage: Stage, backend: Backend, outcome: Outcome, command: str) -> None:
    assert isinstance(backend, Sandbox)
    result = backend.execute(command, timeout=20)
    outcome.texts.append(result.output)
    if not result.ok:
        outcome.succeeded = False


def _spawn(stage: Stage, backend: Backend, outcome: Outcome, command: str) -> None:
    assert isinstance(backend, Sandbox)
    with backend.spawn(command) as process:
        process.wait(20)
        outcome.texts += [*process.stdout, *process.stderr]


def _race(stage: Stage, backend: Backend, outcome: Outcome, path: str) -> None:
    with flipping(Path(path), stage.workspace / ".env"):
        for _ in range(RACING_READS):
            try:
                outcome.texts.append(backend.read(path))
            except SandboxError as error:
                outcome.errors.append(error)
            if outcome.reached(stage, backend):
                return
            outcome.texts, outcome.errors = outcome.texts[-1:], outcome.errors[-1:]


@contextmanager
def flipping(path: Path, target: Path) -> Iterator[None]:
    """Swap *path* between a harmless file and a link to *target*, by rename, for as long as the block runs."""
    stop = threading.Event()
    harmless, link = path.with_name("harmless"), path.with_name("link")

    def flip() -> None:
        while not stop.is_set():
            harmless.write_text("harmless\n")
            os.replace(harmless, path)
            link.symlink_to(target)
            os.replace(link, path)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


CALLS: dict[str, Callable[..., None]] = {
    "read": _read,
    "read_bytes": _read_bytes,
    "write": _write,
    "edit": _edit,
    "ls": _ls,
    "glob": _glob,
    "grep": _grep,
    "execute": _execute,
    "spawn": _spawn,
    "race": _race,
}
