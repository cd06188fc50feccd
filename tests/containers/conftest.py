"""Sandboxes for the tests of this directory."""

from __future__ import annotations

import gc
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.backends.docker import engine as docker_engine
from sandbox_kit.backends.shell import loop, shells, stock

from .channels import MakeBox, boxes


@pytest.fixture(scope="module")
def make_box(engine: Engine) -> Iterator[MakeBox]:
    """Starts a sandbox, of an image, that lasts for the module."""
    with boxes(engine) as make:
        yield make


@pytest.fixture(scope="module", params=[1000, 0], ids=["user", "root"])
def box(request: pytest.FixtureRequest, image: str, make_box: MakeBox) -> DockerSandbox:
    """A sandbox of each image, for a user and for root without capabilities."""
    return make_box(image, user=request.param)


@pytest.fixture(scope="module", params=[1000, 0], ids=["user", "root"])
def python_box(request: pytest.FixtureRequest, debian_image: str, make_box: MakeBox) -> DockerSandbox:
    """The same of the image that has Python."""
    return make_box(debian_image, user=request.param)


@pytest.fixture(scope="module")
def forged_image(engine: Engine, busybox_image: str) -> Iterator[str]:
    """An image with labels that say of each container what only the library may."""
    print_mark = "from sandbox_kit.host.marks import own_mark; print(own_mark())"
    mark = subprocess.run([sys.executable, "-c", print_mark], capture_output=True, text=True, timeout=60, check=True)
    client, number = engine.client(), uuid.uuid4().hex
    told = {
        **{f"sandbox-kit.{flag}": "yes" for flag in ("kept", "beside", "temporary")},
        **{f"sandbox-kit.{owner}": mark.stdout.strip() for owner in ("owner", "helper")},
        **{f"sandbox-kit.{name}": "forged" for name in ("id", "root", "session", "limits", "masked", "rules")},
        "sandbox-kit-test-forged": number,
    }
    made = client.create_container(busybox_image, ["true"])["Id"]
    try:
        changes = [f'LABEL "{name}"="{value}"' for name, value in told.items()]
        image = str(client.commit(made, repository="sandbox-kit-test/forged", tag=number, changes=changes)["Id"])
        yield image
        found = client.images(quiet=True, filters={"label": f"sandbox-kit-test-forged={number}"})
        for each in sorted(found, key=image.__eq__):
            client.remove_image(each, force=True)
    finally:
        client.remove_container(made, force=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that decide nothing are short."""
    monkeypatch.setattr(loop, "_SILENCE", 0.5)
    monkeypatch.setattr(stock, "_OPEN_WITHIN", 3.0)
    monkeypatch.setattr(shells, "_ANSWER_WITHIN", 3.0)
    monkeypatch.setattr(docker_engine, "_ANSWER_PROMPTLY", 2)


@pytest.fixture(autouse=True)
def _nothing_left_unclosed() -> Iterator[None]:
    """What a test leaves open is told of in that test, not in whichever one the collector happens to run in."""
    yield
    gc.collect()
