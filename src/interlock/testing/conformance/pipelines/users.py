"""Pipelines as programs use them: the same behavior on every store."""

from interlock.testing.conformance.pipelines.corrections import PipelineCorrectionConformance
from interlock.testing.conformance.pipelines.failures import PipelineFailureConformance
from interlock.testing.conformance.pipelines.running import PipelineRunConformance

__all__ = ["PipelinesConformance"]


class PipelinesConformance(PipelineRunConformance, PipelineFailureConformance, PipelineCorrectionConformance):
    """The promises of ``app.pipeline``."""
