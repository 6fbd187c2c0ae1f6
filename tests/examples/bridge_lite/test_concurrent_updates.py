"""Concurrent updates: 3 cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import FeedbackBridge, InputBridge, NormalizeBridge, OutputBridge
from bridge.core.enums import AuditEventType, IntentStatusEnum, PhilosophicalActor
from bridge.core.errors import InvalidStatusTransitionError, LockTimeoutError
from bridge.core.models import IntentModel, ReEvaluationResponse
from bridge.core.operations import update_intent_status
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge


async def test_concurrent_status_updates_pessimistic(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)

    results = await asyncio.gather(
        update_intent_status(intent.id, IntentStatusEnum.NORMALIZED, bridge.data_bridge, bridge.audit_logger),
        update_intent_status(intent.id, IntentStatusEnum.PROCESSED, other.data_bridge, other.audit_logger),
        return_exceptions=True,
    )

    # The second waits for the first. If processed came first, normalized is no longer allowed.
    errors = [one for one in results if isinstance(one, BaseException)]
    assert all(isinstance(error, InvalidStatusTransitionError) for error in errors)
    assert isinstance(results[1], IntentModel)
    final = await stored(bridge, intent.id)
    assert final.status is IntentStatusEnum.PROCESSED
    assert final.version == 2 - len(errors)
    events = await bridge.audit_logger.events(intent.id)
    assert [one.event for one in events] == [AuditEventType.STATUS_CHANGED] * final.version


async def test_concurrent_reeval_optimistic(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)
    wanted = [
        (bridge, "field_a", "value1", PhilosophicalActor.YUNO),
        (other, "field_b", "value2", PhilosophicalActor.KANA),
        (bridge, "field_c", "value3", PhilosophicalActor.YUNO),
    ]

    results = await asyncio.gather(
        *(
            program.reeval_client.reeval(correction(intent.id, {"payload": {name: value}}, source))
            for program, name, value, source in wanted
        )
    )

    assert all(isinstance(one, ReEvaluationResponse) and not one.already_applied for one in results)
    final = await stored(other, intent.id)
    assert len(final.correction_history) == 3
    assert final.payload == {name: value for _, name, value, _ in wanted}
    assert (final.version, final.status) == (3, IntentStatusEnum.CORRECTED)


async def test_concurrent_pipeline_executions(bridge: Bridge, other: Bridge) -> None:
    # The second run waits and gets the stored result if the first ends within its timeout, and otherwise
    # LockTimeoutError. Either way every bridge runs once.
    for timeout in (20.0, 0.05):
        intent = await create_test_intent(bridge)
        entered, go = asyncio.Event(), asyncio.Event()
        published: list[IntentModel] = []

        async def publish(
            intent: IntentModel,
            entered: asyncio.Event = entered,
            go: asyncio.Event = go,
            published: list[IntentModel] = published,
        ) -> None:
            published.append(intent)
            entered.set()
            await go.wait()

        def bridges(publish: object = publish) -> list[object]:
            return [InputBridge(), NormalizeBridge(), FeedbackBridge(), OutputBridge(publish)]  # type: ignore[arg-type]

        first, second = (
            BridgeSet(bridges(), one.data_bridge, one.audit_logger, name=f"concurrent-{timeout}")  # type: ignore[arg-type]
            for one in (bridge, other)
        )
        running = asyncio.create_task(first.execute_with_lock(intent.id))
        await entered.wait()
        waiting = asyncio.create_task(second.execute_with_lock(intent.id, timeout=timeout))
        if timeout < 1:
            (refused,) = await asyncio.gather(waiting, return_exceptions=True)
            assert isinstance(refused, LockTimeoutError)
            go.set()
        else:
            await asyncio.sleep(0.1)
            assert not waiting.done()
            go.set()
            assert (await waiting).status is IntentStatusEnum.COMPLETED
        assert (await running).status is IntentStatusEnum.COMPLETED
        assert len(published) == 1
        started = [
            one.bridge_type
            for one in await bridge.audit_logger.events(intent.id)
            if one.event is AuditEventType.BRIDGE_STARTED
        ]
        assert started == ["input", "normalize", "feedback", "output"]
