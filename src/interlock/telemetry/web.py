"""Metrics of the web app. Labels are the sources that the app defines; never paths or clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

__all__ = ["WebMetrics"]


class WebMetrics(Collector):
    """Metrics of one web app in this process."""

    def __init__(self, prefix: str = "interlock", streams: Callable[[], int] = lambda: 0) -> None:
        self.prefix = prefix
        self.streams = streams
        self.answers: dict[tuple[str, int], int] = {}
        """Responses to webhooks, by source and status. The source is empty for unknown sources."""
        self.durations: dict[str, Durations] = {}
        """Durations of accepted webhooks, by source."""
        self.failed_logins = {"password": 0, "token": 0, "slowed": 0}
        """Failed logins by kind; ``slowed`` attempts were not checked."""

    def answered(self, source: str, status: int, seconds: float) -> None:
        """Count the response to a webhook."""
        key = source, status
        self.answers[key] = self.answers.get(key, 0) + 1
        durations = self.durations.get(source)
        if durations is None:
            durations = self.durations[source] = Durations()
        durations.observe(seconds)

    def login_failed(self, how: str) -> None:
        """Count a login that failed, or that came too soon after failed ones."""
        self.failed_logins[how] += 1

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        answers = CounterMetricFamily(
            name("webhook_answers"), "Webhooks answered, by status.", labels=["source", "status"]
        )
        for (source, status), count in list(self.answers.items()):
            answers.add_metric([source, str(status)], count)
        yield answers
        seconds = HistogramMetricFamily(
            name("webhook_seconds"), "Time from the head of a webhook to its response.", labels=["source"]
        )
        for source, durations in list(self.durations.items()):
            seconds.add_metric([source], durations.buckets(), durations.total)
        yield seconds
        logins = CounterMetricFamily(name("web_failed_logins"), "Failed logins to the dashboard.", labels=["how"])
        for how, count in self.failed_logins.items():
            logins.add_metric([how], count)
        yield logins
        streams = GaugeMetricFamily(name("web_streams"), "Open streams to browsers.")
        streams.add_metric([], self.streams())
        yield streams
