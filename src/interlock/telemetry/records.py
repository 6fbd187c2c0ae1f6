"""Metrics of records, which are part of the families of locks: ``lock_type`` is pessimistic or optimistic."""

from __future__ import annotations

from interlock.telemetry.metrics import AttemptCounts, LeaseCounts

__all__ = ["RecordMetrics"]


class RecordMetrics:
    """The metrics of the records of one app."""

    def __init__(self) -> None:
        self.optimistic = AttemptCounts("optimistic", "busy", "conflict")
        """Optimistic writes, timed from the request to the commit."""
        self.pessimistic = LeaseCounts("pessimistic")
        """The leases on records."""
        self.version_conflicts = 0
        self.version_conflict_retries = 0
