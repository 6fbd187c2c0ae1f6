"""Every store is held to the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock.testing.conformance import (
    ClaimsConformance,
    ClaimStoreConformance,
    CursorsConformance,
    CursorStoreConformance,
    EventsConformance,
    EventStoreConformance,
    InsightConformance,
    JobsConformance,
    JobStoreConformance,
    JournalStoreConformance,
    LimitsConformance,
    LimitStoreConformance,
    ListConformance,
    LocksConformance,
    LockStoreConformance,
    PipelinesConformance,
    PipelineStoreConformance,
    ProcessConformance,
    RecordsConformance,
    RecordStoreConformance,
    SchedulesConformance,
    ScheduleStoreConformance,
)
from tests.conformance.suites import SUITES
from tests.databases import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _OnEveryStore:
    @pytest.fixture
    def store_url(self, every_store_url: str) -> str:
        return every_store_url


class TestLockStore(_OnEveryStore, LockStoreConformance):
    pass


class TestLocks(_OnEveryStore, LocksConformance):
    pass


class TestProcesses(_OnEveryStore, ProcessConformance):
    pass


class TestClaimStore(_OnEveryStore, ClaimStoreConformance):
    pass


class TestClaims(_OnEveryStore, ClaimsConformance):
    pass


class TestCursorStore(_OnEveryStore, CursorStoreConformance):
    pass


class TestCursors(_OnEveryStore, CursorsConformance):
    pass


class TestLimitStore(_OnEveryStore, LimitStoreConformance):
    pass


class TestLimits(_OnEveryStore, LimitsConformance):
    pass


@pytest.fixture(scope="module")
def database(interlock_postgres_server: Any) -> Iterator[str]:
    """One for many tests, each of which has a namespace of its own: making one takes longer than most of them."""
    for name in new_database(interlock_postgres_server):
        yield interlock_postgres_server.url(name)


# PostgreSQL takes most of the time; make test knows it from the tests of the other folders.
_LONG = (pytest.mark.full, pytest.mark.covering)


class _OnStoresOfJobs:
    @pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=_LONG)])
    def store_url(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        if request.param == "postgres":
            return str(request.getfixturevalue("database"))
        return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/interlock.db"


class TestJobStore(_OnStoresOfJobs, JobStoreConformance):
    pass


class TestJobs(_OnStoresOfJobs, JobsConformance):
    pass


class TestEventStore(_OnStoresOfJobs, EventStoreConformance):
    pass


class TestEvents(_OnStoresOfJobs, EventsConformance):
    pass


class TestJournalStore(_OnStoresOfJobs, JournalStoreConformance):
    pass


class TestScheduleStore(_OnStoresOfJobs, ScheduleStoreConformance):
    pass


class TestSchedules(_OnStoresOfJobs, SchedulesConformance):
    pass


class TestPipelineStore(_OnStoresOfJobs, PipelineStoreConformance):
    pass


class TestPipelines(_OnStoresOfJobs, PipelinesConformance):
    pass


class TestRecordStore(_OnStoresOfJobs, RecordStoreConformance):
    pass


class TestRecords(_OnStoresOfJobs, RecordsConformance):
    pass


class TestInsight(_OnStoresOfJobs, InsightConformance):
    pass


class TestLists(_OnEveryStore, ListConformance):
    pass


def test_no_suite_is_left_out() -> None:
    here = {base for case in globals().values() if isinstance(case, type) for base in case.__mro__}
    assert set(SUITES) <= here
