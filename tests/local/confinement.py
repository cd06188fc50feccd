"""What the tests of confinement share: masks by regular expressions, and a workspace to run commands in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import field, frozen

from sandbox_kit.backends.local import confine
from sandbox_kit.host.system import Descriptor
from sandbox_kit.primitives import Masks
from sandbox_kit.rules.ruleset import PermissionRuleset

PATH = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
SECRET = "TOPSECRET"


def _covers(patterns: Sequence[str], name: str) -> bool:
    """Whether a pattern matches the whole of *name*, or of a directory that it lies in."""
    while name:
        if any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns):
            return True
        name = name.rpartition("/")[0]
    return False


@frozen
class Denials:
    """Masks by regular expressions over absolute names; deny and protect cover what lies beneath, allow does not."""

    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    ruleset: PermissionRuleset = field(factory=PermissionRuleset)

    def hidden(self, name: str) -> bool:
        return _covers(self.deny, name) and not any(re.fullmatch(pattern, name) for pattern in self.allow)

    def read_only(self, name: str) -> bool:
        return _covers(self.protect, name) and not any(re.fullmatch(pattern, name) for pattern in self.allow)

    def opens_beneath(self, directory: str) -> bool:
        return bool(self.allow)

    def pins(self, name: str) -> tuple[str, ...]:
        return tuple(pin for pin in self.pinned if name.startswith(pin + "/"))

    def outside(self) -> tuple[str, ...]:
        return self.secrets


def _real(path: str) -> str:
    return os.path.realpath(path)


@frozen
class Workspace:
    """A directory, and confined commands in it."""

    root: str = field(converter=_real)
    scratch: str

    def put(self, name: str, text: str = SECRET) -> Path:
        path = Path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def denials(self, *deny: str, **more: tuple[str, ...]) -> Denials:
        """Masks whose patterns may start with ``W``, the workspace."""
        there: dict[str, Any] = {key: tuple(self.name(each) for each in value) for key, value in more.items()}
        return Denials(deny=tuple(self.name(each) for each in deny), **there)

    def name(self, pattern: str) -> str:
        return re.escape(self.root) + pattern[1:] if pattern.startswith("W") else pattern

    def prepare(self, masks: Masks | None = None, **options: Any) -> confine.Prepared:
        with Descriptor.open(self.root, os.O_PATH | os.O_DIRECTORY) as root:
            return confine.prepare(
                root_fd=root.fd,
                work_dir=self.root,
                masks=() if masks is None else (masks,),
                cwd=options.pop("cwd", self.root),
                env={"PATH": PATH, "HOME": self.root, **options.pop("env", {})},
                scratch=self.scratch,
                **options,
            )

    def run(self, command: str | list[str], masks: Masks | None = None, **options: Any) -> str:
        """What *command* prints, both streams, and its exit code after ``rc=``."""
        with self.prepare(masks, **options) as prepared:
            return finish(start(prepared, command))


def start(prepared: confine.Prepared, command: str | list[str]) -> subprocess.Popen[bytes]:
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    return subprocess.Popen(
        prepared.command(argv),
        env=prepared.env,
        cwd="/",
        pass_fds=prepared.pass_fds,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=60)
    return f"{output.decode(errors='replace')}rc={process.returncode}"


def started(stack: ExitStack, prepared: confine.Prepared, command: str) -> subprocess.Popen[bytes]:
    """Start *command* and wait for its first line; it is killed when *stack* closes."""
    stack.callback(prepared.close)
    process = start(prepared, command)
    stack.enter_context(process)
    stack.callback(process.kill)
    assert process.stdout is not None
    process.stdout.readline()
    return process
