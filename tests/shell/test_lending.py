"""Shells that are lent, when a sweep comes while one is being opened."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.backends.shell.lending import Lending
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.backends.shell.stock import Stock
from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.host.turns import Turns

from .pipes import SHELLS, PipeDuplex

GUARD = 30.0


def turns(stock: Stock) -> Turns:
    return Turns(uuid.uuid4().hex, stock.forget)


def _of(stock: Stock) -> Lending:
    return Lending(stock, turns(stock))


class Opened:
    """Starts shells, of which the first are killed at once."""

    def __init__(self, shell: str, directory: Path, killed: int) -> None:
        self._shell = shell
        self._directory = directory
        self._killed = killed
        self.duplexes: list[PipeDuplex] = []

    def __call__(self) -> Loop:
        duplex = PipeDuplex(SHELLS[self._shell], str(self._directory))
        self.duplexes.append(duplex)
        if len(self.duplexes) <= self._killed:
            os.kill(duplex.program.pid, signal.SIGKILL)
        return Loop(duplex)


@pytest.fixture(params=sorted(SHELLS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    request.getfixturevalue("needs")(SHELLS[request.param][0])
    opened = Opened(request.param, tmp_path, 1)
    yield opened
    for duplex in opened.duplexes:
        duplex.close()


def answers(loop: Loop) -> bool:
    return loop.run("c=7", lambda *_: None, time.monotonic() + GUARD) == 7


def test_a_sweep_kills_what_is_being_opened_and_another_is_lent(opened: Opened) -> None:
    over = threading.Event()

    def start() -> Loop:
        if not opened.duplexes:
            begun = threading.Event()
            threading.Thread(target=sweep, args=(begun,)).start()
            assert begun.wait(GUARD)
        return opened()

    def sweep(begun: threading.Event) -> None:
        with stock.sweep():
            begun.set()
            over.wait(GUARD)

    stock = Stock(start)
    threading.Timer(0.5, over.set).start()
    with _of(stock).lease(None) as loop:
        assert answers(loop)
    assert len(opened.duplexes) == 2


def test_a_shell_that_dies_by_itself_is_told(opened: Opened) -> None:
    with pytest.raises(SandboxUnavailableError), _of(Stock(opened)).lease(None):
        pass


def test_a_shell_that_is_idle_is_lent_again(opened: Opened) -> None:
    stock = Stock(opened)
    with pytest.raises(SandboxUnavailableError):
        stock.open()
    lending = _of(stock)
    for _ in range(3):
        with lending.lease(None) as loop:
            assert answers(loop)
    assert len(opened.duplexes) == 2
