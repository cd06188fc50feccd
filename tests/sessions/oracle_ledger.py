"""The ledger as plain dictionaries: slow, in one process, and obviously right."""

from __future__ import annotations

from sandbox_kit.sessions.schema import Ceilings

RESIDENT = {"starting", "live", "stopping"}


class NaiveLedger:
    """Sessions by id, each with its tenant, runtime, times, and holders by token."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, object]] = {}
        self.holders: dict[str, dict[str, str]] = {}

    def resident(self) -> set[str]:
        return {id for id, held in self.holders.items() if set(held.values()) & RESIDENT}

    def others(self, id: str, token: str) -> dict[str, str]:
        return {each: state for each, state in self.holders.get(id, {}).items() if each != token}

    def claim(
        self,
        id: str,
        token: str,
        *,
        tenant: str | None,
        runtime: str | None,
        ceilings: Ceilings,
        now: float,
        alive: frozenset[str],
    ) -> str:
        """Return the kind of answer: conflict, own, unknown, wait, a ceiling's name, new, hibernated or live."""
        known = self.sessions.get(id)
        if known is not None and (
            (tenant is not None and tenant != known["tenant"]) or (runtime is not None and runtime != known["runtime"])
        ):
            return "conflict"
        if token in self.holders.get(id, {}):
            return "own"
        others = self.others(id, token)
        if not set(others) <= alive:
            return "unknown"
        if any(state != "live" for state in others.values()):
            return "wait"
        if not others:
            of_tenant = [1 for each in self.sessions.values() if each["tenant"] == tenant]
            if known is None and ceilings.known is not None and len(self.sessions) + 1 > ceilings.known:
                return "known"
            limit = ceilings.of_tenant
            if known is None and tenant is not None and limit is not None and len(of_tenant) + 1 > limit:
                return "of_tenant"
            if ceilings.resident is not None and len(self.resident() - {id}) + 1 > ceilings.resident:
                return "resident"
        if known is None:
            self.sessions[id] = {"tenant": tenant, "runtime": runtime, "created": now, "last_used": now}
        else:
            known["last_used"] = max(float(str(known["last_used"])), now)
        self.holders.setdefault(id, {})[token] = "starting"
        return "new" if known is None else "live" if others else "hibernated"

    def set_state(self, id: str, token: str, state: str) -> set[str]:
        if token in self.holders.get(id, {}):
            self.holders[id][token] = state
        return set(self.others(id, token))

    def release(self, id: str, token: str) -> bool:
        self.holders.get(id, {}).pop(token, None)
        return not self.others(id, token)

    def leave(self, id: str, token: str, last_used: float) -> bool:
        if not self.others(id, token):
            return False
        self.holders[id].pop(token, None)
        known = self.sessions[id]
        known["last_used"] = max(float(str(known["last_used"])), last_used)
        return True

    def take_over(self, id: str, dead: str, token: str) -> str | None:
        state = self.holders.get(id, {}).pop(dead, None)
        if state is None or self.holders[id]:
            return None
        self.holders[id][token] = state if state in ("purging", "checking") else "stopping"
        return self.holders[id][token]

    def claim_purge(self, id: str, token: str, now: float, unused_since: float | None) -> bool | set[str]:
        known = self.sessions.get(id)
        if unused_since is not None and (known is None or float(str(known["last_used"])) > unused_since):
            return False
        if others := self.others(id, token):
            return set(others)
        if known is None:
            self.sessions[id] = {"tenant": None, "runtime": None, "created": now, "last_used": now}
        self.holders.setdefault(id, {})[token] = "purging"
        return True

    def claim_unknown(self, id: str, token: str, now: float) -> bool:
        if id in self.sessions:
            return False
        self.claim_purge(id, token, now, None)
        self.holders[id][token] = "checking"
        return True

    def claim_idle(self, id: str, token: str, unused_since: float) -> bool:
        known = self.sessions.get(id)
        if known is None or self.holders.get(id) or float(str(known["last_used"])) > unused_since:
            return False
        self.holders[id] = {token: "clearing"}
        return True

    def forget(self, id: str) -> None:
        self.sessions.pop(id, None)
        self.holders.pop(id, None)

    def states(self) -> dict[str, set[str]]:
        """By session every state that it may be shown in: any of its holders', unless one is live."""
        held = {id: set(self.holders.get(id, {}).values()) for id in self.sessions}
        return {id: {"live"} if "live" in states else states or {"hibernated"} for id, states in held.items()}
