"""A real kernel: cells go in, what a notebook would show comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

HANGS_AFTER = 60  # seconds


class Output:
    """What a cell has shown so far.

    Attributes:
        shown: the contents of its outputs, in order; one that was replaced is there once, as it is now.
        versions: how many contents each output had, one after the other.
        status: ``"ok"`` or ``"error"``, once it has ended.
    """

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.versions: list[int] = []
        self.status = ""
        self._places: dict[str, int] = {}

    @property
    def html(self) -> list[str]:
        return [data["text/html"] for data in self.shown if "text/html" in data]

    @property
    def text(self) -> str:
        return "\n".join(data["text/plain"] for data in self.shown)

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take a message of the kernel."""
        if kind == "stream":
            self._stream(content["name"], content["text"])
        elif kind == "error":
            self._add({"text/plain": "\n".join(content["traceback"]), "error": content["ename"]})
        elif kind in ("display_data", "execute_result"):
            place = content.get("transient", {}).get("display_id", "")
            self._places[place] = len(self.shown)
            self._add({**content["data"], "kind": kind})
        elif kind == "update_display_data":
            place = self._places[content["transient"]["display_id"]]
            self.shown[place] = {**content["data"], "kind": kind}
            self.versions[place] += 1

    def _stream(self, name: str, text: str) -> None:
        """Take a piece of a stream, which a kernel may send in any pieces."""
        if self.shown and self.shown[-1].get("stream") == name:
            self.shown[-1]["text/plain"] += text
        else:
            self._add({"text/plain": text, "stream": name})

    def _add(self, data: dict[str, str]) -> None:
        self.shown.append(data)
        self.versions.append(1)


class Kernel:
    """A kernel that runs one cell at a time."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client

    def run(self, cell: str, until: Callable[[Output], object] | None = None, then: str = "") -> Output:
        """Run *cell* to its end, and return what it showed.

        Args:
            cell: its source.
            until: looked at after each message; when it is true the first time, *then* is done.
            then: ``"interrupt"`` interrupts the kernel, anything else is the name of a file to make.
        """
        output = Output()
        request = self._client.execute(cell, stop_on_error=False)
        for kind, content in self._messages(request):
            output.take(kind, content)
            if until is not None and until(output):
                until = None
                self._do(then)
        assert until is None, f"never seen: {output.shown}"
        output.status = self._status(request)
        return output

    def _status(self, request: str) -> str:
        """Return how *request* ended; a slow start leaves other replies before that."""
        while True:
            reply = self._client.get_shell_msg(timeout=HANGS_AFTER)
            if reply["parent_header"].get("msg_id") == request:
                return str(reply["content"]["status"])

    def _do(self, what: str) -> None:
        if what == "interrupt":
            self._manager.interrupt_kernel()
        else:
            Path(what).touch()

    def _messages(self, request: str) -> Iterator[tuple[str, dict[str, Any]]]:
        while True:
            message = self._client.get_iopub_msg(timeout=HANGS_AFTER)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message["msg_type"], message["content"]


@contextmanager
def started() -> Iterator[Kernel]:
    """Start a kernel of this interpreter, and end it."""
    manager, client = start_new_kernel(startup_timeout=HANGS_AFTER, kernel_name="python3")
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
