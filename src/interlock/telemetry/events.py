"""Metrics of events. Labels are sources, of which an app has few; never types, actors or deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["EventMetrics"]


class EventMetrics(Collector):
    """Metrics of the events in one store that this process received."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.statuses: dict[tuple[str, str], int] = {}
        """By source and status."""
        self.refusals: dict[tuple[str, str], int] = {}
        """By source and cause."""
        self.accepting = Durations()
        """How long the store took to accept an event with its jobs."""

    def received(self, source: str, status: str) -> None:
        """Count a response to a sender."""
        self.statuses[source, status] = self.statuses.get((source, status), 0) + 1

    def refused(self, source: str, cause: str) -> None:
        """Count a refused delivery."""
        self.refusals[source, cause] = self.refusals.get((source, cause), 0) + 1

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        received = CounterMetricFamily(
            name("events_received"), "Deliveries processed, by status.", labels=["source", "status"]
        )
        for labels, count in list(self.statuses.items()):
            received.add_metric(labels, count)
        yield received
        refused = CounterMetricFamily(
            name("events_refused"), "Deliveries refused, by cause.", labels=["source", "cause"]
        )
        for labels, count in list(self.refusals.items()):
            refused.add_metric(labels, count)
        yield refused
        accepting = HistogramMetricFamily(
            name("event_accepting_seconds"), "Time the store took to accept an event with its jobs.", labels=["store"]
        )
        accepting.add_metric([self.store], self.accepting.buckets(), self.accepting.total)
        yield accepting
