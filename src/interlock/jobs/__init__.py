"""Jobs: durable units of work, in order within their lanes, under their limits."""

from interlock.jobs.causes import Cause
from interlock.jobs.current import CurrentJob, current_job
from interlock.jobs.end_hooks import JobEnd
from interlock.jobs.explain import Explanation
from interlock.jobs.handle import Handle, JobStatus
from interlock.jobs.job import AsyncJob, Call, Job, PlainJob
from interlock.jobs.jobs import Jobs, Middleware
from interlock.jobs.lanes import Lanes
from interlock.jobs.queues import Queues
from interlock.jobs.resources import INJECTED, Resources
from interlock.jobs.retry import ErrorClass, Retry
from interlock.jobs.signals import Discard, RetryLater, Snooze
from interlock.jobs.views import Attempt, JobView, LaneView, LogLine, Progress, QueueView
from interlock.ports.job_views import JobFilter, WorkerView
from interlock.ports.jobs import JobState, Outcome
from interlock.reasons import Reason

__all__ = [
    "INJECTED",
    "AsyncJob",
    "Attempt",
    "Call",
    "Cause",
    "CurrentJob",
    "Discard",
    "ErrorClass",
    "Explanation",
    "Handle",
    "Job",
    "JobEnd",
    "JobFilter",
    "JobState",
    "JobStatus",
    "JobView",
    "Jobs",
    "LaneView",
    "Lanes",
    "LogLine",
    "Middleware",
    "Outcome",
    "PlainJob",
    "Progress",
    "QueueView",
    "Queues",
    "Reason",
    "Resources",
    "Retry",
    "RetryLater",
    "Snooze",
    "WorkerView",
    "current_job",
]
