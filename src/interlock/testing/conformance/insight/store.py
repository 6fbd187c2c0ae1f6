"""The read side of a store: jobs, and everything that can be listed."""

from interlock.testing.conformance.insight.figures import FigureConformance
from interlock.testing.conformance.insight.jobs import JobListConformance
from interlock.testing.conformance.insight.snapshots import ListConformance, SnapshotConformance

__all__ = ["InsightConformance", "ListConformance"]


class InsightConformance(JobListConformance, FigureConformance, SnapshotConformance):
    """The promises of the insight port, and of snapshots."""
