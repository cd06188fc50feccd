"""The service of the tests of this directory, and sandboxes in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from engine.daemon import Engine, Unavailable

from sandbox_kit.backends.remote import RemoteSandbox

from .service import Service, running


@pytest.fixture(scope="session")
def service(
    engine: Engine,
    busybox_image: str,
    debian_image: str,
    tmp_path_factory: pytest.TempPathFactory,
    lacking: Callable[[str], NoReturn],
) -> Iterator[Service]:
    """The real service, with the runtimes ``busybox`` and ``debian``."""
    images = {"busybox": busybox_image, "debian": debian_image}
    try:
        with running(engine, tmp_path_factory.mktemp("service"), images) as started:
            yield started
    except Unavailable as reason:
        lacking(str(reason))


@pytest.fixture(scope="module")
def make_box(service: Service) -> Iterator[Callable[[str], RemoteSandbox]]:
    """Returns the sandbox of a runtime that lasts for the module."""
    made: dict[str, RemoteSandbox] = {}

    def make(runtime: str) -> RemoteSandbox:
        if runtime not in made:
            made[runtime] = RemoteSandbox(service.url, token=service.token, runtime=runtime)
        return made[runtime].start()

    yield make
    for each in made.values():
        each.stop(purge=True)


@pytest.fixture
def box(make_box: Callable[[str], RemoteSandbox]) -> RemoteSandbox:
    """A sandbox of busybox that lasts for the module, its workspace empty."""
    made = make_box("busybox")
    made.execute("find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +", check=True)
    return made
