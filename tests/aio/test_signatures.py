"""Every public method has its coroutine, which takes the same: one that is added to the contract is not forgotten."""

from __future__ import annotations

import inspect

import pytest

from sandbox_kit import AsyncBackend, AsyncProcess, AsyncSandbox, Backend, Process, Sandbox

PAIRS = ((Backend, AsyncBackend), (Sandbox, AsyncSandbox), (Process, AsyncProcess))
NOT_IN_THE_CONTRACT = {"aclose"}


def methods(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def attributes(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, lambda value: isinstance(value, property))}


@pytest.mark.parametrize(("sync", "wrapped"), PAIRS, ids=[pair[1].__name__ for pair in PAIRS])
def test_it_has_the_methods_of_the_contract_and_no_others(sync: type, wrapped: type) -> None:
    assert methods(wrapped) - NOT_IN_THE_CONTRACT == methods(sync)


EACH = [(sync, wrapped, name) for sync, wrapped in PAIRS for name in sorted(methods(sync))]


@pytest.mark.parametrize(("sync", "wrapped", "name"), EACH, ids=[f"{each[1].__name__}.{each[2]}" for each in EACH])
def test_a_method_is_a_coroutine_that_takes_the_same(sync: type, wrapped: type, name: str) -> None:
    coroutine = getattr(wrapped, name)
    assert inspect.iscoroutinefunction(coroutine)
    own, other = inspect.signature(coroutine).parameters, inspect.signature(getattr(sync, name)).parameters
    assert list(own.values()) == list(other.values())


def test_a_file_only_backend_has_no_commands() -> None:
    assert "execute" not in methods(AsyncBackend)
    assert {"id", "work_dir", "capabilities", "inner"} <= attributes(AsyncBackend)
