"""Whom a container's commands run as: users by number, and uids that nobody else has."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import InvalidArgumentError, UnsupportedError

__all__ = ["Slots", "Users"]

_FIRST_SLOT = 2_000_000_000
_SLOTS = 1000
_BLOCKS = 147_000
"""Each handle takes uids of a block of its own, drawn by lot: another handle's commands are not to end with its own."""

_MAX_UID = 2**32 - 2
_MOST_DIGITS = 10
_TOLD_WITHIN = 10.0
"""Seconds that looking up a name may take."""

_UID = 'while IFS=: read -r name _ uid _; do [ "$name" != {user} ] || {{ echo "$uid"; break; }}; done </etc/passwd >&8'
"""Prints what the list of users has for a name."""


class Users:
    """The users of one container, by number: what a name stands for is looked up once.

    Args:
        default: whom commands run as that name nobody, ``"uid:gid"``.
        lease: lends a shell of theirs.
    """

    def __init__(self, default: str, lease: Callable[[], AbstractContextManager[Loop]]) -> None:
        self._default = default
        self._lease = lease
        self._uids: dict[str, str] = {}

    def number(self, user: str | int | None) -> str:
        """Return a user by number, with the group where one was given.

        Raises:
            InvalidArgumentError: the container knows no such user, or there can be none of that number.
        """
        name, colon, group = (self._default if user is None else str(user)).partition(":")
        if not name.isascii() or not name.isdecimal():
            if name not in self._uids:
                self._uids[name] = self._looked_up(name)
            name = self._uids[name]
        if len(name) > _MOST_DIGITS or int(name) > _MAX_UID:
            raise InvalidArgumentError(f"user: no user has the number {name[:20]}")
        return f"{int(name)}{colon}{group}"

    def _looked_up(self, name: str) -> str:
        """A user's uid: the engine says less reliably that there is none."""
        told = bytearray()
        with self._lease() as loop:
            deadline = time.monotonic() + _TOLD_WITHIN
            loop.run(_UID.format(user=shlex.quote(name)), lambda _, data: told.extend(data), deadline)
        uid = told.decode(errors="replace").strip()
        if not uid.isdecimal():
            raise InvalidArgumentError(f"user: the sandbox has no user {name!r}")
        return str(int(uid))


class Slots:
    """Uids for background commands, one each: a user is what can be killed as a whole.

    Args:
        group: of all of them, a number or nothing.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._lock = threading.Lock()
        self._first = _FIRST_SLOT + _SLOTS * secrets.randbelow(_BLOCKS)
        self._taken: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether any is taken."""
        with self._lock:
            return bool(self._taken)

    def take(self) -> int:
        """Return a uid that is free.

        Raises:
            UnsupportedError: none is.
        """
        with self._lock:
            uid = next((uid for uid in range(self._first, self._first + _SLOTS) if uid not in self._taken), None)
            if uid is None:
                raise UnsupportedError(f"no more than {_SLOTS} background commands run at once")
            self._taken.add(uid)
        return uid

    def free(self, uid: int) -> None:
        """Let others have a uid."""
        with self._lock:
            self._taken.discard(uid)

    def user(self, uid: int) -> str:
        """Return a uid with the group, ``"uid:gid"``."""
        return f"{uid}:{self._group}"

    def abandon(self) -> None:
        """Forget the lock, in a forked child, where nobody will open it."""
        self._lock = threading.Lock()
