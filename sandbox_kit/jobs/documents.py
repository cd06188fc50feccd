"""Jobs as JSON has them, for runners that pass on nothing else."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.jobs.inputs import Content
from sandbox_kit.jobs.template import CommandTemplate
from sandbox_kit.spec import SandboxSpec

if TYPE_CHECKING:
    from sandbox_kit.jobs.job import Job

__all__ = ["dump", "load"]

_KEYS = ("spec", "work", "files", "artifacts", "artifacts_to", "artifact_limit", "timeout", "sandboxes")


def dump(job: Job) -> dict[str, Any]:
    """See :meth:`Job.to_dict`."""
    if not isinstance(job.work, CommandTemplate) or callable(job.files):
        raise InvalidArgumentError("a job whose work or files are a function pickles, but JSON does not have it")
    source = job.work.source
    return {
        "spec": job.spec.to_dict(),
        "work": source if isinstance(source, str) else list(source),
        "files": {path: _dump_content(content) for path, content in job.files.items()},
        "artifacts": list(job.artifacts),
        "artifacts_to": None if job.artifacts_to is None else str(job.artifacts_to),
        "artifact_limit": job.artifact_limit,
        "timeout": job.timeout,
        "sandboxes": job.sandboxes,
    }


def load(document: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the job that *document* tells of; see :meth:`Job.from_dict`."""
    if not isinstance(document, Mapping) or not {"spec", "work"} <= document.keys():
        raise InvalidArgumentError("a job is a mapping with a spec and work")
    if unknown := sorted(str(key) for key in document if key not in _KEYS):
        raise InvalidArgumentError(f"a job has no {', '.join(unknown)}")
    values = dict(document)
    values["spec"] = SandboxSpec.from_dict(values["spec"])
    if isinstance(values.get("files"), Mapping):
        values["files"] = {path: _load_content(path, content) for path, content in values["files"].items()}
    return values


def _dump_content(content: Content) -> str | dict[str, str]:
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return {"base64": base64.b64encode(content).decode("ascii")}
    return {"copy": os.fspath(content)}


def _load_content(path: str, content: Any) -> Content:
    if isinstance(content, str):
        return content
    try:
        match content:
            case {"base64": str(text)}:
                return base64.b64decode(text, validate=True)
            case {"copy": str(text)}:
                return Path(text)
    except binascii.Error as error:
        raise InvalidArgumentError(f"files: {path!r}: is no base64: {error}") from error
    raise InvalidArgumentError(f'files: {path!r}: is a text, {{"base64": text}} or {{"copy": path}}')
