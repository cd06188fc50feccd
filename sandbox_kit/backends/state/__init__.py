"""Files in memory, and a JSON document outside."""

from sandbox_kit.backends.state.backend import StateBackend

__all__ = ["StateBackend"]
