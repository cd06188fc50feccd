"""The ledger: which sessions there are, and who holds them, for all processes of one host.

Every question is one short transaction, and nothing but tables is touched within it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from sqlite3 import Connection

from attrs import evolve

from sandbox_kit.host.private import private_directory
from sandbox_kit.sessions.database import Database
from sandbox_kit.sessions.filesystems import check_local
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.queries import SPARE, check_same, infos, note, others, refused, taken, terms_of
from sandbox_kit.sessions.schema import (
    APPLICATION,
    SCHEMA,
    VERSION,
    Ceilings,
    Granted,
    HolderState,
    Holding,
    Refused,
    SessionInfo,
    SessionTerms,
    Taken,
)

__all__ = ["Ledger"]

_NAME = "ledger.sqlite"


class Ledger:
    """The sessions beneath one workspace root.

    Args:
        directory: where its file is; made if missing, for this user alone.
        backend: what makes the sandboxes of those who ask: what they hold and purge is of that one.
        mortal: backends whose sandboxes end with their process: anybody gives back what dead owners held of these.
        patience: how long a question may wait for other processes, in seconds.

    Every method raises ``SandboxTimeoutError`` where others wrote all that time,
    ``SandboxUnavailableError`` where the file is damaged or cannot be used, and
    ``SandboxConflictError`` where another version of the library made it.

    Raises:
        UnsupportedError: the directory is on a file system that does not hold locks.
        SandboxConflictError: others may enter the directory.
    """

    def __init__(self, directory: Path, *, backend: str, mortal: Collection[str] = (), patience: float = 20.0) -> None:
        self.directory = private_directory(directory)
        check_local(directory)
        self._backend = backend
        self._recovered = {backend, *mortal}
        self._database = Database(
            directory / _NAME, SCHEMA, version=VERSION, application=APPLICATION, patience=patience
        )

    def close(self) -> None:
        """Close this process's connection; the next question opens another."""
        self._database.close()

    def enrol(self, owner: Owner) -> None:
        """Let *owner*, whose lock is held, hold sessions."""
        with self._database.transaction() as tables:
            tables.execute("INSERT INTO owners VALUES (?, ?, ?, ?)", (owner.token, owner.pid, owner.start, owner.boot))

    def owners(self) -> list[Owner]:
        """Return everyone who was enrolled and not dismissed."""
        with self._database.reading() as tables:
            return [Owner(*row) for row in tables.execute("SELECT token, pid, start, boot FROM owners")]

    def dismiss(self, owner: Owner) -> bool:
        """Forget *owner*; return False, and do nothing, where it still holds a session."""
        with self._database.transaction() as tables:
            if tables.execute("SELECT 1 FROM holders WHERE owner = ?", (owner.token,)).fetchone():
                return False
            tables.execute("DELETE FROM owners WHERE token = ?", (owner.token,))
        return True

    def claim(
        self,
        session: str,
        owner: Owner,
        *,
        tenant: str | None,
        runtime: str | None,
        ceilings: Ceilings,
        now: float,
        default_runtime: str | None = None,
        alive: Collection[str] = (),
    ) -> Granted | Taken | Refused:
        """Hold a session, as one that starts.

        Args:
            tenant: whom a new session counts for; None takes that of an old one.
            runtime: the alias of a new one's profile; None takes that of an old one, or *default_runtime*.
            ceilings: none is exceeded, however many processes ask.
            now: the time, in seconds since the epoch.
            alive: tokens of owners known to live.

        Raises:
            SandboxConflictError: the session has another tenant, runtime or backend.

        Returns:
            ``Taken`` by *owner* itself, where a call of its own that failed has left it that way.
        """
        asked = SessionTerms(tenant, runtime, self._backend)
        with self._database.transaction() as tables:
            own = terms_of(tables, session)
            if own is not None:
                check_same(session, asked, own)
            if tables.execute(
                "SELECT 1 FROM holders WHERE session = ? AND owner = ?", (session, owner.token)
            ).fetchone():
                return Taken((owner,), waits=False)
            holding = others(tables, session, owner)
            if busy := taken(holding, alive):
                return busy
            if not holding and (refusal := refused(tables, session, tenant, ceilings, new=own is None)):
                return refusal
            granted = self._granted(tables, session, own, asked, default_runtime, now, joins=bool(holding))
            tables.execute("INSERT INTO holders VALUES (?, ?, 'starting', NULL)", (session, owner.token))
        return granted

    def _granted(
        self,
        tables: Connection,
        session: str,
        own: SessionTerms | None,
        asked: SessionTerms,
        default_runtime: str | None,
        now: float,
        *,
        joins: bool,
    ) -> Granted:
        """Note that a session is used, a new one on the terms that it is asked for on."""
        if own is None:
            terms = evolve(asked, runtime=default_runtime if asked.runtime is None else asked.runtime)
            self._add(tables, session, terms, now)
            return Granted(terms, "new")
        note(tables, {session: now})
        return Granted(own, "live" if joins else "hibernated")

    def _add(self, tables: Connection, session: str, terms: SessionTerms, now: float) -> None:
        row = (session, terms.tenant, terms.runtime, terms.backend, now, now)
        tables.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)

    def set_state(self, session: str, owner: Owner, state: HolderState = "live") -> list[Owner]:
        """Say what *owner* does with a session that it holds; return who else holds it."""
        with self._database.transaction() as tables:
            tables.execute(
                "UPDATE holders SET state = ? WHERE session = ? AND owner = ?", (state, session, owner.token)
            )
            return [each for each, _ in others(tables, session, owner)]

    def release(self, session: str, owner: Owner, *, last_used: float | None = None) -> bool:
        """Hold a session no more; return whether nobody does now.

        Args:
            last_used: when it was last used, in seconds since the epoch; None for no news.
        """
        with self._database.transaction() as tables:
            tables.execute("DELETE FROM holders WHERE session = ? AND owner = ?", (session, owner.token))
            if last_used is not None:
                note(tables, {session: last_used})
            return not others(tables, session, owner)

    def leave(self, session: str, owner: Owner, *, last_used: float) -> bool:
        """Hold a session no more, if others hold it; return whether they do. If two leave at once, one stays.

        Args:
            last_used: when it was last used, in seconds since the epoch.
        """
        with self._database.transaction() as tables:
            if not others(tables, session, owner):
                return False
            tables.execute("DELETE FROM holders WHERE session = ? AND owner = ?", (session, owner.token))
            note(tables, {session: last_used})
            return True

    def forget(self, session: str) -> None:
        """Forget a session and who holds it: its files are gone."""
        with self._database.transaction() as tables:
            tables.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def claim_purge(self, session: str, owner: Owner, *, now: float, unused_since: float | None = None) -> Taken | bool:
        """Hold a session that nobody holds, to purge it; one that is not known is then.

        Args:
            now: the time, in seconds since the epoch.
            unused_since: only a known one that was not used after that time, in seconds since the epoch.

        Raises:
            SandboxConflictError: the session has another backend.

        Returns:
            True, False for one that was used since or is not known, or who else holds it.
        """
        with self._database.transaction() as tables:
            row = tables.execute("SELECT last_used FROM sessions WHERE id = ?", (session,)).fetchone()
            if unused_since is not None and (row is None or row[0] > unused_since):
                return False
            if holding := self._others(tables, session, owner):
                return Taken(tuple(holding), waits=False)
            if row is None:
                self._add(tables, session, SessionTerms(None, None, self._backend), now)
            tables.execute("INSERT OR REPLACE INTO holders VALUES (?, ?, 'purging', NULL)", (session, owner.token))
        return True

    def claim_unknown(self, session: str, owner: Owner, *, now: float) -> bool:
        """Hold a session that is not known, to look whether it may go; tell whether it was not.

        Args:
            now: the time, in seconds since the epoch.
        """
        with self._database.transaction() as tables:
            if terms_of(tables, session) is not None:
                return False
            self._add(tables, session, SessionTerms(None, None, self._backend), now)
            tables.execute("INSERT INTO holders VALUES (?, ?, 'checking', NULL)", (session, owner.token))
        return True

    def claim_idle(self, session: str, owner: Owner, *, unused_since: float) -> bool:
        """Hold a hibernated session, to clear away what its sandbox keeps; tell whether that was done.

        Args:
            unused_since: only one that was not used after that time, in seconds since the epoch.
        """
        query = (
            "SELECT 1 FROM sessions WHERE id = ? AND backend = ? AND last_used <= ? "
            "AND id NOT IN (SELECT session FROM holders)"
        )
        with self._database.transaction() as tables:
            if tables.execute(query, (session, self._backend, unused_since)).fetchone() is None:
                return False
            tables.execute("INSERT INTO holders VALUES (?, ?, 'clearing', NULL)", (session, owner.token))
        return True

    def other_holders(self, session: str, owner: Owner) -> list[Owner]:
        """Return who else holds a session.

        Raises:
            SandboxConflictError: the session has another backend.
        """
        with self._database.reading() as tables:
            return self._others(tables, session, owner)

    def _others(self, tables: Connection, session: str, owner: Owner) -> list[Owner]:
        own = terms_of(tables, session)
        if own is not None:
            check_same(session, SessionTerms(None, None, self._backend), own)
        return [each for each, _ in others(tables, session, owner)]

    def unused(self, since: float) -> list[str]:
        """Return the hibernated sessions that were not used after *since*, the longest unused first."""
        query = (
            "SELECT id FROM sessions WHERE last_used <= ? AND backend = ? "
            "AND id NOT IN (SELECT session FROM holders) ORDER BY last_used, id"
        )
        with self._database.reading() as tables:
            return [session for (session,) in tables.execute(query, (since, self._backend))]

    def held_by(self, owner: Owner) -> list[str]:
        """Return the sessions that *owner* holds and that may be given back from here, sorted."""
        return [session for session, backend in self._held(owner) if backend in self._recovered]

    def backends_held_by(self, owner: Owner) -> set[str]:
        """Return the backends of what *owner* holds and that may not be given back from here."""
        return {backend for _, backend in self._held(owner)} - self._recovered

    def _held(self, owner: Owner) -> list[tuple[str, str]]:
        query = "SELECT session, backend FROM holders JOIN sessions ON id = session WHERE owner = ? ORDER BY id"
        with self._database.reading() as tables:
            return tables.execute(query, (owner.token,)).fetchall()

    def holding(self, session: str, owner: Owner) -> Holding | None:
        """Return what *owner* has of a session; None where it does not hold it."""
        query = (
            "SELECT state, backend, runtime, last_used FROM holders JOIN sessions ON id = session "
            "WHERE session = ? AND owner = ?"
        )
        with self._database.reading() as tables:
            row = tables.execute(query, (session, owner.token)).fetchone()
        return None if row is None else Holding(*row)

    def offer(self, owner: Owner, spare: Collection[str]) -> list[str]:
        """Say which of its sessions *owner* would hibernate to make room.

        Returns:
            Those of them that another owner wants hibernated.
        """
        with self._database.reading() as tables:
            rows = dict(tables.execute("SELECT session, room FROM holders WHERE owner = ?", (owner.token,)).fetchall())
        if {session for session in rows if rows[session]} != rows.keys() & set(spare):
            with self._database.transaction() as tables:
                tables.executemany(
                    "UPDATE holders SET room = CASE WHEN ? THEN coalesce(room, 'spare') END "
                    "WHERE session = ? AND owner = ?",
                    [(session in spare, session, owner.token) for session in rows],
                )
        return [session for session in rows if session in spare and rows[session] == "wanted"]

    def want_room(self, owner: Owner) -> bool:
        """Want the least recently used session that another owner has to spare, unless one is wanted already.

        Returns:
            Whether one is wanted now.
        """
        with self._database.transaction() as tables:
            row = tables.execute(SPARE, (owner.token,)).fetchone()
            if row is not None and row[1] == "spare":
                tables.execute("UPDATE holders SET room = 'wanted' WHERE session = ?", row[:1])
        return row is not None

    def take_over(self, session: str, dead: Owner, owner: Owner) -> HolderState | None:
        """Hold what *dead*, who lives no more, held of a session.

        Returns:
            ``"stopping"`` where *owner* holds it now and must see that the sandbox is gone,
            ``"purging"`` where the files must go, too, ``"checking"`` where the session is to be forgotten; None
            where nothing is to be done: *dead* did not hold it any more, or others still hold it.
        """
        with self._database.transaction() as tables:
            key = (session, dead.token)
            row = tables.execute("SELECT state FROM holders WHERE session = ? AND owner = ?", key).fetchone()
            tables.execute("DELETE FROM holders WHERE session = ? AND owner = ?", key)
            if row is None or tables.execute("SELECT 1 FROM holders WHERE session = ?", (session,)).fetchone():
                return None
            state: HolderState = row[0] if row[0] in ("purging", "checking") else "stopping"
            tables.execute("INSERT INTO holders VALUES (?, ?, ?, NULL)", (session, owner.token, state))
        return state

    def touch(self, times: Mapping[str, float]) -> None:
        """Note when sessions were last used, in seconds since the epoch; only a later one than is noted counts."""
        if times:
            with self._database.transaction() as tables:
                note(tables, times)

    def session(self, session: str) -> SessionInfo | None:
        """Return one session, None where there is no such one."""
        with self._database.reading() as tables:
            return next(iter(infos(tables, "WHERE id = ?", (session,))), None)

    def sessions(self) -> list[SessionInfo]:
        """Return every session, sorted by id."""
        with self._database.reading() as tables:
            return infos(tables, "", ())
