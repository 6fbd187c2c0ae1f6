"""Direct runs, enqueued runs and workers at the same time: each record goes through its stages once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interlock import App
from tests.pipelines.intake import STAGES, Intent, declare

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 12


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://storm"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


async def test_direct_and_enqueued_runs_share_workers_and_lanes(url: str) -> None:
    one, two = App(url), App(url)
    intents, pipeline = declare(one)
    _, other = declare(two)
    async with one, two, two.worker(concurrency=4):
        ids = [f"r{number}" for number in range(RECORDS)]
        for name in ids:
            await intents.create(Intent(id=name))
        async with asyncio.timeout(50), asyncio.TaskGroup() as tasks:
            direct = [tasks.create_task(pipeline.run(name, 50)) for name in ids]
            again = [tasks.create_task(other.run(name, 50)) for name in ids]
            handles = [await pipeline.enqueue(name) for name in ids]
        states = [(await one).state for one in (*direct, *again)]
        states += [(await handle.result(50)).state for handle in handles]
        assert (states.count("completed"), states.count("skipped")) == (RECORDS, 2 * RECORDS)
        for intent in await intents.list():
            assert (intent.status, intent.count) == ("completed", len(STAGES))
            assert intent.payload == dict.fromkeys(STAGES, 1) | {"own": 1}
