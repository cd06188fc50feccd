"""The example of an agent in a container: it gets no credential, and its chart outlives the container."""

from __future__ import annotations

import importlib.util
import struct
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from engine.daemon import Engine
from pydantic_ai import BinaryContent

AGENT = Path(__file__).parents[2] / "examples" / "agent.py"
DENIED = ["read_file", "read_file", "execute", "execute"]


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def width_and_height(png: bytes) -> tuple[int, int]:
    """Check that *png* is a whole picture of three bytes a pixel, and return its size."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        at += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)
    assert chunks[b"IEND"] == b""
    return width, height


def test_the_agent_gets_no_credential_and_its_chart_comes_back(
    engine: Engine, debian_image: str, tmp_path: Path, agent: ModuleType
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        done = agent.run(tmp_path / "sessions", debian_image)
    exchanges = list(done.exchanges())
    assert [call.tool_name for call, _ in exchanges] == [name for name, _ in agent.STEPS]
    assert (tmp_path / "sessions/report/workspace/.env").read_text() == f"API_KEY={done.credential}\n"
    assert done.credential not in repr(done.messages)
    assert done.credential.encode() not in b"".join(
        answer.content.data for _, answer in exchanges if isinstance(answer.content, BinaryContent)
    )
    assert [call.tool_name for call, answer in exchanges if answer.outcome == "failed"] == DENIED
    chart = exchanges[-1][1].content
    assert isinstance(chart, BinaryContent)
    assert chart.media_type == "image/png"
    assert chart.data == done.chart
    assert width_and_height(done.chart) == (80, 100)


def test_the_manual_shows_what_the_agent_prints(
    engine: Engine, debian_image: str, tmp_path: Path, agent: ModuleType
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        printed = list(agent.transcript(agent.run(tmp_path / "sessions", debian_image)))
    manual = (AGENT.parents[1] / "docs" / "console.rst").read_text(encoding="utf-8")
    assert "\n".join(f"    {line}".rstrip() for line in printed) in manual
