"""The concurrent cases with separate processes: corrections, locks in any order and updates of several intents."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from interlock.testing.processes import Barrier, Worker
from tests.examples.bridge_lite.intents import create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge


PROCESSES, COUNT = 5, 20


@pytest.mark.full
async def test_processes_that_contend_lose_no_change(url: str, bridge: Bridge) -> None:
    ids = [(await create_test_intent(bridge)).id for _ in range(5)]
    target = "tests.examples.bridge_lite.contender:contend"
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(Worker.spawn(target, [url, number, [str(one) for one in ids], COUNT]))
            for number in range(PROCESSES)
        ]
        await Barrier(*workers).release(60)
        new = sum([(await worker.result(110))["new"] for worker in workers])

    corrected = await stored(bridge, ids[0])
    assert new == corrected.version == PROCESSES * COUNT + COUNT
    assert corrected.payload == {f"p{p}t{t}": t for p in range(PROCESSES) for t in range(COUNT)} | {
        f"all{t}": t for t in range(COUNT)
    }
    counted = [await stored(bridge, one) for one in ids[1:]]
    assert sum(one.payload.get("count", 0) for one in counted) == 2 * PROCESSES * COUNT
    for one in counted:
        entries = await bridge.data_bridge.intents.history(str(one.id), limit=1000)
        assert sorted(entry.to_version or 0 for entry in entries) == list(range(one.version + 1))
