"""The tables of the ledger, and the records that its questions are answered with.

A session is resident while an owner holds it; without holders it is hibernated. Of its holders at
most one is in transition, which is any state but live: nobody joins until that one is done. When an
owner dies, what it was purging is purged by whoever finds that out, and what it was checking is forgotten. An owner
marks as spare what it would hibernate to make room, and another that needs room marks one of those as wanted.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from sandbox_kit.sessions.liveness import Owner

__all__ = [
    "APPLICATION",
    "SCHEMA",
    "VERSION",
    "Ceilings",
    "Granted",
    "HolderState",
    "Holding",
    "Refused",
    "SessionInfo",
    "SessionTerms",
    "State",
    "Taken",
]

APPLICATION = 0x53424B54
VERSION = 3

SCHEMA = """
CREATE TABLE owners (
    token TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    start INTEGER NOT NULL,
    boot TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT,
    runtime TEXT,
    backend TEXT NOT NULL,
    created REAL NOT NULL,
    last_used REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_tenant ON sessions (tenant);
CREATE INDEX sessions_by_use ON sessions (last_used);
CREATE TABLE holders (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner TEXT NOT NULL REFERENCES owners (token),
    state TEXT NOT NULL CHECK (state IN ('starting', 'live', 'stopping', 'purging', 'checking', 'clearing')),
    room TEXT CHECK (room IN ('spare', 'wanted')),
    PRIMARY KEY (session, owner)
) WITHOUT ROWID;
CREATE INDEX holders_by_owner ON holders (owner);
"""

HolderState = Literal["starting", "live", "stopping", "purging", "checking", "clearing"]
"""What a holder does with its sandbox. The last three have none, and take no slot: one removes the files, one
looks whether files that the ledger did not know may go, and one removes what a stopped sandbox keeps beside them."""

State = Literal["starting", "live", "stopping", "purging", "checking", "clearing", "hibernated"]


@frozen
class SessionTerms:
    """What a session is opened with for the first time, and stays.

    Attributes:
        tenant: whom it counts for; None for nobody.
        runtime: the alias of its runtime profile; None for none.
        backend: what makes its sandboxes.
    """

    tenant: str | None
    runtime: str | None
    backend: str


@frozen
class SessionInfo:
    """One session, as the ledger has it.

    Attributes:
        id: its id.
        tenant: whom it counts for; None for nobody.
        runtime: the alias of its runtime profile; None for none.
        backend: what its sandboxes are made by, such as ``"local"``; of a factory ``"module:qualname"``.
        state: ``"live"`` while any process holds its sandbox, ``"hibernated"`` while only its files
            are there, else what is being done with it.
        created: when it was first opened, in seconds since the epoch.
        last_used: when it was last used, in seconds since the epoch; of a live one, when that was last noted.
        pids: the processes that hold it, sorted.
    """

    id: str
    tenant: str | None
    runtime: str | None
    backend: str
    state: State
    created: float
    last_used: float
    pids: tuple[int, ...] = ()


@frozen
class Ceilings:
    """How many sessions there may be; None sets no ceiling.

    Attributes:
        resident: with a sandbox.
        known: with a sandbox or hibernated.
        of_tenant: of one tenant, with a sandbox or hibernated.
    """

    resident: int | None = None
    known: int | None = None
    of_tenant: int | None = None


@frozen
class Granted:
    """The caller holds the session, as one that starts.

    Attributes:
        terms: the session's own.
        found: ``"new"``, ``"hibernated"``, or ``"live"`` where others hold it as well.
    """

    terms: SessionTerms
    found: Literal["new", "hibernated", "live"]


@frozen
class Holding:
    """What an owner has of a session.

    Attributes:
        state: what it does with the sandbox.
        backend: what makes the session's sandboxes.
        runtime: the alias of the session's profile; None for none.
        last_used: of the session, in seconds since the epoch.
    """

    state: HolderState
    backend: str
    runtime: str | None
    last_used: float


@frozen
class Taken:
    """Others hold the session.

    Attributes:
        owners: those not known to live, or the one in transition.
        waits: they are known to live, and one is in transition: ask again later.
    """

    owners: tuple[Owner, ...]
    waits: bool


@frozen
class Refused:
    """A ceiling is reached.

    Attributes:
        ceiling: its name in :class:`Ceilings`.
        limit: its value.
    """

    ceiling: Literal["resident", "known", "of_tenant"]
    limit: int
