"""Every store is held to the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock.testing.conformance import LocksConformance, LockStoreConformance, ProcessConformance

if TYPE_CHECKING:
    from pathlib import Path


class TestMemory(LockStoreConformance, LocksConformance, ProcessConformance):
    @pytest.fixture
    def store_url(self) -> str:
        return "memory://"


class TestSqlite(LockStoreConformance, LocksConformance, ProcessConformance):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/interlock.db"


class TestPostgres(LockStoreConformance, LocksConformance, ProcessConformance):
    @pytest.fixture
    def store_url(self, interlock_postgres_url: str) -> str:
        return interlock_postgres_url
