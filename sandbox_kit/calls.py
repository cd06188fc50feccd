"""One public call: what people approved in it, so that nobody is asked twice for the same.

A call of several primitives gives the same :class:`Call` to each of them, as ``authorize``, and a guard finds it
behind whatever another guard has put before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sandbox_kit.primitives import Authorize, allow
from sandbox_kit.types import Identity, Operation

__all__ = ["Approver", "Call", "Granted", "Key", "Rules", "add_rules", "is_approved", "is_free"]

Key = tuple[str, tuple[str, ...], Identity | None]
"""What was asked for: the operation, the names, and whose they are; None for what has none."""

Rules = frozenset[tuple[str, str | None]]
"""Operations, each with a rule that asks for it; None for the default."""


def add_rules(known: dict[Key, Rules], approved: dict[Key, Rules]) -> None:
    """Add to each key of *known* the rules by which it is *approved*."""
    for key, rules in approved.items():
        known[key] = known.get(key, frozenset()) | rules


class Granted:
    """What one guard's person approved in one call.

    Args:
        revisits: whether the call goes on to what its walks met.
    """

    def __init__(self, *, revisits: bool) -> None:
        self._keys: dict[Key, Rules] = {}
        self._met: dict[Identity, Rules] | None = {} if revisits else None
        self._made: set[tuple[str, tuple[str, ...], str]] = set()

    def grant(self, approved: dict[Key, Rules]) -> None:
        """Take every key for approved, by its rules."""
        add_rules(self._keys, approved)

    def meet(self, identity: Identity, rules: Rules) -> None:
        """Take *identity* for an entry of a walk, whose start was approved by *rules*."""
        if self._met is not None:
            self._met[identity] = rules

    def make(self, key: Key) -> None:
        """Take what *key* has the names of for made by the call itself, where nothing was."""
        operation, names, identity = key
        if identity is not None and not identity.inode:
            self._made.add((operation, names, identity.name))

    def holds(self, key: Key, rules: Rules) -> bool:
        """Whether *key*, which *rules* ask for, needs no other approval in this call."""
        operation, names, identity = key
        if rules <= self._keys.get(key, frozenset()):
            return True
        if identity is None:
            return False
        if self._made and (operation, names, identity.name) in self._made:
            return True
        return self._met is not None and rules <= self._met.get(identity, frozenset())


class Approver(ABC):
    """An :class:`Authorize` behind which a person may be asked."""

    @property
    def approved(self) -> bool:
        """Whether a walk's start was approved: entries are then to be asked for with their identity, to remember it."""
        return False

    @property
    @abstractmethod
    def call(self) -> Call:
        """The call that this is a part of."""

    @property
    @abstractmethod
    def aside(self) -> bool:
        """Whether another guard only looks where names lead, so that those beneath it are to stay out of it."""


class Call(Approver):
    """Agrees to everything, and keeps what each guard's person approved.

    Args:
        revisits: whether the call goes on to what its walks met.
        aside: as for :class:`Approver`.
    """

    def __init__(self, *, revisits: bool = True, aside: bool = False) -> None:
        self._revisits = revisits
        self._aside = aside
        self._granted: dict[object, Granted] = {}

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        return True

    @property
    def call(self) -> Call:
        return self

    @property
    def aside(self) -> bool:
        return self._aside

    def granted(self, person: object) -> Granted:
        """Return what was approved in this call by one guard's *person*."""
        return self._granted.setdefault(person, Granted(revisits=self._revisits))


def is_approved(authorize: Authorize) -> bool:
    """Whether a person approved what the call is about to do: it is good for what is there, and for nothing else."""
    return isinstance(authorize, Approver) and authorize.approved


def is_free(authorize: Authorize) -> bool:
    """Whether *authorize* agrees to everything: no guard is there that asks."""
    return authorize is allow or isinstance(authorize, Call)
