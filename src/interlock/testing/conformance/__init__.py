"""The promises as tests that run against any store.

Subclass the suites for what your store offers, and provide its URL::

    class OnMyStore:
        @pytest.fixture
        def store_url(self):
            return "mystore://…"          # a fresh, empty store for every test

    class TestLocks(OnMyStore, LocksConformance): ...
    class TestClaims(OnMyStore, ClaimsConformance): ...

A test that needs a capability that the store does not declare is skipped with a message. No other test is skipped.
"""

from interlock.testing.conformance.claims.store import ClaimStoreConformance
from interlock.testing.conformance.claims.users import ClaimsConformance
from interlock.testing.conformance.cursors.store import CursorStoreConformance
from interlock.testing.conformance.cursors.users import CursorsConformance
from interlock.testing.conformance.events.store import EventStoreConformance
from interlock.testing.conformance.events.users import EventsConformance
from interlock.testing.conformance.insight.store import InsightConformance, ListConformance
from interlock.testing.conformance.jobs.store import JobStoreConformance
from interlock.testing.conformance.jobs.users import JobsConformance
from interlock.testing.conformance.journal.store import JournalStoreConformance
from interlock.testing.conformance.limits.store import LimitStoreConformance
from interlock.testing.conformance.limits.users import LimitsConformance
from interlock.testing.conformance.locks.processes import ProcessConformance
from interlock.testing.conformance.locks.store import LockStoreConformance
from interlock.testing.conformance.locks.users import LocksConformance
from interlock.testing.conformance.pipelines.store import PipelineStoreConformance
from interlock.testing.conformance.pipelines.users import PipelinesConformance
from interlock.testing.conformance.records.store import RecordStoreConformance
from interlock.testing.conformance.records.users import RecordsConformance
from interlock.testing.conformance.schedules.store import ScheduleStoreConformance
from interlock.testing.conformance.schedules.users import SchedulesConformance

__all__ = [
    "ClaimStoreConformance",
    "ClaimsConformance",
    "CursorStoreConformance",
    "CursorsConformance",
    "EventStoreConformance",
    "EventsConformance",
    "InsightConformance",
    "JobStoreConformance",
    "JobsConformance",
    "JournalStoreConformance",
    "LimitStoreConformance",
    "LimitsConformance",
    "ListConformance",
    "LockStoreConformance",
    "LocksConformance",
    "PipelineStoreConformance",
    "PipelinesConformance",
    "ProcessConformance",
    "RecordStoreConformance",
    "RecordsConformance",
    "ScheduleStoreConformance",
    "SchedulesConformance",
]
