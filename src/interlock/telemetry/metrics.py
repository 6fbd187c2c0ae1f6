"""Metrics as plain numbers in the hot path, which become Prometheus families only when they are scraped.

A collector is registered by the user, with any registry: ``REGISTRY.register(app.metrics)``.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from interlock.telemetry.records import RecordMetrics

__all__ = [
    "PROCESS_DEADLOCKS",
    "AttemptCounts",
    "DeadlockCounts",
    "Durations",
    "LeaseCounts",
    "LockMetrics",
    "Together",
]

_BOUNDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    300,
)
_FIRST = _BOUNDS[0]


class Durations:
    """A histogram of seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        # Most durations are in the first bucket, and need no search.
        self.counts[0 if seconds <= _FIRST else bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, in the format of Prometheus."""
        return list(zip([*map(str, map(float, _BOUNDS)), "+Inf"], accumulate(self.counts), strict=True))


class DeadlockCounts:
    """Deadlocks that a database found, and retries after deadlocks of any kind. Safe to use in several threads."""

    __slots__ = ("_guard", "detections", "retries")

    def __init__(self) -> None:
        self.detections = 0
        self.retries = 0
        self._guard = threading.Lock()

    def count_detection(self) -> None:
        """Count a deadlock that a database found."""
        with self._guard:
            self.detections += 1

    def count_retry(self) -> None:
        """Count another attempt after a deadlock."""
        with self._guard:
            self.retries += 1


PROCESS_DEADLOCKS = DeadlockCounts()
"""What is retried without an app, such as transactions on the tables of users. Part of the metrics of every app."""


class AttemptCounts:
    """Attempts of one type: to acquire a lease, or to write without one."""

    def __init__(self, lock_type: str, *outcomes: str) -> None:
        self.lock_type = lock_type
        self.outcomes = dict.fromkeys(outcomes, 0)
        """Attempts that failed."""
        self.contentions = 0
        self.waits = Durations()
        """How long those that succeeded took."""


class LeaseCounts(AttemptCounts):
    """Leases of one type, and requests that ended without a lease."""

    def __init__(self, lock_type: str) -> None:
        super().__init__(lock_type, "busy", "timeout", "deadlock", "unavailable", "cancelled", "closed")
        self.holds = Durations()
        self.losses: dict[str, int] = {}

    @property
    def active(self) -> int:
        """Leases that this process holds."""
        return self.waits.count - self.holds.count


class LockMetrics(LeaseCounts, Collector):
    """Metrics of the locks in one store. ``lock_type`` is the store's name."""

    def __init__(self, lock_type: str, prefix: str = "interlock") -> None:
        super().__init__(lock_type)
        self.prefix = prefix
        self.deadlocks = DeadlockCounts()
        self.records: RecordMetrics | None = None
        """The records of the same app, in the same families, with the strategy as their ``lock_type``. Leases on
        records are counted there only."""

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily

        name = f"{self.prefix}_{{}}".format
        acquisitions = CounterMetricFamily(
            name("lock_acquisitions"),
            "Requests for a lock, by outcome.",
            labels=["lock_type", "status"],
        )
        types: list[LeaseCounts] = [self] if self.records is None else [self, self.records.pessimistic]
        optimistic = [] if self.records is None else [self.records.optimistic]
        attempts: list[AttemptCounts] = [*types, *optimistic]
        for one in attempts:
            for status, count in {"acquired": one.waits.count, **one.outcomes}.items():
                acquisitions.add_metric([one.lock_type, status], count)
        yield acquisitions
        waits = {one.lock_type: one.waits for one in attempts}
        yield self._histogram(name("lock_acquisition_duration_seconds"), "Time from request to lease.", waits)
        holds = {one.lock_type: one.holds for one in types}
        yield self._histogram(name("lock_hold_duration_seconds"), "Time from lease to release or loss.", holds)
        contentions = CounterMetricFamily(
            name("lock_contentions"), "Requests that found the lock held.", labels=["lock_type"]
        )
        for one in attempts:
            contentions.add_metric([one.lock_type], one.contentions)
        yield contentions
        active = GaugeMetricFamily(name("active_locks"), "Leases that this process holds.", labels=["lock_type"])
        for leases in types:
            active.add_metric([leases.lock_type], leases.active)
        yield active
        losses = CounterMetricFamily(name("lock_losses"), "Leases lost while held.", labels=["lock_type", "cause"])
        for leases in types:
            for cause, count in leases.losses.items():
                losses.add_metric([leases.lock_type, cause], count)
        yield losses
        detections = sum(one.outcomes["deadlock"] for one in types)
        detections += self.deadlocks.detections + PROCESS_DEADLOCKS.detections
        for counter, text, count in (
            ("deadlock_detections", "Deadlocks detected, by Interlock or a database.", detections),
            ("deadlock_retries", "Retries after a deadlock.", self.deadlocks.retries + PROCESS_DEADLOCKS.retries),
            (
                "version_conflicts",
                "Version conflicts of optimistic writes.",
                0 if self.records is None else self.records.version_conflicts,
            ),
            (
                "version_conflict_retries",
                "Retries after a version conflict.",
                0 if self.records is None else self.records.version_conflict_retries,
            ),
        ):
            yield CounterMetricFamily(name(counter), text, value=count)

    def _histogram(self, name: str, text: str, by_type: dict[str, Durations]) -> Metric:
        from interlock.telemetry.families import HistogramMetricFamily

        family = HistogramMetricFamily(name, text, labels=["lock_type"])
        for lock_type, durations in by_type.items():
            family.add_metric([lock_type], buckets=durations.buckets(), sum_value=durations.total)
        return family


class Together(Collector):
    """Several collectors as one."""

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        """The families of all collectors."""
        for collector in self._collectors:
            yield from collector.collect()
