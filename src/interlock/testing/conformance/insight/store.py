"""What a store tells those who look, of jobs and of all that can be listed."""

from interlock.testing.conformance.insight.figures import FigureConformance
from interlock.testing.conformance.insight.jobs import JobListConformance
from interlock.testing.conformance.insight.snapshots import ListConformance, SnapshotConformance

__all__ = ["InsightConformance", "ListConformance"]


class InsightConformance(JobListConformance, FigureConformance, SnapshotConformance):
    """What the port of insight promises, and what a snapshot does."""
