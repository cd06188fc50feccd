"""An agent in a container: it looks for a credential, gets none, and makes the chart that it was asked for.

``python examples/agent.py [IMAGE]`` needs a Docker engine, an image that has Python, and
``pip install 'sandbox-kit[docker,pydantic-ai]'``. The model is a script, so the run is the same each time.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, BinaryContent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sandbox_kit import SECRETS, SandboxPolicy, SessionManager, WorkspaceArchive
from sandbox_kit.console.pydantic_ai import ConsoleCapability

SESSION = "report"
SALES = "month,sales\nJan,12\nFeb,19\nMar,7\nApr,24\n"

CHART = """\
import csv, struct, zlib

bars = [int(row["sales"]) for row in csv.DictReader(open("sales.csv"))]
width, height = 20 * len(bars), 100
rows = b""
for y in range(height):
    row = b"".join((b"\\x20\\x60\\xc0" if height - y <= 4 * bar else b"\\xff\\xff\\xff") * 20 for bar in bars)
    rows += b"\\0" + row

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
with open("chart.png", "wb") as out:
    out.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header))
    out.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
print(len(bars), "bars")
"""

STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ls", {}),
    ("read_file", {"path": ".env"}),
    ("read_file", {"path": "notes.txt"}),
    ("grep", {"pattern": "API_KEY", "hidden": True}),
    ("glob", {"pattern": "**/.e*"}),
    ("execute", {"command": "cat .env"}),
    ("execute", {"command": "cat notes.txt"}),
    ("execute", {"command": "cat $(printf '.e%s' nv)"}),
    ("read_file", {"path": "sales.csv"}),
    ("write_file", {"path": "chart.py", "content": CHART}),
    ("execute", {"command": "python3 chart.py"}),
    ("read_file", {"path": "chart.png"}),
)


@dataclass
class Run:
    """What came of it.

    Attributes:
        credential: what the agent was not to get.
        messages: all that the model was sent and answered.
        chart: the picture, as the archive has it.
    """

    credential: str
    messages: list[ModelMessage]
    chart: bytes

    def exchanges(self) -> Iterator[tuple[ToolCallPart, ToolReturnPart]]:
        """Yield each call of a tool with what it returned."""
        calls = {
            part.tool_call_id: part
            for message in self.messages
            for part in message.parts
            if isinstance(part, ToolCallPart)
        }
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    yield calls[part.tool_call_id], part


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Take the next step; a real model would choose it."""
    taken = sum(isinstance(message, ModelResponse) for message in messages)
    if taken < len(STEPS):
        return ModelResponse(parts=[ToolCallPart(*STEPS[taken])])
    return ModelResponse(parts=[TextPart("The chart is in chart.png.")])


def prepare(workspace: Path) -> str:
    """Put the data into *workspace*, beside a credential and a link to it; return the credential."""
    credential = secrets.token_hex(16)
    workspace.mkdir(parents=True)
    workspace.chmod(0o777)
    (workspace / "sales.csv").write_text(SALES)
    (workspace / ".env").write_text(f"API_KEY={credential}\n")
    (workspace / "notes.txt").symlink_to(".env")
    return credential


def run(root: Path, image: str) -> Run:
    """Let the agent work in a container of *image*; then read its chart from beneath *root*, with nothing running."""
    runtimes = {"py": {"image": image, "sandbox_uid": 1000}}
    policy = SandboxPolicy.from_dict({"runtimes": runtimes, "default_runtime": "py"})
    with SessionManager(policy, workspace_root=root, backend="docker", ruleset=SECRETS) as manager:
        credential = prepare(manager.workspace(SESSION))
        with manager.open(SESSION) as box:
            agent = Agent(FunctionModel(model), capabilities=[ConsoleCapability(box)])
            result = asyncio.run(agent.run("Make a chart of sales.csv."))
    archive = WorkspaceArchive(root, ruleset=SECRETS)
    return Run(credential, result.all_messages(), archive.read_bytes(SESSION, "chart.png"))


def transcript(done: Run) -> Iterator[str]:
    """Yield the lines of a report."""
    for call, answer in done.exchanges():
        given = ", ".join(f"{name}={_short(repr(value))}" for name, value in call.args_as_dict().items())
        yield f"> {call.tool_name}({given})"
        yield from f"  {_shown(answer)}".replace("\n", "\n  ").splitlines()
    yield f"archive: chart.png, {len(done.chart):,} bytes"


def _shown(answer: ToolReturnPart) -> str:
    content = answer.content
    if isinstance(content, BinaryContent):
        return f"<{content.media_type}, {len(content.data):,} bytes>"
    return str(content)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def main() -> None:
    image = sys.argv[1] if len(sys.argv) > 1 else "python:3.13-slim"
    with tempfile.TemporaryDirectory() as root:
        print("\n".join(transcript(run(Path(root, "sessions"), image))))


if __name__ == "__main__":
    main()
