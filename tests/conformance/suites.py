"""All suites that a store can be held to, one class each: two may have a test of the same name."""

from __future__ import annotations

from interlock.testing import conformance

__all__ = ["SHARING", "SUITES"]

SUITES = tuple(getattr(conformance, name) for name in conformance.__all__)
SHARING = {
    conformance.EventsConformance,
    conformance.EventStoreConformance,
    conformance.InsightConformance,
    conformance.JobsConformance,
    conformance.JobStoreConformance,
    conformance.JournalStoreConformance,
    conformance.PipelineStoreConformance,
    conformance.PipelinesConformance,
    conformance.RecordStoreConformance,
    conformance.RecordsConformance,
    conformance.ScheduleStoreConformance,
    conformance.SchedulesConformance,
}
"""Those whose tests have a namespace of their own each, so that they can share a place."""
