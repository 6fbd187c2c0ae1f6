"""Measure the example against the figures that its authors asked for, and print by which factor each is beaten."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.harness import console, percentile
from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.enums import IntentStatusEnum, PhilosophicalActor
from bridge.core.models import IntentModel, ReEvaluationRequest
from bridge.core.operations import update_intent_status
from bridge.core.retry import retry_on_deadlock
from bridge.factory import Bridge, create_bridge

if TYPE_CHECKING:
    from uuid import UUID

    from benchmarks.harness import Report

__all__ = ["judge_bridge", "run_bridge"]

INTENTS, BATCH = 1000, 100
LOCKS = 100
CONTENDERS = 50
DEADLOCKS = 10
STORES = ("sqlite", "postgres")
TARGETS = {
    "status updates": (100, "updates/s"),
    "lock p95": (50, "ms"),
    f"{CONTENDERS} corrections of one intent: mean": (200, "ms"),
    f"{CONTENDERS} corrections of one intent: p95": (200, "ms"),
    "deadlock recovery: mean": (1000, "ms"),
}
"""What the authors asked for: at least so many a second, at most so many milliseconds."""


async def run_bridge(report: Report, where: dict[str, str], *, rounds: int, quick: bool) -> None:
    for round_ in range(rounds):
        console.print(f"bridge: round {round_ + 1} of {rounds} …", style="dim")
        for store in STORES:
            one, two = (_bridge(where[store], name) for name in [f"bench-{uuid4().hex}"] for _ in range(2))
            async with one, two:
                rate = await _status_updates(one, 200 if quick else INTENTS)
                report.add(f"{store}: status updates", rate, "updates/s")
                times = await _locks(one)
                report.add(f"{store}: lock p95", percentile(times, 0.95), "ms", more_is_better=False)
                times = await _corrections(one)
                name = f"{store}: {CONTENDERS} corrections of one intent"
                report.add(f"{name}: mean", statistics.fmean(times), "ms", more_is_better=False)
                report.add(f"{name}: p95", percentile(times, 0.95), "ms", more_is_better=False)
                times = [await _deadlock(one, two) for _ in range(DEADLOCKS)]
                report.add(f"{store}: deadlock recovery: mean", statistics.fmean(times), "ms", more_is_better=False)


def judge_bridge(report: Report) -> None:
    for store in STORES:
        for what, (target, unit) in TARGETS.items():
            figure = report.figures[f"{store}: {what}"]
            factor = figure.median / target if figure.more_is_better else target / figure.median
            bound = "≥" if figure.more_is_better else "<"
            report.judge(figure.name, f"{bound}{target} {unit}: {factor:.1f}× better", factor >= 1)


def _bridge(url: str, namespace: str) -> Bridge:
    return create_bridge(url, config=ConcurrencyConfig(), namespace=namespace)


async def _intents(bridge: Bridge, count: int) -> list[UUID]:
    made = await asyncio.gather(*(bridge.data_bridge.create_intent(IntentModel()) for _ in range(count)))
    return [intent.id for intent in made]


async def _status_updates(bridge: Bridge, count: int) -> float:
    """Status updates per second, in batches, each under its lock and with its journal entry."""
    ids = await _intents(bridge, count)
    begun = time.perf_counter()
    for start in range(0, count, BATCH):
        await asyncio.gather(
            *(
                update_intent_status(one, IntentStatusEnum.PROCESSED, bridge.data_bridge, bridge.audit_logger)
                for one in ids[start : start + BATCH]
            )
        )
    return count / (time.perf_counter() - begun)


async def _locks(bridge: Bridge) -> list[float]:
    """Milliseconds to lock an intent and release it."""
    times = []
    for one in await _intents(bridge, LOCKS):
        begun = time.perf_counter()
        async with bridge.data_bridge.lock_intent_for_update(one):
            pass
        times.append((time.perf_counter() - begun) * 1000)
    return times


async def _corrections(bridge: Bridge) -> list[float]:
    """Milliseconds of each of many corrections of one intent at the same time. All of them must be applied."""
    (intent_id,) = await _intents(bridge, 1)

    async def correct(number: int) -> float:
        request = ReEvaluationRequest(
            intent_id=intent_id,
            diff={"payload": {f"field_{number}": number}},
            source=PhilosophicalActor.YUNO,
            reason="contention",
        )
        begun = time.perf_counter()
        answer = await bridge.reeval_client.reeval(request)
        assert not answer.already_applied
        return (time.perf_counter() - begun) * 1000

    times = await asyncio.gather(*map(correct, range(CONTENDERS)))
    found = await bridge.data_bridge.get_intent(intent_id)
    assert found is not None
    assert len(found.correction_history) == CONTENDERS
    return list(times)


async def _deadlock(one: Bridge, two: Bridge) -> float:
    """Milliseconds from the moment at which two programs deadlock until both are done, with the default delays."""
    first, second = await _intents(one, 2)
    met = asyncio.Barrier(2)
    begun = 0.0
    attempts = 0

    @retry_on_deadlock()
    async def cross(bridge: Bridge, outer: UUID, inner: UUID) -> None:
        nonlocal attempts, begun
        attempts += 1
        async with bridge.data_bridge.lock_intent_for_update(outer) as intent:
            if attempts <= 2:
                await met.wait()
                begun = time.perf_counter()
            async with bridge.data_bridge.lock_intent_for_update(inner) as other:
                intent.payload["crossed"] = other.payload["crossed"] = True

    await asyncio.gather(cross(one, first, second), cross(two, second, first))
    assert attempts == 3
    return (time.perf_counter() - begun) * 1000
