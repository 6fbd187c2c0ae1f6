"""The example on both stores that carry it. ``bridge`` and ``other`` are two programs on one store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bridge.core.concurrency import ConcurrencyConfig
from bridge.factory import Bridge, open_bridge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/bridge.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.fixture
async def bridge(url: str) -> AsyncIterator[Bridge]:
    async with open_bridge(url, config=ConcurrencyConfig()) as opened:
        yield opened


@pytest.fixture
async def other(url: str, bridge: Bridge) -> AsyncIterator[Bridge]:
    """A second program, with connections of its own. It is not the default of a ``BridgeSet``."""
    second = open_bridge(url, config=ConcurrencyConfig())
    async with second.app:
        yield second
