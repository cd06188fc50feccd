"""Containers end by themselves when nobody cares for them any more: a lease that each started sandbox renews.

The first process of a container counts ticks in which a number stayed the same, and ends after
so many. It counts no clock, so a machine that slept loses nothing. One thread renews for all
sandboxes of a process.
"""

from __future__ import annotations

import itertools
import logging
import os
import shlex
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

from attrs import define

from sandbox_kit.errors import SandboxError
from sandbox_kit.host.aside import begin
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.host.marks import own_mark

__all__ = ["PLACE", "TICK", "ending", "keep", "listing", "renewal", "watch_script"]

PLACE = "/.sandbox-kit-lease"
"""A file system of its own, where only root may write."""

TICK = 5
"""Seconds."""

_UNLEASED = 120.0
"""Seconds that one without a lease is renewed by, for the note of who uses it."""

_RENEW = f"""\
: >{PLACE}/owner."$2" && rm -f {PLACE}/ending.* || exit
[ ! -e {PLACE}/over ] || {{ echo 'a sweep removes this container: start again'; exit 1; }}
echo "$1" >{PLACE}/new && mv {PLACE}/new {PLACE}/number"""
"""Who uses the container says so, and takes back what sweeps want that have not seen it.

A sweep says what it wants in a file of its own, then looks for users, and then gives the file another name: ``over``.
Whoever it did not see noted himself later, and so finds that file, or that it is over already: of the two that
rename and remove one file, one fails. A sweep that was killed before holds up nobody.
"""

_LIST = f"for o in {PLACE}/owner.*; do [ ! -e $o ] || echo ${{o#{PLACE}/owner.}}; done"
_log = logging.getLogger("sandbox_kit")
_counter = itertools.count()


def watch_script(lease: float | None) -> str:
    """What the first process of a container runs: it reaps orphans, and ends when its lease does or a sweep says so.

    A ``sleep`` that a command killed is no tick. Without a ``sleep`` in the image there is no end.
    """
    ticks = -1 if lease is None else max(2, round(lease / TICK))
    return (
        f"o= n=0; while :; do sleep {TICK}; s=$?; [ $s != 127 ] || break; [ $s = 0 ] || continue; "
        f"g=; read -r g 2>/dev/null <{PLACE}/number; "
        f"[ ! -e {PLACE}/over ] || exit 0; "
        f'if [ "$g" = "$o" ]; then n=$((n+1)); else o=$g n=0; fi; [ $n != {ticks} ] || exit 0; done; '
        "while read -r _; do :; done"
    )


def renewal() -> str:
    """Shell code that renews a lease, and notes that this process uses the container."""
    number = f"{os.getpid()}.{time.monotonic_ns()}.{next(_counter)}"
    return f"set -- {shlex.join([number, own_mark()])}\n{_RENEW}"


def listing(sweep: str = "") -> list[str]:
    """The arguments of a shell that prints the mark of each process that has used the container, a line each.

    Args:
        sweep: like no other's; say before that this one wants to end it.
    """
    return ["-c", f": >{PLACE}/ending.{sweep} && {_LIST}" if sweep else _LIST]


def ending(sweep: str) -> list[str]:
    """The arguments of a shell that ends the container, unless somebody began to use it since *sweep* listed who does.

    It prints something where it is over: no process begins to use it from then on, and it ends by itself.
    """
    return ["-c", f"mv {PLACE}/ending.{sweep} {PLACE}/over 2>/dev/null; [ ! -e {PLACE}/over ] || echo over"]


@define(eq=False)
class _Renewal:
    """Something to renew again and again.

    Attributes:
        renew: None once what it belongs to is gone.
        every: seconds.
        due: of the monotonic clock.
        busy: whether the last time has not ended yet.
    """

    renew: weakref.WeakMethod[Callable[[], None]]
    every: float
    due: float
    busy: bool = False


class _Renewals:
    """When to renew what, and the thread that sees to it; each renewal has one of its own, as it may hang."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with nothing to renew, as a forked child does: what its parent started is the parent's."""
        self._change = threading.Condition()
        self._all: list[_Renewal] = []
        self._served = False

    def add(self, renew: Callable[[], None], every: float) -> None:
        with self._change:
            self._all.append(_Renewal(weakref.WeakMethod(renew), every, time.monotonic() + every))
            if not self._served:
                begin(self._serve)
                self._served = True
            self._change.notify()

    def _serve(self) -> None:
        ended = False
        try:
            while not ended:
                for each in self._take_due():
                    self._start(each)
                ended = self._rest()
        finally:
            if not ended:
                self._served = False

    def _take_due(self) -> list[_Renewal]:
        now = time.monotonic()
        with self._change:
            due = [each for each in self._all if each.due <= now]
            for each in due:
                each.due = now + each.every
            ready = [each for each in due if not each.busy]
            for each in ready:
                each.busy = True
        return ready

    def _start(self, each: _Renewal) -> None:
        try:
            begin(partial(_renew, each))
        except RuntimeError:  # no more threads
            _renew(each)

    def _rest(self) -> bool:
        """Wait until something is due or new; True, and serve no longer, where nothing is left to renew."""
        with self._change:
            self._all = [each for each in self._all if each.renew() is not None]
            if not self._all:
                self._served = False
                return True
            left = min(each.due for each in self._all) - time.monotonic()
            if left > 0:
                self._change.wait(left)
        return False


def _renew(each: _Renewal) -> None:
    try:
        renew = each.renew()
        if renew is not None:
            renew()
    except SandboxError as error:
        _log.warning("the lease of a container could not be renewed: %s", error)
    except Exception:
        _log.exception("the lease of a container could not be renewed")
    finally:
        each.busy = False


_renewals = _Renewals()
renew_in_child(_renewals)


def keep(renew: Callable[[], None], lease: float | None) -> None:
    """Call *renew*, a method of something that is not kept alive by this, three times a *lease*, in seconds.

    One without a lease is renewed as well: a command of root's may have removed the note of who uses it.
    """
    _renewals.add(renew, (lease or _UNLEASED) / 3)
