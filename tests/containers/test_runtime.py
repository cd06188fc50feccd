"""Images that are built once, for what commands need."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.daemon import Engine

from sandbox_kit import DockerSandbox, Runtime
from sandbox_kit.backends.docker.building import build
from sandbox_kit.backends.docker.engine import connect
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package that is nowhere but here."""
    place = tmp_path / "greeting_kit-1.0-py3-none-any.whl"
    info = "greeting_kit-1.0.dist-info"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("greeting_kit.py", "WORD = 'hello from a wheel'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting-kit\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return place


@pytest.fixture
def built(engine: Engine) -> Iterator[list[str]]:
    """Names of images to remove in the end."""
    names: list[str] = []
    yield names
    for name in names:
        engine.client().remove_image(name, force=True)


def test_packages_setup_variables_and_user_are_there(
    debian_image: str, wheel: Path, built: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(
        debian_image,
        pip=[wheel],
        setup=['echo "$WORD it\'s done" >/etc/made'],
        env={"WORD": 'a "quoted" $word \\'},
        work_dir="/srv/job",
        uid=1234,
    )
    with caplog.at_level(logging.INFO, "sandbox_kit"):
        built.append(build(connect(), runtime))
    assert "greeting" in caplog.text
    with DockerSandbox(runtime) as sandbox:
        assert sandbox.work_dir == "/srv/job"
        done = sandbox.execute(
            "id -u; pwd; cat /etc/made; python3 -c 'import greeting_kit as g; print(g.WORD)'; echo \"$WORD\""
        )
        assert done.stdout == (
            '1234\n/srv/job\na "quoted" $word \\ it\'s done\nhello from a wheel\na "quoted" $word \\\n'
        )


def test_it_is_built_once_and_anew_when_anything_differs(
    busybox_image: str, built: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sandbox_kit"):
        built.append(build(connect(), Runtime(busybox_image, setup=["echo one >/made"])))
        caplog.clear()
        assert build(connect(), Runtime(busybox_image, setup=["echo one >/made"])) == built[0]
        assert caplog.text == ""
        built.append(build(connect(), Runtime(busybox_image, setup=["echo two >/made"])))
    assert built[0] != built[1]


def test_a_step_that_fails_is_told_with_what_it_printed(engine: Engine, busybox_image: str) -> None:
    with pytest.raises(SandboxUnavailableError, match="the reason is printed"):
        DockerSandbox(Runtime(busybox_image, setup=["echo the reason is printed; exit 7"])).start()


def test_a_wheel_that_is_missing_is_told(busybox_image: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no-such\.whl"):
        DockerSandbox(Runtime(busybox_image, pip=["no-such.whl"])).start()


def test_a_wheel_that_is_named_by_its_address_is_pips_to_fetch() -> None:
    fetched = ["https://example.org/x.whl", "x @ file:///srv/x.whl"]
    assert Runtime("base", pip=[*fetched, "dist/x.whl"]).wheels == ("dist/x.whl",)


@pytest.mark.parametrize(
    "options",
    [
        {"base": "a\nRUN evil"},
        {"base": ""},
        {"base": "a", "pip": "requests"},
        {"base": "a", "pip": ["x\ny"]},
        {"base": "a", "env": {"A": "x\nRUN evil"}},
        {"base": "a", "env": {"A B": "x"}},
        {"base": "a", "setup": [""]},
        {"base": "a", "env": ["A"]},
        {"base": "a", "uid": -1},
        {"base": "a", "uid": "0\nRUN evil"},
        {"base": "a", "work_dir": "relative"},
        {"base": "a", "work_dir": 5},
        {"base": "a", "pip": ["one/x.whl", "other/x.whl"]},
    ],
    ids=str,
)
def test_what_no_image_can_be_built_of_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        Runtime(**options)  # type: ignore[arg-type]
