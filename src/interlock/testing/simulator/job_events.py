"""The history of jobs in a run: the steps of the store, and those of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.job_views import JobView
    from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchResult, JobState, NewJob, Rescued, SessionEnded

    Name = Callable[[str], str]

__all__ = [
    "EnqueueEnded",
    "FollowUpsAsked",
    "HandlerBegan",
    "HandlerEnded",
    "HandlerRan",
    "HandlerResisted",
    "JobCancelled",
    "JobEvent",
    "JobRetried",
    "JobsFetched",
    "JobsEnqueued",
    "JobsHandedBack",
    "JobsLeft",
    "JobsRescued",
    "JobsAcknowledged",
    "QueuePaused",
    "QueueResumed",
]


class JobsEnqueued(NamedTuple):
    """The store accepted jobs, or knew them already."""

    at: float
    process: str
    jobs: Sequence[NewJob]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [str(job.id) for job in self.jobs]


class JobsFetched(NamedTuple):
    """The store gave jobs to a session, or said that it had ended."""

    at: float
    process: str
    session: str
    fetch_number: int
    answer: FetchResult | SessionEnded

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [name(self.session), *(f"{job.id}/{job.fence}" for job in getattr(self.answer, "jobs", ()))]


class JobsAcknowledged(NamedTuple):
    """The store was given acknowledgements."""

    at: float
    process: str
    session: str
    acknowledgements: Sequence[Acknowledgement]
    acknowledged: Acknowledged

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [
            f"{acknowledgement.id}/{acknowledgement.fence}:{acknowledgement.outcome}:{'yes' if accepted else 'no'}"
            for acknowledgement, accepted in zip(self.acknowledgements, self.acknowledged.accepted, strict=True)
        ]


class JobsHandedBack(NamedTuple):
    """A session returned all its jobs but some."""

    at: float
    process: str
    session: str
    but: Sequence[int]
    fetch_number: int | None
    jobs: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [name(self.session), str(self.jobs), *map(str, self.but)]


class JobsRescued(NamedTuple):
    """Jobs were taken from sessions that had ended."""

    at: float
    process: str
    rescued: Sequence[Rescued]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{job.id}:{job.crashes}{'!' if job.quarantined else ''}" for job in self.rescued]


class QueuePaused(NamedTuple):
    """The store has paused a queue."""

    at: float
    process: str
    queue: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.queue]


class QueueResumed(NamedTuple):
    """The store is about to resume a queue."""

    at: float
    process: str
    queue: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.queue]


class JobCancelled(NamedTuple):
    """Somebody cancelled a job."""

    at: float
    process: str
    id: int
    state: JobState | None

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [str(self.id), str(self.state)]


class JobRetried(NamedTuple):
    """Somebody had a job tried again."""

    at: float
    process: str
    id: int
    state: JobState | None

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [str(self.id), str(self.state)]


class EnqueueEnded(NamedTuple):
    """An enqueue call returned: its jobs were accepted."""

    at: float
    process: str
    ids: Sequence[int]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [str(number) for number in self.ids]


class HandlerBegan(NamedTuple):
    """A handler started."""

    at: float
    process: str
    id: int
    fence: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{self.id}/{self.fence}"]


class HandlerRan(NamedTuple):
    """A handler got further."""

    at: float
    process: str
    id: int
    fence: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{self.id}/{self.fence}"]


class HandlerResisted(NamedTuple):
    """A handler was cancelled and goes on; it cannot be stopped."""

    at: float
    process: str
    id: int
    fence: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{self.id}/{self.fence}"]


class FollowUpsAsked(NamedTuple):
    """A handler asked for follow-ups, to be enqueued when it is done."""

    at: float
    process: str
    id: int
    fence: int
    number: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{self.id}/{self.fence}", str(self.number)]


class HandlerEnded(NamedTuple):
    """A handler ended, whichever way."""

    at: float
    process: str
    id: int
    fence: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{self.id}/{self.fence}"]


class JobsLeft(NamedTuple):
    """All jobs as the store knows them at the end of a run."""

    at: float
    process: str
    views: Sequence[JobView]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{view.id}:{view.state}" for view in self.views]


JobEvent = (
    JobsEnqueued
    | JobsFetched
    | JobsAcknowledged
    | JobsHandedBack
    | JobsRescued
    | JobCancelled
    | JobRetried
    | EnqueueEnded
    | FollowUpsAsked
    | HandlerBegan
    | HandlerRan
    | HandlerResisted
    | HandlerEnded
    | JobsLeft
    | QueuePaused
    | QueueResumed
)
