"""The status of a worker, for people and logs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunningJob", "WorkerStatus"]


class RunningJob(NamedTuple):
    """A job whose handler is running."""

    id: int
    name: str
    lane: str
    attempt: int
    seconds: float
    """How long it has been running."""
    told_to_stop: str
    """Why it was told to stop; empty if it was not."""


class WorkerStatus(NamedTuple):
    """What a worker is doing right now, and what it has done."""

    state: str
    """``new``, ``working``, ``finishing``, ``stopping`` or ``closed``."""
    session: str
    """Empty while there is none because the store is unavailable."""
    queues: tuple[str, ...]
    concurrency: int
    running: tuple[RunningJob, ...]
    """The longest-running first."""
    buffered: int
    """Jobs fetched and not started."""
    unacknowledged: int
    """Jobs that have ended and that the store has not acknowledged yet."""
    counts: dict[str, int]
    """Jobs by outcome since the worker was opened; ``refused``: acknowledgements that came too late."""
    trouble: str = ""
    """Why the store does not take acknowledgements or give jobs; empty if it does both."""
    queue_concurrency: Mapping[str, int] = MappingProxyType({})
    """How many jobs of each queue it runs at once; empty if every queue may use all of ``concurrency``."""
