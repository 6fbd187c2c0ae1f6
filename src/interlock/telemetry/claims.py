"""Metrics of claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.claims import ClaimState
from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["ClaimMetrics"]


class ClaimMetrics(Collector):
    """Metrics of the claims in one store."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.answers = dict.fromkeys(ClaimState, 0)
        self.finished = {ClaimState.DONE: 0, ClaimState.FAILED: 0}
        self.refused = 0
        self.losses: dict[str, int] = {}
        self.holds = Durations()

    def count(self, state: ClaimState) -> None:
        """Count a request for a claim."""
        self.answers[state] += 1

    @property
    def active(self) -> int:
        """Claims that this process holds."""
        return self.answers[ClaimState.NEW] - self.holds.count

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        answers = CounterMetricFamily(
            name("claims"), "Requests for a claim, by the state returned.", labels=["store", "state"]
        )
        for state, count in self.answers.items():
            answers.add_metric([self.store, state.replace(" ", "_")], count)
        yield answers
        finished = CounterMetricFamily(
            name("claims_finished"), "Claims finished, by outcome.", labels=["store", "outcome"]
        )
        for outcome, count in (*self.finished.items(), ("refused", self.refused)):
            finished.add_metric([self.store, str(outcome)], count)
        yield finished
        losses = CounterMetricFamily(name("claim_losses"), "Claims lost while held.", labels=["store", "cause"])
        for reason, count in self.losses.items():
            losses.add_metric([self.store, reason], count)
        yield losses
        active = GaugeMetricFamily(name("active_claims"), "Claims that this process holds.", labels=["store"])
        active.add_metric([self.store], self.active)
        yield active
        holds = HistogramMetricFamily(
            name("claim_duration_seconds"), "Time from claim to finish or loss.", labels=["store"]
        )
        holds.add_metric([self.store], buckets=self.holds.buckets(), sum_value=self.holds.total)
        yield holds
