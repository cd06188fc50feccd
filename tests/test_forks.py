"""Whatever a process forks amidst of, parent and child both go on."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from sandbox_kit.host.forks import ForkedFreeLock, abandon_in_child, renew_in_child, suspend_while_forking

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

WITHIN = 60


class Told:
    """Keeps what it is told.

    Attributes:
        rests: whether it can be had at rest.
    """

    def __init__(self, rests: bool = True) -> None:
        self.log: list[str] = []
        self.rests = rests

    def abandon(self) -> None:
        self.log.append("abandon")

    def renew(self) -> None:
        self.log.append("renew")

    def suspend(self) -> bool:
        self.log.append("suspend")
        return self.rests

    def resume(self) -> None:
        self.log.append("resume")


def in_child(act: Callable[[], bool]) -> bool:
    """What *act* returns in a forked child, which is killed if it does not end."""
    child = os.fork()
    if child == 0:
        signal.alarm(WITHIN)
        try:
            os._exit(0 if act() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_useless_in_a_child_is_abandoned_there_once() -> None:
    told = Told()
    abandon_in_child(told)
    assert in_child(lambda: told.log == ["abandon"] and in_child(lambda: told.log == ["abandon"]))
    assert told.log == []


def test_what_a_child_goes_on_with_is_renewed_in_each_generation() -> None:
    told = Told()
    renew_in_child(told)
    assert in_child(lambda: told.log == ["renew"] and in_child(lambda: told.log == ["renew", "renew"]))
    assert told.log == []


@pytest.mark.parametrize("rests", [True, False])
def test_what_must_be_at_rest_is_so_for_each_fork_and_resumed_only_if_it_was(rests: bool) -> None:
    told = Told(rests)
    suspend_while_forking(told)
    assert in_child(lambda: told.log == ["suspend", "renew"])
    assert told.log == ["suspend", *(["resume"] if rests else [])]
    assert in_child(lambda: in_child(lambda: told.log[-2:] == ["suspend", "renew"]))


def test_what_is_gone_is_told_nothing() -> None:
    log = (told := Told()).log
    for tell in (abandon_in_child, renew_in_child, suspend_while_forking):
        tell(told)
    del told
    gc.collect()
    assert in_child(lambda: log == [])


def test_several_threads_may_fork_at_once() -> None:
    told, answers = Told(), list[bool]()
    suspend_while_forking(told)

    def work() -> None:
        answers.extend(in_child(lambda: told.log[-2:] == ["suspend", "renew"]) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    assert answers == [True] * 20
    assert told.log == ["suspend", "resume"] * 20


def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    lock, held, go_on = ForkedFreeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go_on.wait(WITHIN)

    def take() -> bool:
        with lock, lock:
            return True

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(WITHIN)
    assert in_child(take)
    go_on.set()
    thread.join(WITHIN)
    assert take()


def test_a_lock_of_the_thread_that_forks_stays_its_own() -> None:
    lock = ForkedFreeLock()

    def others_wait() -> bool:
        taken = threading.Event()

        def take() -> None:
            with lock:
                taken.set()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        return not taken.wait(0.2)

    child = None
    with lock:
        child = os.fork()
        waits = others_wait() if child == 0 else True
    if child == 0:
        os._exit(0 if waits else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
