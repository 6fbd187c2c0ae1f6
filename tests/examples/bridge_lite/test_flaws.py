"""Flaws of the original design that concern its pipeline, each as a test that fails on the flawed design."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import BaseBridge, InputBridge, OutputBridge
from bridge.core.enums import IntentStatusEnum
from bridge.core.errors import BridgeExecutionError
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.core.models import IntentModel
    from bridge.factory import Bridge


async def test_f_b5_a_slow_stage_blocks_nobody_and_never_itself(bridge: Bridge, other: Bridge) -> None:
    class Slow(BaseBridge):
        async def execute(self, intent: IntentModel) -> IntentModel:
            async with asyncio.timeout(5):  # both would wait for the lock of this run, and so forever
                await other.reeval_client.reeval(correction(intent.id, {"payload.theirs": 1}))
                await bridge.reeval_client.reeval(correction(intent.id, {"payload.ours": 2}))
            return intent

    intent = await create_test_intent(bridge)
    if bridge.app.store_name == "postgres":
        open_transactions: list[Any] = []

        class Watching(Slow):
            async def execute(self, intent: IntentModel) -> IntentModel:
                done = await super().execute(intent)
                open_transactions.extend(await _open_transactions(bridge))
                return done

        done = await BridgeSet([InputBridge(), Watching(), OutputBridge()]).execute_with_lock(intent.id)
        assert open_transactions == []
    else:
        done = await BridgeSet([InputBridge(), Slow(), OutputBridge()]).execute_with_lock(intent.id)

    assert done.payload == {"theirs": 1, "ours": 2}


async def _open_transactions(bridge: Bridge) -> list[Any]:
    import asyncpg

    connection = await asyncpg.connect(bridge.url)
    try:
        found: list[Any] = await connection.fetch(
            "select query from pg_stat_activity where datname = current_database()"
            " and state like 'idle in transaction%'"
        )
        return found
    finally:
        await connection.close()


async def test_f_b6_a_failfast_run_stores_failed(bridge: Bridge, other: Bridge) -> None:
    class Failing(BaseBridge):
        async def execute(self, intent: IntentModel) -> IntentModel:
            raise BridgeExecutionError("broken")

    intent = await create_test_intent(bridge)
    with pytest.raises(BridgeExecutionError, match="broken"):
        await BridgeSet([InputBridge(), Failing()]).execute_with_lock(intent.id)

    assert (await stored(other, intent.id)).status is IntentStatusEnum.FAILED
