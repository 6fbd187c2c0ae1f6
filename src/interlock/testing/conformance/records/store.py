"""The records port: step by step on a virtual clock, and under concurrency."""

from interlock.testing.conformance.records.insight import RecordInsightConformance
from interlock.testing.conformance.records.leasing import RecordLeaseConformance
from interlock.testing.conformance.records.listing import RecordListConformance
from interlock.testing.conformance.records.races import RecordRaceConformance
from interlock.testing.conformance.records.writing import RecordWritingConformance

__all__ = ["RecordStoreConformance"]


class RecordStoreConformance(
    RecordWritingConformance,
    RecordLeaseConformance,
    RecordListConformance,
    RecordInsightConformance,
    RecordRaceConformance,
):
    """The promises of the records port."""
