"""Workers: processes, or parts of one, that run jobs."""

from interlock.jobs.worker.drain import drain
from interlock.jobs.worker.status import RunningJob, WorkerStatus
from interlock.jobs.worker.worker import Worker
from interlock.jobs.worker.worker_group import WorkerGroup

__all__ = ["RunningJob", "Worker", "WorkerGroup", "WorkerStatus", "drain"]
