"""A worker as people see it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RunningJob", "WorkerStatus"]


class RunningJob(NamedTuple):
    """A job whose handler runs."""

    id: int
    name: str
    lane: str
    attempt: int
    seconds: float
    """Since it started."""
    told_to_stop: str
    """Why, if it was."""


class WorkerStatus(NamedTuple):
    """What a worker does right now, and what it has done."""

    state: str
    """``new``, ``working``, ``finishing``, ``stopping`` or ``closed``."""
    session: str
    """Empty while there is none, because the store is away."""
    queues: tuple[str, ...]
    concurrency: int
    running: tuple[RunningJob, ...]
    """The oldest first."""
    buffered: int
    """Fetched and not started."""
    unacknowledged: int
    """Ended, and not yet acknowledged by the store."""
    counts: dict[str, int]
    """How many ended how since the worker was opened; ``refused``: those that came too late."""
    trouble: str = ""
    """Why the store does not take acknowledgements or give jobs; empty if it does both."""
