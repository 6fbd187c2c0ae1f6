"""Metrics of limits. Keys are never labels: there may be millions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["LimitMetrics"]


class LimitMetrics(Collector):
    """Metrics of the limits in one store."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.starts = 0
        self.outcomes = dict.fromkeys(("timeout", "unavailable", "cancelled"), 0)
        self.losses: dict[str, int] = {}
        self.waits = Durations()
        self.holds = Durations()

    @property
    def active(self) -> int:
        """Started reservations that are not finished."""
        return self.starts - self.holds.count

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        starts = CounterMetricFamily(
            name("limit_starts"), "Turns under limits, by outcome.", labels=["store", "status"]
        )
        for status, count in {"started": self.starts, **self.outcomes}.items():
            starts.add_metric([self.store, status], count)
        yield starts
        losses = CounterMetricFamily(name("limit_losses"), "Reservations lost.", labels=["store", "cause"])
        for reason, count in self.losses.items():
            losses.add_metric([self.store, reason], count)
        yield losses
        active = GaugeMetricFamily(
            name("active_limits"), "Started reservations that are not finished.", labels=["store"]
        )
        active.add_metric([self.store], self.active)
        yield active
        for family, text, durations in (
            ("limit_wait_seconds", "Time from request to start.", self.waits),
            ("limit_hold_seconds", "Time from start to finish or loss.", self.holds),
        ):
            histogram = HistogramMetricFamily(name(family), text, labels=["store"])
            histogram.add_metric([self.store], buckets=durations.buckets(), sum_value=durations.total)
            yield histogram
