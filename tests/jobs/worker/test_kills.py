"""Workers killed in the middle: each end of a job has one hook, and each job that is done one follow-up."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from interlock import App, JobState
from interlock.testing.clock import until
from tests.jobs.worker.follow_worker import SETTINGS, define

if TYPE_CHECKING:
    from pathlib import Path

_JOBS = 200
_KILLS = 5


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_kill_9_loses_and_doubles_no_hook_and_no_follow_up(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    if store == "postgres":
        url = str(request.getfixturevalue("complete_postgres_url"))
    chance = random.Random(7)
    app = App(url, settings=SETTINGS)
    jobs = define(app)
    async with app:
        lanes = ["", *"abc"]
        await app.jobs.enqueue_many(
            [jobs.build.options(lane=chance.choice(lanes) or None).call(number, "x") for number in range(_JOBS)]
        )
        for _ in range(_KILLS):
            await _work_and_die(url, chance.uniform(0.0, 0.3))
        async with app.worker(concurrency=50):
            await until(lambda: _all_ended(app), within=120)

        views = await app.jobs.list(limit=10_000)
        caused = Counter(view.cause for view in views)
        builds = [view for view in views if view.name == "build"]
        assert len(builds) == _JOBS
        assert {caused[f"end:{view.id}"] for view in builds} == {1}
        assert all(caused[f"job:{view.id}"] == (view.state is JobState.DONE) for view in builds)


async def _work_and_die(url: str, seconds: float) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.jobs.worker.follow_worker", url, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    with suppress(TimeoutError):
        await asyncio.wait_for(worker.stdout.readline(), 20)
    await asyncio.sleep(seconds)
    worker.kill()
    await worker.wait()


async def _all_ended(app: App) -> bool:
    return not await app.jobs.list(*(state for state in JobState if not state.final), limit=1)
