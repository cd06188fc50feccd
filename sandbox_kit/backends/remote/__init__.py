"""Sandboxes of a sandbox service, over HTTP."""

from __future__ import annotations

from sandbox_kit.backends.remote.policy import read_remote_policy, update_remote_policy
from sandbox_kit.backends.remote.sandbox import RemoteSandbox

__all__ = ["RemoteSandbox", "read_remote_policy", "update_remote_policy"]
