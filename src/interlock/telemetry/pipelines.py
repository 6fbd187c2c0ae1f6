"""Metrics of pipelines. Labels are the names of pipelines and stages, which the app defines; never records or runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.telemetry.collector import Collector
from interlock.telemetry.metrics import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

__all__ = ["PipelineMetrics"]


class PipelineMetrics(Collector):
    """Metrics of the runs in one store that this process executed."""

    def __init__(self, store: str, prefix: str = "interlock") -> None:
        self.store = store
        self.prefix = prefix
        self.runs: dict[tuple[str, str], int] = {}
        """Runs that ended here, by pipeline and outcome."""
        self.stages: dict[tuple[str, str, str], int] = {}
        """Attempts of stages, by pipeline, stage and outcome."""
        self.durations: dict[tuple[str, str], Durations] = {}
        """How long attempts of stages took, by pipeline and stage."""
        self.merges: dict[str, int] = {}
        """Stages whose record was changed by others meanwhile, by pipeline."""

    def run_ended(self, pipeline: str, outcome: str) -> None:
        """Count the end of a run."""
        self.runs[pipeline, outcome] = self.runs.get((pipeline, outcome), 0) + 1

    def stage_ended(self, pipeline: str, stage: str, outcome: str, seconds: float) -> None:
        """Count the end of an attempt of a stage."""
        self.stages[pipeline, stage, outcome] = self.stages.get((pipeline, stage, outcome), 0) + 1
        self.durations.setdefault((pipeline, stage), Durations()).observe(seconds)

    def merged(self, pipeline: str) -> None:
        """Count a stage whose record was changed by others meanwhile."""
        self.merges[pipeline] = self.merges.get(pipeline, 0) + 1

    def collect(self) -> Iterable[Metric]:
        """The current metric families."""
        from interlock.telemetry.families import CounterMetricFamily, HistogramMetricFamily

        name = f"{self.prefix}_{{}}".format
        runs = CounterMetricFamily(
            name("pipeline_runs"), "Runs of pipelines that ended, by outcome.", labels=["store", "pipeline", "outcome"]
        )
        for labels, count in list(self.runs.items()):
            runs.add_metric([self.store, *labels], count)
        yield runs
        stages = CounterMetricFamily(
            name("pipeline_stages"),
            "Attempts of stages that ended, by outcome.",
            labels=["store", "pipeline", "stage", "outcome"],
        )
        for stage_labels, count in list(self.stages.items()):
            stages.add_metric([self.store, *stage_labels], count)
        yield stages
        durations = HistogramMetricFamily(
            name("pipeline_stage_seconds"), "Duration of stages.", labels=["store", "pipeline", "stage"]
        )
        for labels, observed in list(self.durations.items()):
            durations.add_metric([self.store, *labels], observed.buckets(), observed.total)
        yield durations
        merges = CounterMetricFamily(
            name("pipeline_stages_merged"),
            "Stages whose record was changed by others meanwhile.",
            labels=["store", "pipeline"],
        )
        for pipeline, count in list(self.merges.items()):
            merges.add_metric([self.store, pipeline], count)
        yield merges
