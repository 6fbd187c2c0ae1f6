"""Metrics of jobs. Labels are the names that the app defines; never keys or lanes."""

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
    """Metrics of one job name."""

    __slots__ = ("durations", "enqueued", "enqueued_in_transaction", "existing", "outcomes")

    def __init__(self) -> None:
        self.enqueued = 0
        self.enqueued_in_transaction = 0
        """Jobs enqueued on callers' own connections, whether or not their transactions were committed."""
        self.existing = 0
        """Enqueues that created no job, because another one has their key."""
        self.outcomes: dict[Outcome, int] = {}
        """Fetched jobs that ended in this process, by outcome; jobs that never started do not count."""
        self.durations = Durations()
        """Durations of handlers."""


class JobMetrics(Collector):
    """Metrics of the jobs in one store that this process ran."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.tallies: dict[str, JobTally] = {}
        self.waits = Durations()
        """Times from due to start."""
        self.late = 0
        """Acknowledgements that the store refused because the fetch had ended."""
        self.late_starts = 0
        """Jobs with a rate or cooldown that were returned because they would have started too late."""
        self.expired_starts = 0
        """Jobs that were returned because they expired before they could start."""
        self.unacknowledged = 0
        """Attempts to acknowledge jobs that failed because the store was unavailable."""
        self.log_lines = 0
        """Lines of jobs' logs that the store has."""
        self.log_lines_dropped = 0
        """Lines that the store never got: written faster than they could be appended, or by a fetch that had ended."""
        self.returned_paused = 0
        """Fetched jobs that were returned because their queue was paused."""
        self.rescued = 0
        self.quarantined = 0
        self.loop_lag = Durations()
        """Response times of the event loop, measured twice a second while a worker is open."""
        self.loop_blocked = 0.0
        """How long the event loop has been blocked; 0 while it runs."""
        self.gauges: list[Callable[[], tuple[int, int]]] = []
        """The number of running and of fetched jobs of each worker."""

    def of(self, name: str) -> JobTally:
        """The metrics of one job name."""
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = JobTally()
        return tally

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        enqueued = CounterMetricFamily(name("jobs_enqueued"), "Jobs accepted by the store.", labels=["store", "job"])
        in_transaction = CounterMetricFamily(
            name("jobs_enqueued_in_transaction"),
            "Jobs enqueued on callers' own connections, committed or not.",
            labels=["store", "job"],
        )
        finished = CounterMetricFamily(
            name("jobs_finished"), "Fetched jobs that were run, by outcome.", labels=["store", "job", "outcome"]
        )
        durations = HistogramMetricFamily(
            name("jobs_duration_seconds"), "Duration of handlers.", labels=["store", "job"]
        )
        existing = CounterMetricFamily(
            name("jobs_existing"), "Enqueues that found a job with their key.", labels=["store", "job"]
        )
        for job, tally in list(self.tallies.items()):
            enqueued.add_metric([self.store, job], tally.enqueued)
            in_transaction.add_metric([self.store, job], tally.enqueued_in_transaction)
            existing.add_metric([self.store, job], tally.existing)
            for outcome, count in list(tally.outcomes.items()):
                finished.add_metric([self.store, job, str(outcome)], count)
            durations.add_metric([self.store, job], tally.durations.buckets(), tally.durations.total)
        yield from (enqueued, in_transaction, existing, finished, durations)
        waits = HistogramMetricFamily(name("jobs_waiting_seconds"), "Time from due to start.", labels=["store"])
        waits.add_metric([self.store], self.waits.buckets(), self.waits.total)
        yield waits
        lag = HistogramMetricFamily(
            name("event_loop_lag_seconds"), "Time the event loop took to respond.", labels=["store"]
        )
        lag.add_metric([self.store], self.loop_lag.buckets(), self.loop_lag.total)
        yield lag
        blocked = GaugeMetricFamily(
            name("event_loop_blocked_seconds"),
            "How long the event loop has been blocked at the last check; 0 while it runs.",
            labels=["store"],
        )
        blocked.add_metric([self.store], self.loop_blocked)
        yield blocked
        for family, text, count in (
            ("job_late_acknowledgements", "Acknowledgements refused because the fetch had ended.", self.late),
            (
                "job_late_starts",
                "Jobs with a rate or cooldown returned because they would have started too late.",
                self.late_starts,
            ),
            (
                "job_expired_starts",
                "Jobs returned to the store because they expired before they could start.",
                self.expired_starts,
            ),
            (
                "job_acknowledgement_failures",
                "Attempts to acknowledge jobs that failed because the store was unavailable.",
                self.unacknowledged,
            ),
            ("job_log_lines", "Lines of jobs' logs appended to the store.", self.log_lines),
            (
                "job_log_lines_dropped",
                "Lines of jobs' logs that the store never got: too many at once, or of a fetch that had ended.",
                self.log_lines_dropped,
            ),
            (
                "job_returns_paused",
                "Fetched jobs returned without a start because their queue was paused.",
                self.returned_paused,
            ),
            ("jobs_rescued", "Jobs rescued from sessions that had ended.", self.rescued),
            ("jobs_quarantined", "Jobs quarantined after too many crashes.", self.quarantined),
        ):
            counter = CounterMetricFamily(name(family), text, labels=["store"])
            counter.add_metric([self.store], count)
            yield counter
        levels = [gauge() for gauge in self.gauges]
        for family, text, level in (
            ("jobs_running", "Jobs whose handlers are running.", sum(running for running, _ in levels)),
            ("job_buffer", "Jobs fetched and not yet started.", sum(buffered for _, buffered in levels)),
        ):
            gauge = GaugeMetricFamily(name(family), text, labels=["store"])
            gauge.add_metric([self.store], level)
            yield gauge
