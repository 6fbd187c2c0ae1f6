"""kill -9 of a worker: every line that readers could see is still there, and the next fetch writes below it."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.testing.clock import until
from tests.jobs.worker.chatty_worker import SETTINGS, define

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.mark.full
@pytest.mark.timeout(120)
async def test_what_was_appended_before_a_kill_is_kept(url: str) -> None:
    async with App(url, settings=SETTINGS) as app:
        define(app, endless=False)
        handle = await app.jobs["chat"].enqueue()
        worker = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.jobs.worker.chatty_worker", url)
        try:

            async def has_logged() -> bool:
                return len([line async for line in handle.logs()]) > 20

            await until(has_logged, within=60, what="the worker has appended lines")
        finally:
            worker.kill()
            await worker.wait()
        seen = [line async for line in handle.logs()]
        progress = await handle.progress()
        async with app.worker(concurrency=2):
            assert await handle.result(wait=60) == "ended"
        lines = [line async for line in handle.logs()]

    assert lines[: len(seen)] == seen, "nothing that was there is lost"
    assert progress is not None
    dead, alive = lines[0].fence, lines[-1].fence
    assert alive > dead
    assert [line.fence for line in lines] == [dead] * len(seen) + [alive] * 3
    assert [line.text for line in seen] == [f"line {n} of fetch {dead}" for n in range(1, len(seen) + 1)]
    assert [line.text for line in lines[-3:]] == [f"line {n} of fetch {alive}" for n in (1, 2, 3)]
    assert all(later.number == earlier.number + 1 for earlier, later in pairwise(lines))
