"""Runs and stages are counted and timed."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from interlock import App
from interlock.errors import PipelineError
from tests.pipelines.intake import MACHINE, Intent, broken


async def test_runs_and_stages_are_counted_and_timed() -> None:
    app = App("memory://")
    intents = app.records(Intent, machine=MACHINE)

    async def first(intent: Intent) -> None:
        intent.count += 1

    pipeline = app.pipeline("intake", intents, stages=[first, broken])
    async with app:
        registry = CollectorRegistry()
        registry.register(app.metrics)
        await intents.create(Intent(id="a"))
        await intents.create(Intent(id="b"))
        with pytest.raises(PipelineError):
            await pipeline.run("a")
        await pipeline.run("a")
        await pipeline.run("b", mode="continue")

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, {"store": "memory", "pipeline": "intake", **labels})

        outcomes = {
            one: value("interlock_pipeline_runs_total", outcome=one) for one in ("completed", "failed", "skipped")
        }
        assert outcomes == {"completed": 1, "failed": 1, "skipped": 1}
        assert value("interlock_pipeline_stages_total", stage="first", outcome="completed") == 2
        assert value("interlock_pipeline_stages_total", stage="broken", outcome="failed") == 2
        assert value("interlock_pipeline_stage_seconds_count", stage="first") == 2
