"""The configuration of concurrency: defaults, the environment, and what is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bridge.core.concurrency import ConcurrencyConfig, LockStrategy
from bridge.core.enums import IntentStatusEnum
from bridge.core.errors import LockTimeoutError
from bridge.core.operations import update_intent_status
from bridge.factory import open_bridge
from tests.examples.bridge_lite.intents import create_test_intent

if TYPE_CHECKING:
    from bridge.factory import Bridge


def test_the_defaults() -> None:
    strategies = {
        "update_status": LockStrategy.PESSIMISTIC,
        "re_evaluate": LockStrategy.OPTIMISTIC,
        "pipeline_execute": LockStrategy.PESSIMISTIC,
        "audit_log": LockStrategy.NONE,
        "correction_history": LockStrategy.OPTIMISTIC,
    }
    for config in (ConcurrencyConfig, ConcurrencyConfig(), ConcurrencyConfig.from_environment({})):
        assert strategies == config.LOCK_STRATEGIES
        assert (config.MAX_RETRIES, config.RETRY_BACKOFF_BASE, config.RETRY_JITTER) == (3, 0.1, 0.05)
        assert (config.DEADLOCK_TIMEOUT, config.ISOLATION_LEVEL) == (5.0, "READ_COMMITTED")


def test_the_environment_changes_strategies_waits_and_numbers() -> None:
    config = ConcurrencyConfig.from_environment(
        {
            "BRIDGE_LOCK_STRATEGY_UPDATE_STATUS": "Optimistic",
            "BRIDGE_LOCK_WAIT_RE_EVALUATE": "2.5",
            "BRIDGE_MAX_RETRIES": "5",
            "BRIDGE_DEADLOCK_TIMEOUT": "1",
            "BRIDGE_URL": "sqlite:///elsewhere.db",
        }
    )

    assert config.strategy("update_status") is LockStrategy.OPTIMISTIC
    assert config.strategy("re_evaluate") is LockStrategy.OPTIMISTIC
    assert (config.wait("re_evaluate"), config.wait("update_status"), config.MAX_RETRIES) == (2.5, 1.0, 5)
    assert ConcurrencyConfig.MAX_RETRIES == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BRIDGE_LOCK_STRATEGY_UPDATE_STATUS", "hopeful", "Invalid LockStrategy 'hopeful'. Valid values: optimistic"),
        ("BRIDGE_LOCK_STRATEGY_UPDATE", "none", "Unknown operation 'update'. Valid values: update_status"),
        ("BRIDGE_LOCK_STRATEGY_PIPELINE_EXECUTE", "none", "It is always 'pessimistic'"),
        ("BRIDGE_LOCK_STRATEGY_AUDIT_LOG", "optimistic", "It is always 'none'"),
        ("BRIDGE_LOCK_WAIT_RE_EVALUATE", "-1", "Invalid the wait of re_evaluate: '-1'"),
        ("BRIDGE_MAX_RETRIES", "0", "Invalid MAX_RETRIES: '0'"),
        ("BRIDGE_MAX_RETRIES", "1.5", "Use a whole number"),
        ("BRIDGE_DEADLOCK_TIMEOUT", "soon", "Invalid DEADLOCK_TIMEOUT: 'soon'"),
        ("BRIDGE_ISOLATION_LEVEL", "SERIALIZABLE", "Invalid ISOLATION_LEVEL 'SERIALIZABLE'"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConcurrencyConfig.from_environment({name: value})


@pytest.mark.parametrize("strategy", [LockStrategy.OPTIMISTIC, LockStrategy.NONE])
async def test_the_strategy_of_status_updates_is_a_setting(url: str, strategy: LockStrategy) -> None:
    async with open_bridge(url, config=ConcurrencyConfig(LOCK_STRATEGIES={"update_status": strategy})) as bridge:
        intent = await create_test_intent(bridge)

        done = await update_intent_status(
            intent.id, IntentStatusEnum.PROCESSED, bridge.data_bridge, bridge.audit_logger
        )

        assert (done.status, done.version) == (IntentStatusEnum.PROCESSED, 1)
        (event,) = await bridge.audit_logger.events(intent.id)
        assert event.payload == {"old_status": "received", "new_status": "processed"}


async def test_lock_timeouts_can_be_retried(url: str, bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    config = {"DEADLOCK_TIMEOUT": 0.05, "RETRY_BACKOFF_BASE": 0.01, "RETRY_JITTER": 0}
    one_shot = open_bridge(url, config=ConcurrencyConfig(**config))
    patient = open_bridge(url, config=ConcurrencyConfig(**config, LOCK_TIMEOUT_RETRIES=8))
    async with one_shot.app, patient.app:
        async with bridge.data_bridge.lock_intent_for_update(intent.id):
            with pytest.raises(LockTimeoutError):
                await update_intent_status(
                    intent.id, IntentStatusEnum.FAILED, one_shot.data_bridge, one_shot.audit_logger
                )
        async with bridge.data_bridge.lock_intent_for_update(intent.id):
            trying = asyncio.create_task(
                update_intent_status(intent.id, IntentStatusEnum.FAILED, patient.data_bridge, patient.audit_logger)
            )
            await asyncio.sleep(0.1)  # longer than one attempt
        assert (await trying).status is IntentStatusEnum.FAILED
