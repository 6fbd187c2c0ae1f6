"""The example on its stores, with a moderation API inside the test's process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from sentinel.factory import create_console
from sentinel.moderation_api import Moderation, create_moderation_api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sentinel.console import Console


@asynccontextmanager
async def served(api: Any) -> AsyncIterator[str]:
    """An ASGI application on a port of its own."""
    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="error", lifespan="off"))
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can use. PostgreSQL is left to the long form, to save time."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sentinel.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.fixture
def moderation() -> Moderation:
    return Moderation()


@pytest.fixture
async def moderation_url(moderation: Moderation) -> AsyncIterator[str]:
    async with served(create_moderation_api(moderation)) as address:
        yield address


@pytest.fixture
async def console(url: str, moderation_url: str) -> AsyncIterator[Console]:
    async with create_console(url, moderation_url=moderation_url) as opened:
        yield opened


@pytest.fixture
async def other(url: str, moderation_url: str, console: Console) -> AsyncIterator[Console]:
    """A second program on the same database, with connections of its own: choose it with ``working_on``."""
    async with create_console(url, moderation_url=moderation_url) as opened:
        yield opened
