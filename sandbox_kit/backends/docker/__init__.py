"""Containers of a Docker engine, here or on another machine."""

from __future__ import annotations

from sandbox_kit.backends.docker.sandbox import DockerSandbox

__all__ = ["DockerSandbox"]
