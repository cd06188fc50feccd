"""What the ledger asks its tables, within a transaction of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping

from sandbox_kit.errors import SandboxConflictError
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.schema import Ceilings, HolderState, Refused, SessionInfo, SessionTerms, State, Taken

__all__ = ["SPARE", "check_same", "infos", "note", "others", "refused", "taken", "terms_of"]

SPARE = (
    "SELECT session, room FROM holders AS one JOIN sessions ON id = session WHERE owner <> ? AND room IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM holders WHERE session = id AND owner <> one.owner) "
    "ORDER BY room = 'spare', last_used LIMIT 1"
)
"""Of the sessions that one other owner alone holds, one that is wanted, or the least recently used one to spare."""

_KNOWN = "SELECT count(*) FROM sessions"
_OF_TENANT = "SELECT count(*) FROM sessions WHERE tenant = ?"
_RESIDENT = (
    "SELECT count(DISTINCT session) FROM holders WHERE session <> ? AND state IN ('starting', 'live', 'stopping')"
)


def check_same(session: str, asked: SessionTerms, own: SessionTerms) -> None:
    """Check that what was asked for, if anything, is the session's own.

    Raises:
        SandboxConflictError: it is not; names what differs.
    """
    if asked.backend != own.backend:
        raise SandboxConflictError(f"session {session} belongs to the backend {own.backend!r}, not {asked.backend!r}")
    for name, wanted, has in (("tenant", asked.tenant, own.tenant), ("runtime", asked.runtime, own.runtime)):
        if wanted is not None and wanted != has:
            raise SandboxConflictError(f"session {session} has another {name} than {wanted!r}")


def terms_of(tables: sqlite3.Connection, session: str) -> SessionTerms | None:
    """What a session was opened with; None for one that is not known."""
    row = tables.execute("SELECT tenant, runtime, backend FROM sessions WHERE id = ?", (session,)).fetchone()
    return None if row is None else SessionTerms(*row)


def others(tables: sqlite3.Connection, session: str, owner: Owner) -> list[tuple[Owner, HolderState]]:
    """Who else holds a session, and what each does with it."""
    rows = tables.execute(
        "SELECT token, pid, start, boot, state FROM holders JOIN owners ON token = owner "
        "WHERE session = ? AND owner <> ?",
        (session, owner.token),
    )
    return [(Owner(*row[:4]), row[4]) for row in rows]


def taken(others: Iterable[tuple[Owner, HolderState]], alive: Collection[str]) -> Taken | None:
    """Why nobody may join those who hold a session now; None if one may."""
    unknown = tuple(each for each, _ in others if each.token not in alive)
    if unknown:
        return Taken(unknown, waits=False)
    busy = tuple(each for each, state in others if state != "live")
    return Taken(busy, waits=True) if busy else None


def refused(
    tables: sqlite3.Connection, session: str, tenant: str | None, ceilings: Ceilings, *, new: bool
) -> Refused | None:
    """The ceiling that one more session would exceed; those that hibernation cannot lift come first."""
    if new and ceilings.known is not None and _count(tables, _KNOWN) >= ceilings.known:
        return Refused("known", ceilings.known)
    limit = ceilings.of_tenant
    if new and limit is not None and tenant is not None and _count(tables, _OF_TENANT, tenant) >= limit:
        return Refused("of_tenant", limit)
    if ceilings.resident is not None and _count(tables, _RESIDENT, session) >= ceilings.resident:
        return Refused("resident", ceilings.resident)
    return None


def _count(tables: sqlite3.Connection, query: str, *values: str) -> int:
    (count,) = tables.execute(query, values).fetchone()
    return int(count)


def note(tables: sqlite3.Connection, times: Mapping[str, float]) -> None:
    """Keep the later of the noted time and the given one, by session."""
    tables.executemany(
        "UPDATE sessions SET last_used = max(last_used, ?) WHERE id = ?", [(at, id) for id, at in times.items()]
    )


def infos(tables: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[SessionInfo]:
    """The sessions, one for each, sorted by id."""
    rows = tables.execute(
        "SELECT id, tenant, runtime, backend, created, last_used, state, pid FROM sessions "
        f"LEFT JOIN holders ON session = id LEFT JOIN owners ON token = owner {where} ORDER BY id, pid",
        values,
    )
    found: dict[str, SessionInfo] = {}
    for id, tenant, runtime, backend, created, last_used, state, pid in rows:
        known = found.get(id)
        pids = (*(known.pids if known else ()), *([pid] if pid is not None else ()))
        shown: State = "live" if known is not None and known.state == "live" else state or "hibernated"
        found[id] = SessionInfo(id, tenant, runtime, backend, shown, created, last_used, pids)
    return list(found.values())
