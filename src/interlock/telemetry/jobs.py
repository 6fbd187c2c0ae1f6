"""What jobs count and time. By name at most, which is bounded by what the app defines; never by key or lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from interlock.ports.jobs import Outcome

__all__ = ["JobMetrics", "JobTally"]


class JobTally:
    """What one job of the app counts and times."""

    __slots__ = ("durations", "enqueued", "outcomes")

    def __init__(self) -> None:
        self.enqueued = 0
        self.outcomes: dict[Outcome, int] = {}
        """Fetches ended by this process, by how; those that never started are not among them."""
        self.durations = Durations()
        """From the start of the handler to its end."""


class JobMetrics(Collector):
    """Counts and times of the jobs in one store, as this process sees them."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.tallies: dict[str, JobTally] = {}
        self.waits = Durations()
        """From due to start."""
        self.late = 0
        """Acknowledgements that the store refused: the fetch had ended."""
        self.late_starts = 0
        """Jobs with a rate or cooldown that were returned, as they would have started too late."""
        self.unacknowledged = 0
        """Attempts to acknowledge jobs that failed because the store was not available."""
        self.rescued = 0
        self.quarantined = 0
        self.loop_lag = Durations()
        """From asking the event loop for a sign of life to its answer, twice a second while a worker is open."""
        self.loop_blocked = 0.0
        """For how many seconds the event loop has been blocked, if it is now."""
        self.gauges: list[Callable[[], tuple[int, int]]] = []
        """How many jobs each worker runs now, and how many it has fetched in advance."""

    def of(self, name: str) -> JobTally:
        """What one job counts."""
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = JobTally()
        return tally

    def collect(self) -> Iterable[Metric]:
        """The families as they stand now."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        enqueued = CounterMetricFamily(name("jobs_enqueued"), "Jobs accepted by the store.", labels=["store", "job"])
        finished = CounterMetricFamily(
            name("jobs_finished"), "Fetches of jobs, by how they ended.", labels=["store", "job", "outcome"]
        )
        durations = HistogramMetricFamily(
            name("jobs_duration_seconds"), "Time from the start of a handler to its end.", labels=["store", "job"]
        )
        for job, tally in list(self.tallies.items()):
            enqueued.add_metric([self.store, job], tally.enqueued)
            for outcome, count in list(tally.outcomes.items()):
                finished.add_metric([self.store, job, str(outcome)], count)
            durations.add_metric([self.store, job], tally.durations.buckets(), tally.durations.total)
        yield from (enqueued, finished, durations)
        waits = HistogramMetricFamily(name("jobs_waiting_seconds"), "Time from due to start.", labels=["store"])
        waits.add_metric([self.store], self.waits.buckets(), self.waits.total)
        yield waits
        lag = HistogramMetricFamily(
            name("event_loop_lag_seconds"), "Time the event loop took to answer a sign of life.", labels=["store"]
        )
        lag.add_metric([self.store], self.loop_lag.buckets(), self.loop_lag.total)
        yield lag
        blocked = GaugeMetricFamily(
            name("event_loop_blocked_seconds"),
            "How long the event loop has been blocked, as of the last look; 0 while it runs.",
            labels=["store"],
        )
        blocked.add_metric([self.store], self.loop_blocked)
        yield blocked
        for family, text, count in (
            ("job_late_acknowledgements", "Acknowledgements refused because the fetch had ended.", self.late),
            (
                "job_late_starts",
                "Jobs with a rate or cooldown returned, as they would have started too late.",
                self.late_starts,
            ),
            (
                "job_acknowledgement_failures",
                "Attempts to acknowledge jobs that failed because the store was not available.",
                self.unacknowledged,
            ),
            ("jobs_rescued", "Jobs taken from sessions that had ended.", self.rescued),
            ("jobs_quarantined", "Jobs ended because they killed too many workers.", self.quarantined),
        ):
            counter = CounterMetricFamily(name(family), text, labels=["store"])
            counter.add_metric([self.store], count)
            yield counter
        levels = [gauge() for gauge in self.gauges]
        for family, text, level in (
            ("jobs_running", "Jobs whose handlers run now.", sum(running for running, _ in levels)),
            ("job_buffer", "Jobs fetched and not yet started.", sum(buffered for _, buffered in levels)),
        ):
            gauge = GaugeMetricFamily(name(family), text, labels=["store"])
            gauge.add_metric([self.store], level)
            yield gauge
