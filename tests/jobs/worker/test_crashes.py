"""A job that kills its worker, in real processes: it is found out, and nothing else is held against anybody."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.errors import JobFailedError
from interlock.jobs import JobState
from tests.jobs.worker.crash_pool import SETTINGS, define

if TYPE_CHECKING:
    from pathlib import Path

_MAX_CRASHES = 10


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.full)])
async def test_one_that_kills_among_fifty_is_quarantined_and_only_that_one(url: str, workers: int) -> None:
    async with App(url, settings=SETTINGS) as app:
        build = define(app)
        handles = await app.jobs.enqueue_many([build.call(number, number == 20, 0.04) for number in range(50)])
        crew = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.jobs.worker.crash_pool",
            url,
            str(workers),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        ended: dict[int, str] = {}
        for number, handle in enumerate(handles):
            try:
                assert await handle.result(wait=200) == number
            except JobFailedError as error:
                ended[number] = error.state
        told, _ = await crew.communicate(b"")
        crashes = json.loads(told)

        assert ended == {20: JobState.QUARANTINED}
        assert 3 <= len(crashes) <= _MAX_CRASHES, crashes
        assert {(await handle.status()).crashes for handle in handles} == {0, 3}
