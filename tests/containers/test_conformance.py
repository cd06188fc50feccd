"""The conformance suite over containers: with busybox, with a mask, and guarded with dash and GNU tools.

A container outlives a test where the test leaves it as it was: what is a container's own life is
tried with new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.testing import SandboxConformance
from sandbox_kit.testing.life import LifeConformance

ALLOW_ALL = PermissionRuleset("allow")
HIDES_A_NAME = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("/etc/hostname", "deny")]))
EMPTY = "chmod -R u+rwX . 2>/dev/null; rm -rf ..?* .[!.]* *; ls -A"


class Kept:
    """One sandbox for test after test, replaced when a test leaves it stopped or not empty."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    def borrow(self, made: Sandbox) -> Sandbox:
        """*made*, started, or the one that is kept, empty."""
        kept, self._sandbox = self._sandbox, None
        if kept is not None and kept.is_alive() and kept.execute(EMPTY).stdout == "":
            return kept
        self.end(kept)
        return made.start()

    def give_back(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def end(self, sandbox: Sandbox | None = None) -> None:
        for each in (sandbox, self._sandbox):
            if each is not None:
                each.stop(purge=True)


@pytest.fixture(scope="class")
def kept_one() -> Iterator[Kept]:
    kept = Kept()
    yield kept
    kept.end()


class DockerTests(LifeConformance):
    stop_also: tuple[str, ...] = ("remove",)
    image: str

    def make_backend(self, tmp_path: Path) -> Sandbox:
        return self.wrap(DockerSandbox(self.image, max_read_bytes=self.max_read_bytes))

    def wrap(self, sandbox: Sandbox) -> Sandbox:
        return sandbox


class KeptDockerTests(DockerTests, SandboxConformance):
    @pytest.fixture
    def backend(self, kept_one: Kept) -> Iterator[Backend]:
        sandbox = kept_one.borrow(DockerSandbox(self.image, max_read_bytes=self.max_read_bytes))
        yield self.wrap(sandbox)
        kept_one.give_back(sandbox)


class TestBusybox(KeptDockerTests):
    @pytest.fixture(autouse=True)
    def _image(self, busybox_image: str) -> None:
        self.image = busybox_image


class TestGuardedDebian(KeptDockerTests):
    stop_also = ()

    @pytest.fixture(autouse=True)
    def _image(self, debian_image: str) -> None:
        self.image = debian_image

    def wrap(self, sandbox: Sandbox) -> Sandbox:
        return guarding(sandbox, ALLOW_ALL)


class TestMaskedBusybox(KeptDockerTests):
    """Where commands see something masked, what the workspace holds is reached beside them."""

    stop_also = ()

    @pytest.fixture(autouse=True)
    def _image(self, busybox_image: str) -> None:
        self.image = busybox_image

    @pytest.fixture
    def backend(self, kept_one: Kept) -> Iterator[Backend]:
        sandbox = kept_one.borrow(self.make_backend(Path()))
        yield sandbox
        kept_one.give_back(sandbox)

    def wrap(self, sandbox: Sandbox) -> Sandbox:
        return guarding(sandbox, HIDES_A_NAME, commands="confined")
