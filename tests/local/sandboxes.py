"""What the tests of LocalSandbox share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_kit.contract import Sandbox
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset


def denying(*patterns: str) -> PermissionRuleset:
    """Rules that deny *patterns* for every path operation."""
    return PermissionRuleset(rules=tuple(PermissionRule(pattern, "deny") for pattern in patterns))


@contextmanager
def executing(sandbox: Sandbox, command: str) -> Iterator[list[BaseException]]:
    """Run *command* in a thread, from when it prints until it ends; what it raises is in the list then."""
    ready = threading.Event()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            sandbox.execute(command, on_output=lambda stream, text: ready.set())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(30)
        yield raised
    finally:
        thread.join(30)
        assert not thread.is_alive()
