"""The ledger: which sessions there are, and who holds them, for all processes of one host.

Every question is one short transaction, and nothing but tables is touched within it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from sandbox_kit.sessions.database import Database
from sandbox_kit.sessions.filesystems import check_local
from sandbox_kit.sessions.layout import private_directory
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.queries import SPARE, check_same, infos, note, others, refused, taken
from sandbox_kit.sessions.schema import (
    APPLICATION,
    SCHEMA,
    VERSION,
    Ceilings,
    Granted,
    HolderState,
    Refused,
    SessionInfo,
    Taken,
)

__all__ = ["Ledger"]

_NAME = "ledger.sqlite"


class Ledger:
    """The sessions beneath one workspace root.

    Args:
        directory: where its file is; made if missing, for this user alone.
        patience: how long a question may wait for other processes, in seconds.

    Every method raises ``SandboxTimeoutError`` where others wrote all that time,
    ``SandboxUnavailableError`` where the file is damaged or cannot be used, and
    ``SandboxConflictError`` where another version of the library made it.

    Raises:
        UnsupportedError: the directory is on a file system that does not hold locks.
        SandboxConflictError: others may enter the directory.
    """

    def __init__(self, directory: Path, *, patience: float = 20.0) -> None:
        self.directory = private_directory(directory)
        check_local(directory)
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
            SandboxConflictError: the session has another tenant or runtime.

        Returns:
            ``Taken`` by *owner* itself, where a call of its own that failed has left it that way.
        """
        with self._database.transaction() as tables:
            row = tables.execute("SELECT tenant, runtime FROM sessions WHERE id = ?", (session,)).fetchone()
            if row is not None:
                check_same(session, tenant, runtime, row)
            if tables.execute(
                "SELECT 1 FROM holders WHERE session = ? AND owner = ?", (session, owner.token)
            ).fetchone():
                return Taken((owner,), waits=False)
            holding = others(tables, session, owner)
            if busy := taken(holding, alive):
                return busy
            if not holding and (refusal := refused(tables, session, tenant, ceilings, new=row is None)):
                return refusal
            if row is None:
                runtime = default_runtime if runtime is None else runtime
                tables.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (session, tenant, runtime, now, now))
            else:
                tables.execute("UPDATE sessions SET last_used = max(last_used, ?) WHERE id = ?", (now, session))
            tables.execute("INSERT INTO holders VALUES (?, ?, 'starting', NULL)", (session, owner.token))
        if row is None:
            return Granted(tenant, runtime, "new")
        return Granted(row[0], row[1], "live" if holding else "hibernated")

    def settle(self, session: str, owner: Owner, state: HolderState = "live") -> list[Owner]:
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

        Returns:
            True, False for one that was used since or is not known, or who else holds it.
        """
        with self._database.transaction() as tables:
            row = tables.execute("SELECT last_used FROM sessions WHERE id = ?", (session,)).fetchone()
            if unused_since is not None and (row is None or row[0] > unused_since):
                return False
            if holding := others(tables, session, owner):
                return Taken(tuple(each for each, _ in holding), waits=False)
            tables.execute("INSERT OR IGNORE INTO sessions VALUES (?, NULL, NULL, ?, ?)", (session, now, now))
            tables.execute("INSERT OR REPLACE INTO holders VALUES (?, ?, 'purging', NULL)", (session, owner.token))
        return True

    def unused(self, since: float) -> list[str]:
        """Return the hibernated sessions that were not used after *since*, the longest unused first."""
        query = (
            "SELECT id FROM sessions WHERE last_used <= ? AND id NOT IN (SELECT session FROM holders) "
            "ORDER BY last_used, id"
        )
        with self._database.reading() as tables:
            return [session for (session,) in tables.execute(query, (since,))]

    def held_by(self, owner: Owner) -> dict[str, HolderState]:
        """Return what *owner* does with each session that it holds, by id, sorted."""
        with self._database.reading() as tables:
            rows = tables.execute("SELECT session, state FROM holders WHERE owner = ? ORDER BY session", (owner.token,))
            return dict(rows.fetchall())

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
            ``"purging"`` where the files must go, too; None where nothing is to be done: *dead* did not hold
            it any more, or others still hold it.
        """
        with self._database.transaction() as tables:
            key = (session, dead.token)
            row = tables.execute("SELECT state FROM holders WHERE session = ? AND owner = ?", key).fetchone()
            tables.execute("DELETE FROM holders WHERE session = ? AND owner = ?", key)
            if row is None or tables.execute("SELECT 1 FROM holders WHERE session = ?", (session,)).fetchone():
                return None
            state: HolderState = "purging" if row[0] == "purging" else "stopping"
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
