"""Jobs: the same work for many items, each in a sandbox of its own, here or in the workers of any runner."""

from sandbox_kit.jobs.job import Job
from sandbox_kit.jobs.mapping import map_job
from sandbox_kit.jobs.result import JobResult

__all__ = ["Job", "JobResult", "map_job"]
