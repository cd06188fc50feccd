"""One SQLite file that several processes of a host write, each through one connection.

SQLite lets one transaction write at a time, so the threads of a process share its connection and
wait for each other. A thread that has the lock and finds the connection busy replaces it: an
interrupt broke off what was done with it. No connection is open while the process forks: a child
that inherits one inherits the belief, not the locks. Each side opens its own when it next needs one.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox_kit.errors import SandboxConflictError, SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.forks import suspend_while_forking

__all__ = ["Database"]

logger = logging.getLogger("sandbox_kit")

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PRIMARY = 0xFF
"""The part of an extended result code that tells the kind of error."""


class Database:
    """A file of tables, in WAL mode; it is made at first use.

    Args:
        path: the file, on a local file system, in a directory of the user's own.
        schema: statements that make the tables.
        version: of the schema, from 1.
        application: marks the file as this application's, a 32-bit number.
        patience: how long a transaction may wait for others, in seconds.
    """

    def __init__(self, path: Path, schema: str, *, version: int, application: int, patience: float = 20.0) -> None:
        self._path = path
        self._schema = schema
        self._marks = (application, version)
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._files: dict[str, tuple[int, int]] = {}
        self._pid = 0
        self._busy = False
        self._lock = threading.RLock()
        suspend_while_forking(self)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection, None, None]:
        """Change tables: all that the block does, or after an error nothing.

        Raises:
            SandboxTimeoutError: others wrote for as long as it may wait.
            SandboxUnavailableError: the file is damaged, or cannot be read or written.
            SandboxConflictError: the file has another schema.
        """
        with self._held() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """Look at one state of the tables; raises as :meth:`transaction`."""
        with self._held() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close this process's connection; the next use opens another, of whatever file is there then."""
        with self._lock:
            self._disconnect()
            self._files.clear()

    @contextmanager
    def _held(self) -> Generator[sqlite3.Connection, None, None]:
        connection = None
        try:
            if not self._lock.acquire(timeout=self._patience):
                raise self._late()
            connection = self._connected()
            self._busy = True
            self._check_same_files()
            yield connection
        except sqlite3.Error as error:
            raise self._translated(error) from error
        finally:
            if connection is not None and connection is self._connection:
                self._busy = False
                if connection.in_transaction:
                    self._disconnect()
            try:
                self._lock.release()
            except RuntimeError:
                logger.debug("%s: the wait for it was broken off", self._path)

    def _connected(self) -> sqlite3.Connection:
        if self._busy:
            self._disconnect()
        if self._connection is not None and self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._files.pop(f"{self._path}-wal", None)
            self._connection, self._pid = self._connect(), os.getpid()
        return self._connection

    def _check_same_files(self) -> None:
        """Check that the names lead to the files that they led to at first: others do not see a change of any else.

        Raises:
            SandboxUnavailableError: one was removed or replaced.
        """
        for name in (str(self._path), f"{self._path}-wal"):
            found = _identity(name)
            if found is None or self._files.setdefault(name, found) != found:
                raise SandboxUnavailableError(f"{name} was removed or replaced while it was in use")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._patience, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise SandboxUnavailableError(f"{self._path}: the file system cannot hold a write-ahead log")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless they are there."""
        if self._marks_of(connection) == self._marks:
            return
        connection.execute("BEGIN IMMEDIATE")
        found = self._marks_of(connection)
        if found == (0, 0) and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            for statement in filter(str.strip, self._schema.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self._marks[0]}")
            connection.execute(f"PRAGMA user_version = {self._marks[1]}")
        elif found != self._marks:
            raise SandboxConflictError(
                f"{self._path} has schema {found[1]} of application {found[0]}, not {self._marks[1]} of "
                f"{self._marks[0]}: another version made it; move it away, or take another directory"
            )
        connection.execute("COMMIT")

    @staticmethod
    def _marks_of(connection: sqlite3.Connection) -> tuple[int, int]:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return application, version

    def _translated(self, error: sqlite3.Error) -> SandboxError:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
        if code in _BUSY:
            return self._late()
        if code in _DAMAGED:
            return SandboxUnavailableError(f"{self._path} is damaged: {error}")
        return SandboxUnavailableError(f"{self._path} cannot be used: {error}")

    def _late(self) -> SandboxTimeoutError:
        return SandboxTimeoutError(f"{self._path} was locked for {self._patience} s", self._patience)

    def _disconnect(self) -> None:
        connection, self._connection, self._busy = self._connection, None, False
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        self._disconnect()

    def suspend(self) -> bool:
        """Close the connection, and keep it closed; tell whether that could be done while it may be waited for."""
        held = self._lock.acquire(timeout=self._patience)
        if held:
            self._disconnect()
        return held

    def resume(self) -> None:
        """Let the next use open a connection."""
        self._lock.release()

    def renew(self) -> None:
        """Begin anew in a forked child."""
        self._lock, self._busy = threading.RLock(), False


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of what has the name *path*; None if nothing has."""
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return info.st_dev, info.st_ino


_inherited: list[sqlite3.Connection] = []
"""Those that a child got by a fork that the interpreter did not see: not even closing them is safe."""
