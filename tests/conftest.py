"""Fixtures that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def every_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, empty store of every kind, in turn."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue(f"interlock_{request.param}_url"))


@pytest.fixture
def store_url(every_store_url: str) -> str:
    """The same, under the name that the public suites use."""
    return every_store_url
