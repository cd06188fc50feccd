"""Whatever owners ask of the ledger, in any order, it answers as plain dictionaries would."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandbox_kit.errors import SandboxConflictError
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.schema import Ceilings, Granted, HolderState, Refused, Taken

from .oracle_ledger import NaiveLedger

OWNERS = [Owner(f"owner-{number}", 100 + number, 7, "boot") for number in range(3)]
ids = st.sampled_from(["a", "b", "c", "d"])
owners = st.sampled_from(OWNERS)
names = st.sampled_from([None, "x", "y"])
ceiling = st.one_of(st.none(), st.integers(1, 3))
ceilings = st.builds(Ceilings, ceiling, ceiling, ceiling)
times = st.integers(0, 50).map(float)
states: st.SearchStrategy[HolderState] = st.sampled_from(
    ["starting", "live", "live", "stopping", "purging", "checking", "clearing"]
)


def kind(answer: Granted | Taken | Refused, owner: Owner) -> str:
    if isinstance(answer, Granted):
        return answer.found
    if isinstance(answer, Refused):
        return answer.ceiling
    if answer.owners == (owner,):
        return "own"
    return "wait" if answer.waits else "unknown"


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.ledger = Ledger(self.directory / "own", backend="local")
        self.model = NaiveLedger()
        for owner in OWNERS:
            self.ledger.enrol(owner)

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.directory)

    @rule(id=ids, owner=owners, tenant=names, runtime=names, ceilings=ceilings, now=times, alive=st.sets(owners))
    def claim(
        self,
        id: str,
        owner: Owner,
        tenant: str | None,
        runtime: str | None,
        ceilings: Ceilings,
        now: float,
        alive: set[Owner],
    ) -> None:
        tokens = frozenset(each.token for each in alive)
        expected = self.model.claim(
            id, owner.token, tenant=tenant, runtime=runtime, ceilings=ceilings, now=now, alive=tokens
        )
        try:
            answer = kind(
                self.ledger.claim(id, owner, tenant=tenant, runtime=runtime, ceilings=ceilings, now=now, alive=tokens),
                owner,
            )
        except SandboxConflictError:
            answer = "conflict"
        assert answer == expected

    @rule(id=ids, owner=owners, state=states)
    def set_state(self, id: str, owner: Owner, state: HolderState) -> None:
        others = {each.token for each in self.ledger.set_state(id, owner, state)}
        assert others == self.model.set_state(id, owner.token, state)

    @rule(id=ids, owner=owners)
    def release(self, id: str, owner: Owner) -> None:
        assert self.ledger.release(id, owner) == self.model.release(id, owner.token)

    @rule(id=ids, owner=owners, used=times)
    def leave(self, id: str, owner: Owner, used: float) -> None:
        assert self.ledger.leave(id, owner, last_used=used) == self.model.leave(id, owner.token, used)

    @rule(id=ids, dead=owners, owner=owners)
    def take_over(self, id: str, dead: Owner, owner: Owner) -> None:
        if dead != owner:
            assert self.ledger.take_over(id, dead, owner) == self.model.take_over(id, dead.token, owner.token)

    @rule(id=ids, owner=owners, now=times, since=st.none() | times)
    def claim_purge(self, id: str, owner: Owner, now: float, since: float | None) -> None:
        answer = self.ledger.claim_purge(id, owner, now=now, unused_since=since)
        got = {each.token for each in answer.owners} if isinstance(answer, Taken) else answer
        assert got == self.model.claim_purge(id, owner.token, now, since)

    @rule(id=ids)
    def forget(self, id: str) -> None:
        self.ledger.forget(id)
        self.model.forget(id)

    @rule(owner=owners)
    def held_by(self, owner: Owner) -> None:
        expected = {id: held[owner.token] for id, held in self.model.holders.items() if owner.token in held}
        assert self.ledger.held_by(owner) == sorted(expected)
        for id in self.model.sessions:
            held = self.ledger.holding(id, owner)
            known = self.model.sessions[id]
            assert (None if held is None else held.state) == expected.get(id)
            assert held is None or (held.runtime, held.last_used) == (known["runtime"], known["last_used"])

    @rule(id=ids, owner=owners, now=times)
    def claim_unknown(self, id: str, owner: Owner, now: float) -> None:
        assert self.ledger.claim_unknown(id, owner, now=now) == self.model.claim_unknown(id, owner.token, now)

    @rule(id=ids, owner=owners, since=times)
    def claim_idle(self, id: str, owner: Owner, since: float) -> None:
        answer = self.ledger.claim_idle(id, owner, unused_since=since)
        assert answer == self.model.claim_idle(id, owner.token, since)

    @rule(id=ids, owner=owners)
    def other_holders(self, id: str, owner: Owner) -> None:
        assert {each.token for each in self.ledger.other_holders(id, owner)} == set(self.model.others(id, owner.token))

    @invariant()
    def it_lists_what_the_model_has(self) -> None:
        infos = self.ledger.sessions()
        assert [info.id for info in infos] == sorted(self.model.sessions)
        assert all(info.state in self.model.states()[info.id] for info in infos)
        assert {info.id: info.last_used for info in infos} == {
            id: known["last_used"] for id, known in self.model.sessions.items()
        }


LedgerMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLedger = LedgerMachine.TestCase
