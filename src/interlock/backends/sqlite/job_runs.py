"""What a fetch takes of one lane: its head, or what takes the head's place, and a run of those behind."""

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
    """Its place in the line that it stands in, if it does."""
    apart: int
    """Whether it stands apart from its lane: parked, or waiting for its time."""
    name: str
    """Known only of those behind a head."""
    half: int | None
    """The half of a group of suspects that it belongs to."""


class Turn(NamedTuple):
    """One job's turn in its lane, with those whose place it takes."""

    job: Candidate
    instead_of: list[int]
    cut: bool
    """There are more that it would give way to, but that is enough for now."""


def first_step(rows: JobRows, head: Candidate, name: str) -> Turn:
    """The head's turn, or that of the job that takes its place. The head has that name."""
    if not head.coalesce:
        return Turn(head, [], cut=False)
    return next(_turns(head._replace(name=name), _behind(rows, head)))


def steps_after(rows: JobRows, job: Candidate) -> Iterator[Turn]:
    """The turns behind a job, in order."""
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
        # A suspect takes nobody's place.
        if last.coalesce and job.coalesce and job.name == last.name and not job.apart and job.half is None:
            instead_of.append(last.id)
        else:
            yield Turn(last, instead_of, cut=False)
            instead_of = []
        last = job
    yield Turn(last, instead_of, cut=False)
