"""How this process comes to hold a session: it asks the ledger, and does what the answer calls for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sandbox_kit.errors import SandboxConflictError, SandboxTimeoutError, SessionLimitError
from sandbox_kit.sessions import clock
from sandbox_kit.sessions.events import Events
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.makers import is_named
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.recovery import Recovery
from sandbox_kit.sessions.schema import Ceilings, Granted, Refused, Taken

__all__ = ["Claims"]

_OTHERS_WITHIN = 60.0
"""How long another process may take to start or stop a sandbox that is wanted here, in seconds."""

_ROOM_WITHIN = 3.0
"""How long another process that has a session to spare may take to hibernate it, in seconds."""

_POLL = 0.01
_FIELD = {"resident": "max_sessions", "known": "max_open_sessions", "of_tenant": "max_sessions_per_tenant"}


class Claims:
    """The questions that an owner asks of the ledger about one session, whose lock the caller holds.

    Args:
        ledger, recovery, policy, events: of the manager.
    """

    def __init__(self, ledger: Ledger, recovery: Recovery, policy: SandboxPolicy, events: Events) -> None:
        self._ledger = ledger
        self._recovery = recovery
        self._policy = policy
        self._events = events

    def hold(
        self,
        session: str,
        owner: Owner,
        *,
        tenant: str | None,
        runtime: str | None,
        make_room: Callable[[bool], bool],
        check: Callable[[], None],
    ) -> Granted:
        """Hold a session, as one that starts.

        Args:
            make_room: called where a ceiling is reached, with whether hibernation can help; tells whether it
                is worth while to ask again.
            check: called before each question; what it raises ends the wait.

        Raises:
            SessionLimitError: a ceiling is reached, and no room could be made.
            SandboxConflictError: the session has another tenant, runtime or backend.
            SandboxTimeoutError: another process took too long to start or stop it.
        """
        alive: set[str] = set()
        deadline = time.monotonic() + _OTHERS_WITHIN
        room_deadline = time.monotonic() + _ROOM_WITHIN
        while True:
            check()
            answer = self._ask(session, owner, tenant, runtime, alive)
            if isinstance(answer, Granted):
                return answer
            if isinstance(answer, Refused):
                if not make_room(answer.ceiling == "resident"):
                    self._await_room(session, owner, answer, room_deadline)
            elif answer.waits:
                alive.clear()
                _pause(session, deadline)
            else:
                alive |= self.living(session, answer.owners, owner)

    def hold_to_purge(self, session: str, owner: Owner) -> None:
        """Hold a session that has no sandbox here, to purge it.

        Raises:
            SandboxConflictError: another process holds it, or it has another backend.
        """
        while isinstance(taken := self._ledger.claim_purge(session, owner, now=clock.now()), Taken):
            self.check_alone(session, taken.owners, owner)

    def recover(self, session: str, owner: Owner) -> None:
        """Give back what dead owners hold of one session.

        Raises:
            SandboxConflictError: it has another backend.
        """
        self.living(session, self._ledger.other_holders(session, owner), owner)

    def check_alone(self, session: str, others: Sequence[Owner], owner: Owner) -> None:
        """Check that none of *others*, who hold the session, lives; what the dead held is given back.

        Raises:
            SandboxConflictError: one lives.
        """
        if self.living(session, others, owner):
            raise SandboxConflictError(f"session {session} is held by another process")

    def _ask(
        self, session: str, owner: Owner, tenant: str | None, runtime: str | None, alive: set[str]
    ) -> Granted | Taken | Refused:
        values = self._policy.snapshot()
        return self._ledger.claim(
            session,
            owner,
            tenant=tenant,
            runtime=runtime,
            default_runtime=values.default_runtime,
            ceilings=Ceilings(values.max_sessions, values.max_open_sessions, values.max_sessions_per_tenant),
            now=clock.now(),
            alive=alive,
        )

    def living(self, session: str, others: Sequence[Owner], owner: Owner) -> set[str]:
        """Return the tokens of those who live; what the dead held, or a failed call of *owner*'s own, is given back."""
        if owner in others:
            self._recovery.give_back(session, owner)
            return set()
        living, dead = self._recovery.sorted_out(others)
        for each in dead:
            self._recovery.session(session, each, owner)
        return {each.token for each in living}

    def _await_room(self, session: str, owner: Owner, refused: Refused, deadline: float) -> None:
        """Wait a moment for a session that another process has to spare.

        Raises:
            SessionLimitError: none has, or the *deadline* is over.
        """
        hopeless = refused.ceiling != "resident" or time.monotonic() > deadline
        if hopeless or not self._ledger.want_room(owner):
            raise self._refusal(session, refused)
        time.sleep(_POLL)

    def _refusal(self, session: str, refused: Refused) -> SessionLimitError:
        name = _FIELD[refused.ceiling]
        self._events.note("refused", session, name)
        message = f"session {session}: {name} is {refused.limit}, and reached; close one, or try again later"
        for backend in self._recovery.left_to_others() if refused.ceiling == "resident" else ():
            message += f"; a process that died left slots of the backend {backend!r}: {_how_given_back(backend)}"
        return SessionLimitError(message, refused.limit)


def _how_given_back(backend: str) -> str:
    """What gives back the slots of a backend that this manager is not of."""
    own = "a manager of that backend gives them back when it reaps"
    return f"{own}, and so does 'sandbox-kit sweep --backend {backend}'" if is_named(backend) else own


def _pause(session: str, deadline: float) -> None:
    """Wait a moment for another process.

    Raises:
        SandboxTimeoutError: the *deadline* is over.
    """
    if time.monotonic() > deadline:
        message = f"session {session}: another process did not start or stop it within {_OTHERS_WITHIN} s"
        raise SandboxTimeoutError(message, _OTHERS_WITHIN)
    time.sleep(_POLL)
