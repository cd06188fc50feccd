"""Handles in the workers of the standard library's pools."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from .handles import HANDLES, every_handle, use

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.fixture(scope="module", params=["fork", "spawn"])
def pool(request: pytest.FixtureRequest, own_tmp: Path) -> Iterator[Executor]:
    with ProcessPoolExecutor(1, mp_context=get_context(request.param)) as pool:
        yield pool


@every_handle
def test_a_handle_works_there(name: str, pool: Executor, own_tmp: Path) -> None:
    handle, expected = HANDLES[name](own_tmp)
    assert pool.submit(use, handle).result(timeout=60) == expected
