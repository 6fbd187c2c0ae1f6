"""The jobs that a fetch takes from one lane: the first one, or the one that supersedes it, and a run of those
behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Candidate", "Step", "first_step", "steps_after"]

_MAX_SUPERSEDED = 1000


class Candidate(NamedTuple):
    """A job that might be fetched."""

    sort: int
    id: int
    kind: int
    lane: str | None
    position: int
    attempt: int
    crashes: int
    priority: int
    enqueued_at: float
    due_at: float
    uses: str | None
    coalesce: int
    arguments: str
    options: str
    ticket: int | None
    """Its ticket in the queue of a limit, if it waits."""
    apart: int
    """Whether it is parked, unreadable or scheduled."""
    name: str
    """Set only for jobs behind the first."""
    cause: str | None
    """What enqueued it."""
    expires_at: int | None
    """When it expires; None once it has started."""
    half: int | None
    """The half of a group of suspects it belongs to."""


class Step(NamedTuple):
    """The next job of a lane, with the jobs it supersedes."""

    job: Candidate
    superseded: list[int]
    cut: bool
    """It has more successors than are read at once."""


def first_step(rows: JobRows, head: Candidate, name: str) -> Step:
    """Return the first step of a lane: its first job, whose name is given, or the job that supersedes it."""
    if not head.coalesce:
        return Step(head, [], cut=False)
    return next(_steps(head._replace(name=name), _behind(rows, head)))


def steps_after(rows: JobRows, job: Candidate) -> Iterator[Step]:
    """Return the steps behind a job, in order."""
    behind = _behind(rows, job)
    following = next(behind, None)
    return iter(()) if following is None else _steps(following, behind)


def _behind(rows: JobRows, job: Candidate) -> Iterator[Candidate]:
    return map(Candidate._make, rows.stream(sql.jobs_behind, job.lane, job.position))


def _steps(last: Candidate, behind: Iterator[Candidate]) -> Iterator[Step]:
    superseded: list[int] = []
    for job in behind:
        if len(superseded) >= _MAX_SUPERSEDED:
            yield Step(last, superseded, cut=True)
            return
        # A suspect supersedes no other job.
        if last.coalesce and job.coalesce and job.name == last.name and not job.apart and job.half is None:
            superseded.append(last.id)
        else:
            yield Step(last, superseded, cut=False)
            superseded = []
        last = job
    yield Step(last, superseded, cut=False)
