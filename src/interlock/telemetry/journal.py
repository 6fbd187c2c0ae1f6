"""Metrics of the journal, as the worker's sealer last saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["JournalMetrics"]


class JournalMetrics(Collector):
    """Metrics of the journal in one store. Without a worker in this process there are none but the counter."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.sealed = 0
        """How many entries this process has sealed."""
        self.unsealed: int | None = None
        self.last_seal: float | None = None
        """The time of the newest seal, of any process."""
        self.problems: int | None = None
        """How many problems the last verification found."""

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily

        name = f"{self.prefix}_journal_{{}}".format
        sealed = CounterMetricFamily(name("entries_sealed"), "Entries sealed by this process.", labels=["store"])
        sealed.add_metric([self.store], self.sealed)
        yield sealed
        for key, text, value in (
            ("unsealed_entries", "Entries that are not sealed, up to 100,000.", self.unsealed),
            ("last_seal_timestamp_seconds", "The time of the newest seal.", self.last_seal),
            ("verification_problems", "Problems that the last verification found.", self.problems),
        ):
            gauge = GaugeMetricFamily(name(key), text, labels=["store"])
            if value is not None:
                gauge.add_metric([self.store], value)
            yield gauge
