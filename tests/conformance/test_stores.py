"""Every store is held to the same promises."""

from __future__ import annotations

import pytest

from interlock.testing.conformance import (
    ClaimsConformance,
    ClaimStoreConformance,
    CursorsConformance,
    CursorStoreConformance,
    JobsConformance,
    JobStoreConformance,
    LimitsConformance,
    LimitStoreConformance,
    LocksConformance,
    LockStoreConformance,
    ProcessConformance,
)
from tests.conformance.suites import SUITES

STORES_OF_JOBS = ("memory", "sqlite", "postgres")


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


@pytest.mark.parametrize("every_store_url", STORES_OF_JOBS, indirect=True)
class TestJobStore(_OnEveryStore, JobStoreConformance):
    pass


@pytest.mark.parametrize("every_store_url", STORES_OF_JOBS, indirect=True)
class TestJobs(_OnEveryStore, JobsConformance):
    pass


def test_no_suite_is_left_out() -> None:
    here = {base for case in globals().values() if isinstance(case, type) for base in case.__mro__}
    assert set(SUITES) <= here
