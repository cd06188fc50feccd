"""Ctrl-C at a chosen moment of a call.

The interpreter runs signal handlers in the main thread, after a call, at the start of a function
and at the end of a round of a loop. These moments can be counted, so a function can be broken
off at each of them in turn, whatever the speed of the machine. One after a call is taken to
come before the next instruction, which is somewhat stricter.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

_BEFORE = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD"}
_CODES = {code for name, code in dis.opmap.items() if name in _BEFORE}


class Moments:
    """Counts the moments at which a signal handler could run in this thread, and raises KeyboardInterrupt at one.

    Args:
        at: which, from 0 on; None to count alone.

    Attributes:
        passed: how many have passed.
        where: file and line of the one where it was raised; None if it was not.
    """

    def __init__(self, at: int | None = None) -> None:
        self.passed = 0
        self.where: str | None = None
        self._at = at
        self._last: dict[FrameType, int] = {}

    def break_off(self, function: Callable[[], object]) -> None:
        """Call *function*; any exception but KeyboardInterrupt passes through.

        What a finalizer raises meanwhile, such as a warning of something that was not closed, is told to nobody.
        """
        trace, hook = sys.gettrace(), sys.unraisablehook
        sys.unraisablehook = lambda _: None
        with suppress(KeyboardInterrupt):
            try:
                sys.settrace(self._trace)
                function()
            finally:
                sys.settrace(trace)
                sys.unraisablehook = hook
                self._last.clear()

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_globals is globals() or frame.f_code.co_filename.startswith("<frozen"):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            last, self._last[frame] = self._last.get(frame), frame.f_lasti
            if last is not None and frame.f_code.co_code[last] in _CODES:
                self._pass(frame)
        return self._trace

    def _pass(self, frame: FrameType) -> None:
        self.passed += 1
        if self._at is not None and self.passed > self._at and self.where is None:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            raise KeyboardInterrupt


def moments_of(call: Callable[[], object]) -> int:
    """How many moments *call* has. Some versions tell the instructions of a function from its second call on."""
    for _ in range(2):
        counted = Moments()
        counted.break_off(call)
    return counted.passed
