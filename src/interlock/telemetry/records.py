"""Metrics of records, which are part of the families of locks: ``lock_type`` is pessimistic or optimistic."""

from __future__ import annotations

from interlock.telemetry.metrics import Durations

__all__ = ["LockTypeMetrics", "RecordMetrics"]


class LockTypeMetrics:
    """What operations of one strategy met."""

    def __init__(self, lock_type: str) -> None:
        self.lock_type = lock_type
        self.outcomes = dict.fromkeys(("acquired", "busy", "conflict", "timeout", "deadlock", "failed"), 0)
        """Attempts by their end. An optimistic write that was made counts as acquired."""
        self.contentions = 0
        self.waits = Durations()
        """From the request to the lease; for an optimistic write, to its commit."""
        self.active = 0


class RecordMetrics:
    """The metrics of the records of one app."""

    def __init__(self) -> None:
        self.optimistic = LockTypeMetrics("optimistic")
        self.pessimistic = LockTypeMetrics("pessimistic")
        self.version_conflicts = 0
        self.version_conflict_retries = 0

    @property
    def types(self) -> tuple[LockTypeMetrics, ...]:
        """Both strategies."""
        return (self.pessimistic, self.optimistic)
