"""Fixtures of the tests that need a Docker engine; where there can be none they skip, and fail under CI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from .daemon import Engine, Unavailable, given_engine, private_engine
from .images import ensure_image
from .leftovers import tidy

Lacking = Callable[[str], NoReturn]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory, lacking: Lacking) -> Iterator[Engine]:
    """The engine of this run, one for all of its workers; DOCKER_HOST names it."""
    given = given_engine()
    if given is not None:
        yield given
        given.close()
        return
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with _started(shared, lacking) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", started.host)
        yield started


@pytest.fixture
def own_engine(tmp_path: Path, lacking: Lacking) -> Iterator[Engine]:
    """A private engine without images for this test alone, which may freeze or kill it."""
    with _started(tmp_path, lacking) as started:
        yield started


@contextmanager
def _started(directory: Path, lacking: Lacking) -> Iterator[Engine]:
    try:
        with private_engine(directory) as engine:
            yield engine
    except Unavailable as reason:
        lacking(str(reason))


@pytest.fixture(scope="session")
def make_image(engine: Engine, lacking: Lacking) -> Callable[[str], str]:
    """Returns the reference of a test image by its name, imported once for each engine."""

    def make(name: str) -> str:
        try:
            return ensure_image(engine, name)
        except Unavailable as reason:
            lacking(str(reason))

    return make


@pytest.fixture(scope="session")
def busybox_image(make_image: Callable[[str], str]) -> str:
    """Busybox: ash and its applets, with the accounts root and user (1000)."""
    return make_image("busybox")


@pytest.fixture(scope="session")
def debian_image(make_image: Callable[[str], str]) -> str:
    """A minimal Debian: dash, GNU tools, Python."""
    return make_image("debian")


@pytest.fixture(scope="session")
def shellless_image(make_image: Callable[[str], str]) -> str:
    """One static binary, as cat, echo, false, id, printenv, sleep and true; no shell."""
    return make_image("scratchless")


@pytest.fixture(scope="session", params=["busybox", "debian"])
def image(request: pytest.FixtureRequest, make_image: Callable[[str], str]) -> str:
    """Each image that has a shell, in turn."""
    return make_image(request.param)


@pytest.fixture
def tidy_engine(engine: Engine) -> Iterator[dict[str, str]]:
    """Labels for what this test makes; a container or volume that has them at its end fails the test."""
    with tidy(engine) as labels:
        yield labels
