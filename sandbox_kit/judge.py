"""One guarded call: what the rules say of each name, and the one question put to a person.

A judge answers a primitive's questions. A deny ends the call at once. An "ask" waits until the
primitive has named everything: then the call is given up, every lock and descriptor with it,
the person is asked, and the call is made again. What was approved is remembered by operation,
names and identity, so that another object by the same name is asked for anew, and so is what another rule
asks for; a command also by its directory, variables, user and input. Within one public call it is
also good for the steps that follow: what a walk met, and what the call itself has made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Literal, NoReturn, TypeVar

from sandbox_kit.answers import is_answer, note_answer
from sandbox_kit.calls import Approver, Call, Granted, Key, Rules, add_rules
from sandbox_kit.errors import (
    ApprovalRequiredError,
    PermissionDeniedError,
    SandboxConflictError,
    SandboxError,
    printable,
)
from sandbox_kit.judged_command import JudgedCommand
from sandbox_kit.paths import display, within
from sandbox_kit.primitives import Authorize, allow
from sandbox_kit.questions import Question, rules_of
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.types import Identity, Operation, Verdict

__all__ = ["Approvals", "Ask", "Judge", "judged"]

Ask = Callable[[str, str, str], bool]
"""``ask(operation, target, reason)``: only True approves."""

_Asking = tuple[Verdict, ...]
_T = TypeVar("_T")
_ATTEMPTS = 5
_REMEMBERED = 100_000


class Approvals:
    """Whom a guard asks, and what was approved so far.

    Args:
        ask: None when there is nobody.
        fallback: with nobody to ask, ``"error"`` says that approval is needed, ``"deny"`` just refuses.
    """

    def __init__(self, ask: Ask | None, fallback: Literal["error", "deny"]) -> None:
        self.ask = ask
        self.fallback = fallback
        self._granted: dict[Key, Rules] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[Ask | None, Literal["error", "deny"]]:
        return self.ask, self.fallback

    def __setstate__(self, state: tuple[Ask | None, Literal["error", "deny"]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def knows(self, key: Key, rules: Rules) -> bool:
        """Whether *key* was approved before, by all of *rules*."""
        return rules <= self._granted.get(key, frozenset())

    def grant(self, approved: dict[Key, Rules]) -> None:
        """Remember every key with its rules; the oldest are forgotten past a great many."""
        with self._lock:
            add_rules(self._granted, approved)
            while len(self._granted) > _REMEMBERED:
                del self._granted[next(iter(self._granted))]

    @property
    def nobody(self) -> bool:
        """Whether there is nobody to ask, and whoever calls is told that approval is needed."""
        return self.ask is None and self.fallback == "error"

    def request(self, question: Question) -> None:
        """Return when a person approves.

        The reason tells every deciding rule, and where links lead; errors do not tell a caller the latter.

        Raises:
            ApprovalRequiredError: there is nobody to ask.
            PermissionDeniedError: the person, or the fallback, says no.
        """
        operation, target, rule, rules = question.operation, question.target, question.rule, question.rules
        if self.ask is not None:
            if not self._says_yes(self.ask, operation, target, question.reason):
                said = f"{operation} {printable(target)}: not approved ({rules})"
                refusal = PermissionDeniedError(operation, target, rule, said)
                note_answer(refusal, raised=False)
                raise refusal
        elif self.fallback == "error":
            said = f"{operation} {printable(target)}: needs approval ({rules}): pass ask=, or use a terminal"
            raise ApprovalRequiredError(operation, target, rule, said)
        else:
            raise PermissionDeniedError(operation, target, rule)

    @staticmethod
    def _says_yes(ask: Ask, operation: str, target: str, reason: str) -> bool:
        try:
            return ask(operation, target, reason) is True
        except BaseException as error:
            note_answer(error, raised=True)
            raise


class _Pending(BaseException):
    """Everything is named and something needs approval: the call is to be given up."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge


class Judge(Approver):
    """Answers the questions of one call: an :class:`~sandbox_kit.primitives.Authorize`.

    Args:
        checker: the rules.
        approvals: whom to ask.
        outer: who else must agree: another guard, or nobody.
        target: what the caller named.
        command: for ``"execute"``.
        tree: what the call takes with all beneath it: absolute, as typed; an entry there that is refused is
            named, where ``ls`` would show it.
        goal: the name that *tree* is to get, of the same kind.
    """

    def __init__(
        self,
        checker: PermissionChecker,
        approvals: Approvals,
        outer: Authorize,
        target: str,
        command: JudgedCommand | None = None,
        tree: str | None = None,
        goal: str | None = None,
    ) -> None:
        self._checker = checker
        self._approvals = approvals
        self._outer = outer
        self._target = self._about = target
        self._command = command
        self._tree = tree
        self._entries = tuple(f"{top.rstrip('/')}/" for top in (tree, goal) if top is not None)
        self._unknown: dict[tuple[str, tuple[str, ...]], _Asking] = {}
        self._asked: set[Key] = set()
        self._pending: dict[Key, _Asking] = {}
        self._rules: Rules = frozenset()
        self._covered: Rules = frozenset()
        self._aside = outer is not allow and isinstance(outer, Approver) and outer.aside
        self._gathering = False
        self._listing = [checker]
        if tree is not None and isinstance(outer, Judge):
            outer._list_by(checker)

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        if self._aside:
            return self._outer(operation, names, identity=identity, found=found, hop=hop)
        if found and self._checker.allows(operation, *names):
            if self._covered and identity is not None:
                self._granted.meet(identity, self._covered)
            return self._outer(operation, names, identity=identity, found=True, hop=hop)
        verdict = self.verdict(operation, names, hop)
        is_entry = identity is not None and not found and self._is_entry(names[0])
        if verdict is not None and verdict.action != "allow":
            if verdict.action == "deny":
                return not found and self._refuse(verdict, names)
            asking = self._asking(verdict, operation, names, hop)
            if found:
                return self._covers(asking, names, identity) and self._outer(
                    operation, names, identity=identity, found=True, hop=hop
                )
            if is_entry:
                self._note((operation, names, identity), asking)
            else:
                self._unknown[operation, self._key_of(operation, names)] = asking
        if not self._outer(operation, names, identity=identity, found=found, hop=hop):
            return False
        if identity is not None and not found and not is_entry:
            self._check_start(identity, names)
            self._settle(identity)
        return True

    def _is_entry(self, name: str) -> bool:
        """Whether *name*, as typed, is of something beneath the tree that the call takes, or is to be."""
        return name.startswith(self._entries) and name != self._tree

    def gather(self, act: Callable[[Authorize], _T]) -> _T:
        """Return what *act* does, with whatever needs approval asked for after it, not amidst."""
        self._gathering = True
        try:
            result = act(self)
        finally:
            self._gathering = False
        if self.pending():
            raise _Pending(self)
        return result

    @property
    def target(self) -> str:
        """What the caller named."""
        return self._target

    @property
    def approved(self) -> bool:
        return bool(self._covered) or (isinstance(self._outer, Approver) and self._outer.approved)

    @property
    def aside(self) -> bool:
        return self._aside

    @cached_property
    def call(self) -> Call:
        return self._outer.call if isinstance(self._outer, Approver) else Call(revisits=False)

    @cached_property
    def _granted(self) -> Granted:
        return self.call.granted(self._approvals)

    def _asking(self, verdict: Verdict, operation: Operation, names: tuple[str, ...], hop: bool) -> _Asking:
        """Return *verdict*, which asks, then those of other rules by which one of *names* is asked for."""
        if operation == "execute" or (len(names) == 1 and not self._checker.has_alias):
            return (verdict,)
        each = self._checker.verdicts(operation, *names)
        others = {other.rule: other for other in each if other.action == "ask" and not (hop and other.rule is None)}
        return tuple(({verdict.rule: verdict} | others).values())

    def _covers(self, asking: _Asking, names: tuple[str, ...], identity: Identity | None) -> bool:
        """Whether approvals in this call, by the same rules, are good for an entry that was met."""
        if not rules_of(asking) <= self._covered:
            return False
        if identity is not None:
            self._granted.meet(identity, self._covered)
            rules = rules_of(asking)
            self._approvals.grant({(asking[0].operation, known, identity): rules for known in (names, names[:1])})
        return True

    def about(self, path: str) -> None:
        """Call *path*, which the command names or starts in, the target of what is refused from now on."""
        self._about = path

    def verdict(self, operation: Operation, names: tuple[str, ...], hop: bool = False) -> Verdict | None:
        """Return what the rules say, before anybody is asked; None where no rule speaks of a link on the way."""
        if operation == "execute" and self._command is not None:
            return self._command.verdict(self._checker)
        if hop:
            return self._checker.rules_only(operation, *names)
        return self._checker.verdict(operation, *names)

    def _key_of(self, operation: Operation, names: tuple[str, ...]) -> tuple[str, ...]:
        return (self._command.key,) if operation == "execute" and self._command is not None else names

    def _check_start(self, identity: Identity, names: tuple[str, ...]) -> None:
        """Refuse a command that would start where it sees nothing, as no approval helps it."""
        if self._command is not None and self._command.hides(identity.name):
            verdict = self._checker.verdict("read", *names)
            error = PermissionDeniedError("read", self._about, verdict.rule)
            said = f"{error.message}, and a command cannot start in what is hidden from it"
            raise PermissionDeniedError("read", self._about, verdict.rule, said)

    def _refuse(self, verdict: Verdict, names: tuple[str, ...]) -> NoReturn:
        target = self._target if verdict.operation == "execute" else self._about
        error = PermissionDeniedError(verdict.operation, target, verdict.rule)
        if self._tree is None or names[0] == self._tree or not within(names[0], self._tree) or not self._shows(names):
            raise error
        entry = printable(display(names[0], self._checker.work_dir))
        raise PermissionDeniedError(verdict.operation, target, verdict.rule, f"{error.message}, for {entry}")

    def _shows(self, names: tuple[str, ...]) -> bool:
        """Whether a listing would show an entry by these *names*."""
        shown = all(checker.allows("ls", *names) for checker in self._listing)
        return shown and self._outer("ls", names, found=True)

    def _list_by(self, inner: PermissionChecker) -> None:
        """Count the rules of an *inner* guard, which takes the same tree, among those of a listing."""
        self._listing.append(inner)
        if isinstance(self._outer, Judge):
            self._outer._list_by(inner)

    def know(self, identity: Identity | None) -> None:
        """Take *identity* for that of every name asked for since the last one; None for what has none."""
        for asked, asking in self._unknown.items():
            self._note((*asked, identity), asking)
        self._unknown.clear()

    def _note(self, key: Key, asking: _Asking) -> None:
        rules = rules_of(asking)
        self._asked.add(key)
        if not rules <= self._rules:
            self._rules |= rules
        if not self._is_granted(key, rules):
            self._pending[key] = tuple(dict.fromkeys((*self._pending.get(key, ()), *asking)))

    def _is_granted(self, key: Key, rules: Rules) -> bool:
        return self._approvals.knows(key, rules) or self._granted.holds(key, rules)

    def _settle(self, identity: Identity) -> None:
        """Everything about one target is named: give the call up where somebody has to approve."""
        self.know(identity)
        if not self._pending:
            self._covered = self._rules
        elif not self._gathering:
            raise _Pending(self)

    @property
    def asks(self) -> bool:
        """Whether something in this attempt takes an approval, given or not."""
        return bool(self._asked or self._unknown)

    def pending(self) -> dict[Key, _Asking]:
        """Return what was asked for in this attempt and nobody approved."""
        unknown: dict[Key, _Asking] = {(*asked, None): asking for asked, asking in self._unknown.items()}
        news = {key: asking for key, asking in unknown.items() if not self._is_granted(key, rules_of(asking))}
        return self._pending | news

    def note_made(self) -> None:
        """Take what this call was asked for, where nothing was, for made: it may have it again without a question."""
        for key in self._asked:
            self._granted.make(key)

    def request(self) -> None:
        """Ask for all that is pending, and make ready for another attempt; of a tree in an order of its own.

        Backends meet the entries of a tree in different orders, and a person is told the same by all of them.
        """
        pending = self.pending()
        if self._tree is not None:
            pending = dict(sorted(pending.items(), key=lambda each: each[0][:2]))
        question = Question.of(self._target, pending, self._terms(pending))
        self._approvals.request(question)
        self._granted.grant(question.keys)
        self._approvals.grant({key: rules for key, rules in question.keys.items() if self._is_lasting(key)})
        self._asked.clear()
        self._pending.clear()
        self._unknown.clear()
        self._rules = frozenset()

    def _terms(self, pending: dict[Key, _Asking]) -> list[str]:
        """What is given with the command, where it is the command that is asked for."""
        runs = any(operation == "execute" for operation, _, _ in pending)
        return self._command.terms if runs and self._command is not None else []

    def _is_lasting(self, key: Key) -> bool:
        """Whether an approval of *key* outlives the call."""
        operation, _, identity = key
        is_stream = operation == "execute" and self._command is not None and not self._command.is_repeatable
        return identity is not None and not is_stream


def judged(judge: Judge, act: Callable[[Authorize], _T]) -> _T:
    """Return what *act* does with *judge*, asking a person in between where rules say so.

    Raises:
        PermissionDeniedError: a rule, or the person, refuses.
        SandboxConflictError: the target became another one each time that it was approved.
    """
    for _ in range(_ATTEMPTS):
        try:
            return act(judge)
        except _Pending as pending:
            if pending.judge is not judge:
                raise
        except PermissionDeniedError:
            raise
        except SandboxError as error:
            if is_answer(error) or not judge.pending():
                raise
        judge.request()
    raise SandboxConflictError("the target became another one each time that it was approved")
