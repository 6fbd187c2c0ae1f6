"""The jobs that a fetch takes from one lane: the first one, or the one that supersedes it, and a run of those
behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Candidate", "Turn", "first_step", "steps_after"]

_MOST_SUPERSEDED = 1000


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
    half: int | None
    """The half of a group of suspects it belongs to."""


class Turn(NamedTuple):
    """The next job of a lane, with the jobs it supersedes."""

    job: Candidate
    instead_of: list[int]
    cut: bool
    """It has more successors than are read at once."""


def first_step(rows: JobRows, head: Candidate, name: str) -> Turn:
    """Return the first step of a lane: its first job, whose name is given, or the job that supersedes it."""
    if not head.coalesce:
        return Turn(head, [], cut=False)
    return next(_turns(head._replace(name=name), _behind(rows, head)))


def steps_after(rows: JobRows, job: Candidate) -> Iterator[Turn]:
    """Return the steps behind a job, in order."""
    behind = _behind(rows, job)
    following = next(behind, None)
    return iter(()) if following is None else _turns(following, behind)


def _behind(rows: JobRows, job: Candidate) -> Iterator[Candidate]:
    return map(Candidate._make, rows.stream(sql.jobs_behind, job.lane, job.position))


def _turns(last: Candidate, behind: Iterator[Candidate]) -> Iterator[Turn]:
    instead_of: list[int] = []
    for job in behind:
        if len(instead_of) >= _MOST_SUPERSEDED:
            yield Turn(last, instead_of, cut=True)
            return
        # A suspect supersedes no other job.
        if last.coalesce and job.coalesce and job.name == last.name and not job.apart and job.half is None:
            instead_of.append(last.id)
        else:
            yield Turn(last, instead_of, cut=False)
            instead_of = []
        last = job
    yield Turn(last, instead_of, cut=False)
