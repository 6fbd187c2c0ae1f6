"""Jobs: durable units of work, in order within their lanes, under their limits."""

from interlock.jobs.current import CurrentJob, current_job
from interlock.jobs.explain import Explanation
from interlock.jobs.handle import Handle, JobStatus
from interlock.jobs.job import AsyncJob, Call, Job, PlainJob
from interlock.jobs.jobs import Jobs
from interlock.jobs.lanes import Lanes
from interlock.jobs.queues import Queues
from interlock.jobs.retry import ErrorClass, Retry
from interlock.jobs.signals import Discard, RetryLater, Snooze
from interlock.jobs.views import Attempt, JobView, LaneView, LogLine, Progress, QueueView
from interlock.ports.job_views import JobFilter, WorkerView
from interlock.ports.jobs import JobState, Outcome
from interlock.reasons import Reason

__all__ = [
    "AsyncJob",
    "Attempt",
    "Call",
    "CurrentJob",
    "Discard",
    "ErrorClass",
    "Explanation",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "JobStatus",
    "JobView",
    "Jobs",
    "LaneView",
    "Lanes",
    "LogLine",
    "Outcome",
    "PlainJob",
    "Progress",
    "QueueView",
    "Queues",
    "Reason",
    "Retry",
    "RetryLater",
    "Snooze",
    "WorkerView",
    "current_job",
]
