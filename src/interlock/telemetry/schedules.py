"""Metrics of schedules. Labels are the names of schedules, a bounded number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["ScheduleMetrics"]

_MAX_NAMES = 1000
_OTHERS = "(others)"


class ScheduleMetrics(Collector):
    """Metrics of the firings in one store that this process made."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.firings: dict[tuple[str, str], int] = {}
        """Times of schedules, by schedule and outcome."""
        self.failures = 0
        self.lateness = Durations()
        """How long after their times firings were stored."""
        self._names: set[str] = set()

    def count(self, schedule: str, outcome: str, times: int) -> None:
        """Count what became of some times of a schedule."""
        if not times:
            return
        if schedule not in self._names and len(self._names) >= _MAX_NAMES:
            schedule = _OTHERS
        self._names.add(schedule)
        self.firings[schedule, outcome] = self.firings.get((schedule, outcome), 0) + times

    def late(self, seconds: float) -> None:
        """Record how late a firing was."""
        self.lateness.observe(max(0.0, seconds))

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        firings = CounterMetricFamily(
            name("schedule_firings"), "Times of schedules, by outcome.", labels=["store", "schedule", "outcome"]
        )
        for labels, count in list(self.firings.items()):
            firings.add_metric([self.store, *labels], count)
        yield firings
        failures = CounterMetricFamily(
            name("schedule_firing_failures"), "Firings that failed and are tried again.", labels=["store"]
        )
        failures.add_metric([self.store], self.failures)
        yield failures
        lateness = HistogramMetricFamily(
            name("schedule_lateness_seconds"), "How long after its time a job was enqueued.", labels=["store"]
        )
        lateness.add_metric([self.store], self.lateness.buckets(), self.lateness.total)
        yield lateness
