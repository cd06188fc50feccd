"""What a container is made with: each option is seen from inside, or at the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.types import Limits


@pytest.fixture(scope="module", params=["0", "1000"], ids=["root", "user"])
def plain(request: pytest.FixtureRequest, engine: Engine, busybox_image: str) -> Iterator[DockerSandbox]:
    """A sandbox of which nothing but the user was said."""
    with DockerSandbox(busybox_image, user=request.param) as sandbox:
        yield sandbox


def status(sandbox: DockerSandbox, stdin: bytes | None) -> dict[str, str]:
    """What the kernel says of a command's process."""
    lines = sandbox.execute("cat /proc/self/status", stdin=stdin, check=True).stdout.splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("stdin", [None, b""], ids=["shell", "engine"])
def test_commands_have_no_capabilities_and_gain_none(plain: DockerSandbox, stdin: bytes | None) -> None:
    told = status(plain, stdin)
    assert {int(told[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert told["NoNewPrivs"] == "1"


def test_there_is_no_network_unless_one_is_asked_for(plain: DockerSandbox, busybox_image: str) -> None:
    look = "ls /sys/class/net | grep -v '^lo$'"
    assert plain.execute(look).stdout == ""
    with DockerSandbox(busybox_image, network="bridge") as connected:
        assert connected.execute(look).stdout == "eth0\n"


def test_a_root_that_is_read_only_leaves_the_workspace_and_tmp(busybox_image: str) -> None:
    with DockerSandbox(busybox_image, read_only=True) as sandbox:
        assert sandbox.execute("echo x >/beside").exit_code != 0
        assert sandbox.execute("echo x >/tmp/file && echo x >file").exit_code == 0


def test_processes_are_limited(engine: Engine, busybox_image: str) -> None:
    limit = 30
    with DockerSandbox(busybox_image, limits=Limits(pids_limit=limit)) as sandbox:
        assert engine.client().inspect_container(sandbox.name)["HostConfig"]["PidsLimit"] == limit
        if "pids" not in Path("/proc/cgroups").read_text():
            pytest.skip("this kernel counts no processes")
        many = "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; echo all"
        assert "all" not in sandbox.execute(["/bin/sh", "-c", many]).stdout
        assert sandbox.execute("echo alive").stdout == "alive\n"


def test_labels_and_variables_are_given(engine: Engine, busybox_image: str) -> None:
    with DockerSandbox(busybox_image, labels={"team": "a b"}, env={"WORD": "it's"}) as sandbox:
        assert engine.client().inspect_container(sandbox.name)["Config"]["Labels"]["team"] == "a b"
        assert sandbox.execute('echo "$WORD"').stdout == "it's\n"


def test_images_that_the_library_made_are_found_by_a_label(engine: Engine, plain: DockerSandbox) -> None:
    image = engine.client().inspect_container(plain.name)["Image"]
    found = engine.client().images(filters={"label": "sandbox-kit.prepared"})
    assert image in [each["Id"] for each in found]
