"""Pools of containers: ready at once, ended with the pool, and replaced when they die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from engine.daemon import Engine
from engine.leftovers import belongings, tidy

from sandbox_kit import PermissionRule, PermissionRuleset, Runtime, SandboxPool, SandboxSpec
from sandbox_kit.errors import PermissionDeniedError, SandboxUnavailableError

WITHIN = 60.0
RULES = PermissionRuleset(rules=(PermissionRule("**/.env", "deny"),))


@pytest.fixture
def labels(engine: Engine) -> Iterator[dict[str, str]]:
    """Labels for the sandboxes of a test, which leaves none."""
    with tidy(engine) as labels:
        yield labels


def full(pool: SandboxPool) -> bool:
    until = time.monotonic() + WITHIN
    while pool.idle < pool.min_idle and time.monotonic() < until:
        time.sleep(0.01)
    return pool.idle == pool.min_idle


def test_containers_are_ready_and_go_with_the_pool(engine: Engine, busybox_image: str, labels: dict[str, str]) -> None:
    spec = SandboxSpec("docker", {"image": busybox_image, "labels": labels}, RULES, "inspected")
    with SandboxPool(spec, min_idle=2) as pool:
        assert full(pool)
        with pool.acquire(WITHIN) as sandbox:
            sandbox.write("file", "x")
            assert sandbox.execute("cat file").stdout == "x"
            with pytest.raises(PermissionDeniedError):
                sandbox.write(".env", "x")
    ((label, value),) = labels.items()
    assert belongings(engine, label, value) == frozenset()


def test_a_container_that_was_killed_is_not_handed_out(
    engine: Engine, busybox_image: str, labels: dict[str, str]
) -> None:
    spec = SandboxSpec("docker", {"image": Runtime(busybox_image), "labels": labels})
    with SandboxPool(spec, min_idle=1) as pool:
        assert full(pool)
        ((label, value),) = labels.items()
        (killed,) = [name for kind, name in belongings(engine, label, value) if kind == "container"]
        engine.client().kill(killed)
        with pool.acquire(WITHIN) as sandbox:
            assert sandbox.execute("echo on").stdout == "on\n"
            assert f"sandbox-kit-{sandbox.id}" != killed


def test_an_image_that_is_missing_is_told_to_whoever_waits(make_image: Callable[[str], str]) -> None:
    make_image("busybox")
    missing = SandboxSpec("docker", {"image": "sandbox-kit-test/no-such-image"})
    with SandboxPool(missing) as pool, pytest.raises(SandboxUnavailableError, match="no-such-image"):
        pool.acquire(WITHIN)
