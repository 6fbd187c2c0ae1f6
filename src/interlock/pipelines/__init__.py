"""Pipelines: ordered stages over one record, run as a job in the record's lane."""

from interlock.pipelines.pipeline import Pipeline, RunHandle
from interlock.pipelines.stages import Mode, Stage, StageRun
from interlock.pipelines.views import Run, RunView, StageView
from interlock.ports.pipelines import RunState, StageState

__all__ = [
    "Mode",
    "Pipeline",
    "Run",
    "RunHandle",
    "RunState",
    "RunView",
    "Stage",
    "StageRun",
    "StageState",
    "StageView",
]
