"""A directory of the host: its files, and commands over them."""

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.backends.local.sandbox import LocalSandbox

__all__ = ["LocalBackend", "LocalSandbox"]
