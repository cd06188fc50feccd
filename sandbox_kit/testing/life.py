"""start, stop and what stands between."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError, SandboxUnavailableError
from sandbox_kit.testing.base import fill
from sandbox_kit.testing.commands import SandboxTests

__all__ = ["LifeConformance"]

USES: dict[str, Callable[[Sandbox], object]] = {
    "execute": lambda sandbox: sandbox.execute("true"),
    "spawn": lambda sandbox: sandbox.spawn("true"),
    "usage": lambda sandbox: sandbox.usage(),
}


class LifeConformance(SandboxTests):
    """A sandbox begins with start, ends with stop, and may begin again.

    Attributes:
        keeps_files: whether the workspace outlives ``stop()``.
        stop_also: what ``stop`` takes beside ``purge``.
    """

    keeps_files: bool = True
    stop_also: Sequence[str] = ()

    @pytest.fixture
    def idle(self, tmp_path: Path) -> Sandbox:
        """A sandbox that is not started."""
        made = self.make_backend(tmp_path)
        assert isinstance(made, Sandbox)
        return made

    def test_stop_has_the_same_signature_everywhere(self, idle: Sandbox) -> None:
        purge, *others = inspect.signature(idle.stop).parameters.values()
        assert [other.name for other in others] == list(self.stop_also)
        assert (purge.name, purge.default) == ("purge", False)
        assert purge.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD

    @pytest.mark.parametrize("use", USES)
    def test_use_before_start_is_refused_and_says_how(self, idle: Sandbox, use: str) -> None:
        with pytest.raises(SandboxClosedError) as caught:
            USES[use](idle)
        assert isinstance(caught.value, SandboxUnavailableError)
        assert "start()" in str(caught.value)
        assert "with" in str(caught.value)

    def test_it_is_alive_between_start_and_stop(self, idle: Sandbox) -> None:
        assert not idle.is_alive()
        with idle as started:
            assert started is idle
            assert idle.is_alive()
        assert not idle.is_alive()

    def test_starting_twice_is_fine(self, sandbox: Sandbox) -> None:
        assert sandbox.start() is sandbox
        assert sandbox.execute("echo x").stdout == "x\n"

    def test_stopping_twice_or_unstarted_is_fine(self, idle: Sandbox) -> None:
        idle.stop()
        idle.start()
        for purge in (False, True, True, False):
            idle.stop(purge=purge)
        assert not idle.is_alive()

    def test_it_starts_again_after_a_stop(self, sandbox: Sandbox) -> None:
        fill(sandbox, {"d/f": "kept"})
        sandbox.stop()
        for use in USES.values():
            with pytest.raises(SandboxClosedError):
                use(sandbox)
        sandbox.start()
        assert sandbox.execute("echo x").stdout == "x\n"
        assert sandbox.exists("d/f") is self.keeps_files

    def test_an_error_in_its_context_passes_through(self, idle: Sandbox) -> None:
        with pytest.raises(KeyError), idle:
            raise KeyError
        assert not idle.is_alive()

    def test_what_it_uses_is_told_in_numbers(self, sandbox: Sandbox) -> None:
        usage = sandbox.usage()
        for value in (usage.memory, usage.cpu_seconds, usage.pids):
            assert value is None or value >= 0
