"""What a claim takes of one lane: its head, what takes the head's place, and a run of those behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Candidate", "Turn", "turns"]

_MOST_SUPERSEDED = 1000


class Candidate(NamedTuple):
    """A job that might be claimed."""

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


class Turn(NamedTuple):
    """One job's turn in its lane, with those whose place it takes."""

    job: Candidate
    instead_of: list[int]
    cut: bool
    """There are more that it would give way to, but that is enough for now."""


def turns(rows: JobRows, head: Candidate, name: str) -> Iterator[Turn]:
    """The turns of a lane in order, beginning with its head, which has that name."""
    last, instead_of = head._replace(name=name), list[int]()
    behind: Iterator[Any] = rows.stream(sql.following, head.lane, head.position)
    for row in behind:
        job = Candidate._make(row)
        if len(instead_of) >= _MOST_SUPERSEDED:
            yield Turn(last, instead_of, cut=True)
            return
        if last.coalesce and job.coalesce and job.name == last.name and not job.crashes and not job.apart:
            instead_of.append(last.id)
        else:
            yield Turn(last, instead_of, cut=False)
            instead_of = []
        last = job
    yield Turn(last, instead_of, cut=False)
