"""What enqueued a job: an event, a schedule, the handler of another job, or the end of another job.

It is stored as a short text, such as ``event:7``, ``job:12`` or ``job:12;event:7``: the part after the semicolon is the
event that the whole chain goes back to. A schedule is stored with the time of its firing, in seconds since 1970:
``schedule:nightly@1800000000``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

__all__ = ["Cause", "caused_by_event", "caused_by_job", "caused_by_schedule", "read_cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What enqueued a job."""

    kind: str
    """``event``, ``job`` (the handler of another job), ``end`` (as a hook after the end of another job), or
    ``schedule``."""
    ref: str
    """The ID of that event or job, or the name of the schedule."""
    event: int | None
    """The ID of the event that it goes back to, if there is one."""
    at: float | None = None
    """The time of the schedule for which it was enqueued, in seconds since 1970."""

    @property
    def job(self) -> int | None:
        """The ID of the job that enqueued it, or after whose end it was enqueued."""
        return int(self.ref) if self.kind in ("job", "end") else None

    @property
    def words(self) -> str:
        """What enqueued it, for people: ``job 12``, ``the end of job 12``, ``event 7`` or ``schedule nightly``."""
        return f"the end of job {self.ref}" if self.kind == "end" else f"{self.kind} {self.ref}"

    def __str__(self) -> str:
        """The stored text."""
        if self.at is not None:
            return caused_by_schedule(self.ref, self.at)
        text = f"{self.kind}:{self.ref}"
        return text if self.event is None or self.kind == "event" else f"{text};event:{self.event}"


def caused_by_event(event: int) -> str:
    """The cause of the jobs of an event, as stored."""
    return f"event:{event}"


def caused_by_job(job: int, event: int | None) -> str:
    """The cause of what a handler enqueues, as stored: its job, and the event that this goes back to."""
    return f"job:{job}" if event is None else f"job:{job};event:{event}"


def caused_by_schedule(schedule: str, at: float) -> str:
    """The cause of the jobs of a firing, as stored: the schedule, and the time that the firing is for."""
    return f"schedule:{schedule}@{at:.6f}"


def read_cause(text: str) -> Cause | None:
    """The stored cause of a job; None for none."""
    first, _, last = text.partition(";")
    kind, separator, ref = first.partition(":")
    if not separator:
        return None
    if kind == "schedule":
        name, _, at = ref.partition("@")
        with suppress(ValueError):
            return Cause(kind, name, None, float(at))
        return Cause(kind, name, None)
    event = last.removeprefix("event:") if last else ref if kind == "event" else ""
    return Cause(kind, ref, int(event) if event.isdecimal() else None)
