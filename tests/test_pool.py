"""A pool keeps sandboxes ready, hands each out once, tells of what fails, and leaves nothing."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import guarding, warm
from sandbox_kit import pool as pools
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    SandboxClosedError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.pool import SandboxPool
from sandbox_kit.registry import register_backend
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.spec import SandboxSpec

pytestmark = pytest.mark.skipif(os.name != "posix", reason="local commands need a POSIX system")

HANGS_AFTER = 30.0
CLOSES_AT_EXIT = """
import atexit, os, time
from sandbox_kit import SandboxPool, SandboxSpec

def close():
    pool.close()
    print([os.path.exists(place) for place in ready])

pool = SandboxPool(SandboxSpec("local"), min_idle=2).start()
while pool.idle < 2:
    time.sleep(0.01)
ready = [each.work_dir for each in pool._idle]
atexit.register(close)
"""
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])


class Staged(LocalSandbox):
    """A sandbox whose starts and whose end do as a test says."""

    started: list[Staged]
    most_at_once: int
    starting: int
    act: Callable[[], object]
    lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self.dead = False
        self.looked_at: Callable[[], object] = bool
        self.at_end: Callable[[], object] = bool
        self.purged = threading.Event()

    def start(self) -> Staged:
        with self.lock:
            Staged.starting += 1
            Staged.most_at_once = max(Staged.most_at_once, Staged.starting)
        try:
            Staged.act()
            super().start()
            Staged.started.append(self)
        finally:
            with self.lock:
                Staged.starting -= 1
        return self

    def _is_alive(self) -> bool:
        self.looked_at()
        return not self.dead and super()._is_alive()

    def _stop(self, purge: bool) -> None:
        self.at_end()
        super()._stop(purge)
        if purge:
            self.purged.set()


register_backend("test-staged", f"{__name__}:Staged")
STAGED = SandboxSpec("test-staged")


@pytest.fixture(autouse=True)
def staged(monkeypatch: pytest.MonkeyPatch) -> type[Staged]:
    for name, value in {"started": [], "most_at_once": 0, "starting": 0}.items():
        monkeypatch.setattr(Staged, name, value, raising=False)
    monkeypatch.setattr(Staged, "act", staticmethod(lambda: None), raising=False)
    return Staged


@pytest.fixture
def acting(staged: type[Staged], monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has each start do something first."""
    return lambda act: monkeypatch.setattr(staged, "act", staticmethod(act))


@pytest.fixture
def held(acting: Callable[[Callable[[], object]], None]) -> Iterator[threading.Event]:
    """Starts go no further until this is set."""
    event = threading.Event()
    acting(lambda: event.wait(HANGS_AFTER))
    yield event
    event.set()


def fail() -> None:
    raise SandboxUnavailableError("out of order")


def break_down() -> None:
    raise OSError("broken")


def in_line(pool: SandboxPool, number: int) -> bool:
    return eventually(lambda: len(pool._waiting) == number)


def eventually(condition: Callable[[], object]) -> bool:
    until = time.monotonic() + HANGS_AFTER
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def full(pool: SandboxPool) -> SandboxPool:
    assert eventually(lambda: pool.idle == pool.min_idle)
    return pool


def test_what_is_handed_out_is_ready_and_alone(staged: type[Staged]) -> None:
    with SandboxPool(STAGED, min_idle=2) as pool:
        full(pool)
        with pool.acquire() as first, pool.acquire() as second:
            first.write("file", "x")
            assert not second.exists("file")
            assert first.execute("cat file").stdout == "x"
            assert first.id != second.id
        full(pool)
    assert all(each.purged.is_set() for each in staged.started)
    assert len(staged.started) == 4


def test_one_that_was_handed_out_never_returns() -> None:
    seen = set()
    with SandboxPool(STAGED) as pool:
        for _ in range(5):
            with pool.acquire() as sandbox:
                seen.add(sandbox.id)
            with pytest.raises(SandboxClosedError, match="acquire"):
                sandbox.execute("true")
            with pytest.raises(SandboxClosedError, match="acquire"):
                sandbox.start()
            assert not sandbox.is_alive()
    assert len(seen) == 5


def test_its_rules_hold() -> None:
    with SandboxPool(SandboxSpec("local", {}, RULES, "inspected")) as pool, pool.acquire() as sandbox:
        sandbox.write("file", "x")
        with pytest.raises(PermissionDeniedError):
            sandbox.write(".env", "x")


def test_a_guard_over_it_holds_too() -> None:
    with SandboxPool(STAGED) as pool, guarding(pool.acquire(), RULES, commands="inspected") as sandbox:
        sandbox.write("file", "x")
        with pytest.raises(PermissionDeniedError):
            sandbox.write(".env", "x")
        assert sandbox.execute("cat file").stdout == "x"


def test_one_that_died_is_not_handed_out(staged: type[Staged]) -> None:
    with full(SandboxPool(STAGED, min_idle=2).start()) as pool:
        dead = staged.started[0]
        dead.dead = True
        with pool.acquire() as first, pool.acquire() as second:
            assert dead.id not in (first.id, second.id)
        assert dead.purged.wait(HANGS_AFTER)


def test_no_more_are_started_at_once_than_starters(staged: type[Staged], held: threading.Event) -> None:
    with SandboxPool(STAGED, min_idle=6, starters=3) as pool:
        assert eventually(lambda: staged.starting == 3)
        held.set()
        full(pool)
    assert staged.most_at_once == 3


def test_more_are_started_than_are_kept_where_more_are_waited_for() -> None:
    with SandboxPool(STAGED, min_idle=0) as pool, ThreadPoolExecutor(4) as threads:
        sandboxes = list(threads.map(lambda _: pool.acquire(HANGS_AFTER), range(4)))
        assert len({each.id for each in sandboxes}) == 4
        assert pool.idle == 0


def test_there_are_never_more_than_the_total(staged: type[Staged]) -> None:
    with full(SandboxPool(STAGED, min_idle=1, max_total=2).start()) as pool:
        first, second = pool.acquire(), pool.acquire()
        with pytest.raises(SandboxTimeoutError):
            pool.acquire(timeout=0.05)
        assert len(staged.started) == 2
        first.stop(purge=True)
        third = pool.acquire(HANGS_AFTER)
        del second
        gc.collect()
        with pool.acquire(HANGS_AFTER) as fourth:
            assert fourth.id != third.id


def test_whoever_waited_first_is_served_first(staged: type[Staged], held: threading.Event) -> None:
    with SandboxPool(STAGED, min_idle=0, starters=1) as pool, ThreadPoolExecutor(3) as threads:
        asked = []
        for number in range(3):
            asked.append(threads.submit(pool.acquire, HANGS_AFTER))
            assert in_line(pool, number + 1)
        held.set()
        taken = [each.result(HANGS_AFTER) for each in asked]
    assert [each.id for each in taken] == [each.id for each in staged.started]


def test_whoever_was_given_a_dead_one_keeps_the_place_in_line(staged: type[Staged], held: threading.Event) -> None:
    held.set()
    with full(SandboxPool(STAGED, starters=1).start()) as pool, ThreadPoolExecutor(2) as threads:
        held.clear()
        dead, second_is_in_line = staged.started[0], threading.Event()
        dead.dead, dead.looked_at = True, partial(second_is_in_line.wait, HANGS_AFTER)
        first = threads.submit(pool.acquire, HANGS_AFTER)
        assert eventually(lambda: not pool.idle)
        second = threads.submit(pool.acquire, HANGS_AFTER)
        assert in_line(pool, 1)
        second_is_in_line.set()
        assert in_line(pool, 2)
        held.set()
        taken = [first.result(HANGS_AFTER).id, second.result(HANGS_AFTER).id]
    assert taken == [each.id for each in staged.started[1:3]]


def test_the_wait_for_one_ends(held: threading.Event) -> None:
    with SandboxPool(STAGED) as pool:
        with pytest.raises(SandboxTimeoutError) as caught:
            pool.acquire(timeout=0.05)
        assert caught.value.timeout == 0.05
        held.set()
        with pool.acquire(timeout=None):
            pass


def test_a_start_that_fails_is_told_to_whoever_waits(acting: Callable[[Callable[[], object]], None]) -> None:
    acting(fail)
    with SandboxPool(STAGED, min_idle=0) as pool:
        for _ in range(2):
            with pytest.raises(SandboxUnavailableError, match="out of order") as caught:
                pool.acquire()
            assert isinstance(caught.value.__cause__, SandboxUnavailableError)
        acting(lambda: None)
        with pool.acquire() as sandbox:
            assert sandbox.execute("echo on").stdout == "on\n"


@pytest.fixture
def one_fails(acting: Callable[[Callable[[], object]], None]) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first start fails once the first event is set, the others go on once the second is."""

    def act() -> None:
        if next(numbers):
            others_go_on.wait(HANGS_AFTER)
        else:
            first_fails.wait(HANGS_AFTER)
            fail()

    numbers, first_fails, others_go_on = count(), threading.Event(), threading.Event()
    acting(act)
    yield first_fails, others_go_on
    first_fails.set()
    others_go_on.set()


def test_a_start_that_fails_is_told_to_the_first_in_line_alone(
    staged: type[Staged], one_fails: tuple[threading.Event, threading.Event]
) -> None:
    first_fails, others_go_on = one_fails
    with SandboxPool(STAGED, min_idle=0, starters=3) as pool, ThreadPoolExecutor(3) as threads:
        asked = []
        for number in range(3):
            asked.append(threads.submit(pool.acquire, HANGS_AFTER))
            assert in_line(pool, number + 1)
        first_fails.set()
        assert isinstance(asked[0].exception(HANGS_AFTER), SandboxUnavailableError)
        others_go_on.set()
        assert {each.result(HANGS_AFTER).id for each in asked[1:]} == {each.id for each in staged.started}


def test_a_start_that_fails_is_told_to_nobody_where_others_are_under_way_for_all(
    one_fails: tuple[threading.Event, threading.Event],
) -> None:
    first_fails, others_go_on = one_fails
    with SandboxPool(STAGED, min_idle=2, starters=2) as pool, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(pool.acquire, HANGS_AFTER)
        assert in_line(pool, 1)
        first_fails.set()
        assert eventually(lambda: pool._resting)
        others_go_on.set()
        assert asked.result(HANGS_AFTER).is_alive()


def test_each_of_those_who_wait_is_told_of_a_failure_of_their_own(
    acting: Callable[[Callable[[], object]], None],
) -> None:
    acting(fail)
    with SandboxPool(STAGED, min_idle=0, starters=1) as pool, ThreadPoolExecutor(4) as threads:
        errors = [threads.submit(pool.acquire, None) for _ in range(4)]
        causes = [error.__cause__ for each in errors if (error := each.exception(HANGS_AFTER)) is not None]
    assert len(set(map(id, causes))) == 4


def test_where_no_thread_can_be_started_whoever_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with SandboxPool(STAGED, min_idle=0) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(pools, "begin", no_thread)
            with pytest.raises(SandboxUnavailableError, match="no more threads"):
                pool.acquire()
        with pool.acquire() as sandbox:
            assert sandbox.is_alive()


def no_thread(work: object) -> None:
    raise RuntimeError("no more threads")


def test_starts_that_fail_are_repeated_with_pauses(
    acting: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_and_count() -> None:
        tries.append(time.monotonic())
        fail()

    tries: list[float] = []
    monkeypatch.setattr(pools, "_FIRST_PAUSE", 0.05)
    acting(fail_and_count)
    with SandboxPool(STAGED, min_idle=1, starters=1) as failing:
        assert eventually(lambda: len(tries) == 4)
        acting(lambda: None)
        full(failing)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True))


def test_closing_ends_what_is_ready_and_tells_who_waits(staged: type[Staged]) -> None:
    pool = full(SandboxPool(STAGED, min_idle=3).start())
    pool.close()
    pool.close()
    assert all(each.purged.is_set() for each in staged.started)
    assert pool.idle == 0
    with pytest.raises(SandboxClosedError, match="start"):
        pool.acquire()


def test_closing_tells_who_waits_and_ends_what_is_being_started(staged: type[Staged], held: threading.Event) -> None:
    pool = SandboxPool(STAGED, min_idle=2).start()
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(pool.acquire, None)
        assert eventually(lambda: staged.starting == 2)
        closing = threads.submit(pool.close)
        assert isinstance(waiting.exception(HANGS_AFTER), SandboxClosedError)
        held.set()
        closing.result(HANGS_AFTER)
    assert [each.purged.is_set() for each in staged.started] == [True, True]


def test_closing_goes_on_where_one_cannot_be_ended(
    staged: type[Staged], held: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    held.set()
    with ThreadPoolExecutor(1) as threads, pytest.MonkeyPatch.context() as patch:
        pool = full(SandboxPool(STAGED, min_idle=2).start())
        held.clear()
        sandbox = pool.acquire()
        assert eventually(lambda: staged.starting == 1)
        broken = pool._idle[0]
        patch.setattr(broken, "at_end", break_down)
        closing = threads.submit(pool.close)
        assert eventually(lambda: "could not be removed: broken" in caplog.text)
        held.set()
        closing.result(HANGS_AFTER)
    sandbox.stop(purge=True)
    assert [each for each in staged.started if not each.purged.is_set()] == [broken]
    broken.stop(purge=True)


def test_closing_ends_all_where_no_thread_can_be_started(staged: type[Staged], monkeypatch: pytest.MonkeyPatch) -> None:
    pool = full(SandboxPool(STAGED, min_idle=3).start())
    monkeypatch.setattr(warm, "begin", no_thread)
    pool.close()
    assert [each.purged.is_set() for each in staged.started] == [True] * 3


def test_it_can_be_closed_as_the_process_exits() -> None:
    command = [sys.executable, "-W", "error", "-c", CLOSES_AT_EXIT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=10 * HANGS_AFTER)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[False, False]\n", "")


def test_one_in_use_outlives_the_pool() -> None:
    with SandboxPool(STAGED) as pool:
        sandbox = pool.acquire()
    assert sandbox.execute("echo on").stdout == "on\n"
    sandbox.stop(purge=True)


def test_it_can_be_started_again() -> None:
    pool = SandboxPool(STAGED)
    for _ in range(2):
        with pool, pool.acquire() as sandbox:
            assert sandbox.is_alive()


def test_a_pool_that_is_dropped_leaves_nothing(staged: type[Staged]) -> None:
    pool = full(SandboxPool(STAGED, min_idle=2).start())
    places = [each.work_dir for each in staged.started]
    staged.started.clear()
    del pool
    assert eventually(lambda: gc.collect() is not None and not any(map(os.path.exists, places)))


def test_before_the_start_it_says_how_to_start() -> None:
    with pytest.raises(SandboxClosedError, match="start"):
        SandboxPool(STAGED).acquire()


def test_it_does_not_travel() -> None:
    with SandboxPool(STAGED) as pool, pool.acquire() as sandbox:
        with pytest.raises(TypeError, match="spec"):
            pickle.dumps(pool)
        with pytest.raises(TypeError, match="acquire"):
            pickle.dumps(sandbox)


def test_a_forked_child_takes_nothing_of_its_parents(staged: type[Staged]) -> None:
    with full(SandboxPool(STAGED, min_idle=2).start()) as pool:
        if not (child := os.fork()):
            os._exit(_in_child(pool))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert all(os.path.exists(each.work_dir) for each in staged.started)
        with pool.acquire() as sandbox:
            assert sandbox.execute("echo on").stdout == "on\n"


def _in_child(pool: SandboxPool) -> int:
    try:
        pool.acquire()
    except SandboxClosedError:
        pool.close()
        with pool, pool.acquire() as own:
            return 0 if own.execute("echo on").stdout == "on\n" else 2
    return 1


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_no_thread_is_left(acting: Callable[[Callable[[], object]], None]) -> None:
    with SandboxPool(STAGED) as pool, pool.acquire():
        pass
    before = threads()
    for act in (lambda: None, fail):
        acting(act)
        with SandboxPool(STAGED, min_idle=3) as pool:
            eventually(lambda: pool.idle == 3 or pool._resting)
    assert eventually(lambda: threads() <= before)


@pytest.mark.parametrize(
    "options",
    [
        {"min_idle": -1},
        {"min_idle": 1.5},
        {"min_idle": True},
        {"max_total": 0},
        {"min_idle": 3, "max_total": 2},
        {"starters": 0},
        {"spec": "local"},
    ],
    ids=str,
)
def test_what_no_pool_can_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        SandboxPool(**{"spec": STAGED, **options})


def test_what_a_sandbox_cannot_be_is_told_at_the_start(tmp_path: Path) -> None:
    for spec in (SandboxSpec("state"), SandboxSpec("local", {"root": tmp_path}), SandboxSpec("local", {"no": 1})):
        with pytest.raises(InvalidArgumentError):
            SandboxPool(spec).start()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1"])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with SandboxPool(STAGED) as pool, pytest.raises(InvalidArgumentError, match="timeout"):
        pool.acquire(timeout)


def test_many_threads_each_get_their_own(staged: type[Staged]) -> None:
    def use(number: int) -> str:
        with busy.acquire(HANGS_AFTER) as sandbox:
            sandbox.write("mine", str(number))
            assert sandbox.execute("cat mine").stdout == str(number)
            return sandbox.id

    with SandboxPool(STAGED, min_idle=2, max_total=6, starters=3) as busy, ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(use, range(40)))) == 40
    assert all(each.purged.is_set() for each in staged.started)
