"""Flaws of the original design, each as a test that fails on the flawed design."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import JobState
from interlock.testing.processes import Worker
from sentinel.api import execute_report
from sentinel.config import COOLDOWN, update_config
from sentinel.cooldowns import check_cooldown
from sentinel.current import working_on
from sentinel.database import execute_query
from sentinel.moderation_api import Behavior, Moderation
from sentinel.scheduler import create_task, update_task
from sentinel.target_service import _claim_target_for_processing, create_target, process_target
from tests.examples.sentinel import flawed
from tests.examples.sentinel.checks import check_completed_is_not_claimable, check_turns_are_apart
from tests.examples.sentinel.targets import create_test_target, logs_of, stored, until_status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sentinel.console import Console

    Execute = Callable[[int], Awaitable[Any]]


async def test_f_d1_a_completed_target_is_not_claimed(console: Console) -> None:
    await check_completed_is_not_claimable(_claim_target_for_processing)

    with pytest.raises(AssertionError, match="a completed target was claimed"):
        await check_completed_is_not_claimable(flawed.claim_all_but_processing)


async def check_processing_has_an_owner(claim: Execute) -> None:
    target = await create_test_target()
    await claim(target["id"])
    job = (await stored(target["id"]))["job_id"]

    assert job in await _unfinished_jobs(), "nothing will ever end the processing of this target"


async def _unfinished_jobs() -> list[int]:
    from sentinel.current import current_console

    return await current_console().app.jobs.matching(*(state for state in JobState if not state.final))


async def test_f_d2_a_target_in_processing_always_has_a_job(console: Console) -> None:
    await check_processing_has_an_owner(_claim_target_for_processing)

    with pytest.raises(AssertionError, match="nothing will ever end"):
        await check_processing_has_an_owner(flawed.claim_all_but_processing)


@pytest.mark.full
async def test_f_d2_a_worker_that_is_killed_leaves_no_target_in_processing(
    console: Console, url: str, moderation: Moderation, moderation_url: str
) -> None:
    moderation.behavior["item"] = Behavior(seconds=0.5)
    await update_config(0.001, by="test")
    target = await create_test_target()
    async with Worker.spawn("tests.examples.sentinel.workers:run_reports", [url, moderation_url]) as worker:
        await worker.wait_for("ready", 30)
        await process_target(target)
        async with asyncio.timeout(20):
            while not moderation.calls:
                await asyncio.sleep(0.02)
        worker.kill()
    assert (await stored(target["id"]))["status"] == "processing"

    async with console.app.worker():
        await until_status(target["id"], "completed", seconds=30)
    assert [row["success"] for row in await logs_of(target["id"])] == [1]
    assert len(moderation.calls) == 2
    assert len(moderation.state()["reviews"]) == 1  # the second call got the review of the first


@pytest.mark.full
async def test_f_d2_a_report_that_kills_its_workers_fails_its_target(
    console: Console, url: str, moderation: Moderation, moderation_url: str
) -> None:
    moderation.behavior["item"] = Behavior(seconds=60)
    await update_config(0.001, by="test")
    target = await create_test_target()
    await process_target(target)
    for number in range(1, 4):
        async with Worker.spawn("tests.examples.sentinel.workers:run_reports", [url, moderation_url]) as worker:
            async with asyncio.timeout(30):
                while len(moderation.calls) < number:
                    await asyncio.sleep(0.02)
            worker.kill()
    async with console.app.worker():
        await until_status(target["id"], "failed", seconds=30)

    (row,) = await logs_of(target["id"])
    assert not row["success"]
    assert (await console.app.jobs.get(row["job_id"])).state is JobState.QUARANTINED


async def test_f_d3_a_cancelled_report_is_not_forgotten(console: Console, moderation: Moderation) -> None:
    """The flawed design drops its task and handles errors only: a cancellation leaves the target in processing."""
    moderation.behavior["item"] = Behavior(seconds=0.2)
    ours, theirs = await create_test_target(), await create_test_target()
    async with console.app.worker():
        await execute_report(ours["id"])
        async with asyncio.timeout(20):
            while not moderation.calls:
                await asyncio.sleep(0.01)
        await console.app.jobs.cancel((await stored(ours["id"]))["job_id"], by="ann", reason="not needed")
        await until_status(ours["id"], "failed")
    await flawed.execute_without_claim(theirs["id"])
    await asyncio.sleep(0)
    task = flawed.background.pop()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [row["success"] for row in await logs_of(ours["id"])] == [0]
    assert (await stored(theirs["id"]))["status"] == "processing"  # forever
    assert await logs_of(theirs["id"]) == []


async def check_one_execution_is_accepted(execute: Execute) -> None:
    target = await create_test_target()
    answers = await asyncio.gather(*(execute(target["id"]) for _ in range(5)), return_exceptions=True)
    accepted = [answer for answer in answers if answer == {"status": "accepted"}]

    assert len(accepted) == 1, f"{len(accepted)} of 5 executions were accepted"


async def test_f_d4_the_endpoint_claims(console: Console) -> None:
    await check_one_execution_is_accepted(execute_report)

    with pytest.raises(AssertionError, match="5 of 5 executions were accepted"):
        await check_one_execution_is_accepted(flawed.execute_without_claim)
    while flawed.background:
        await flawed.background.pop()


async def test_f_d4_a_check_and_a_report_of_one_account_share_its_cooldown(console: Console) -> None:
    """With two limits, a check would let a report pass within the cooldown."""
    target = await create_test_target()
    assert await check_cooldown(target["account_id"]) == 0
    await process_target(target)
    await console.app.drain()

    assert (await stored(target["id"]))["status"] == "processing"
    job = (await stored(target["id"]))["job_id"]
    assert (await console.app.jobs.get(job)).state is JobState.WAITING


async def test_f_d5_reports_that_wait_for_their_account_occupy_nothing(
    console: Console, moderation: Moderation
) -> None:
    first = await create_test_target()
    targets = [first["id"], *[await create_target("item", first["account_id"]) for _ in range(9)]]
    for target_id in targets:
        await process_target(await stored(target_id))
    async with console.app.worker(concurrency=1):
        async with asyncio.timeout(20):
            while not (done := await execute_query("select id from targets where status = 'completed'")):
                await asyncio.sleep(0.02)
        tasks = len(asyncio.all_tasks())
        other = await create_test_target()
        await process_target(other)
        await until_status(other["id"], "completed")  # the only runner was free
        assert len(asyncio.all_tasks()) <= tasks + 2, "waiting reports have tasks"
        waiting = [target_id for target_id in targets if target_id != done[0]["id"]]
        states = [(await console.app.jobs.get((await stored(one))["job_id"])).state for one in waiting]

    assert states == [JobState.WAITING] * 9
    assert len(moderation.calls) == 2


async def test_f_d6_the_test_of_concurrent_checks_fails_for_broken_code(console: Console) -> None:
    """The flawed test only asks that no wait is negative, which is true of code without any lock too."""
    unlocked = flawed.UnlockedCooldowns()
    assert all(wait >= 0 for wait in await asyncio.gather(*(unlocked.check_cooldown(1) for _ in range(10))))

    unlocked = flawed.UnlockedCooldowns()
    with pytest.raises(AssertionError, match="the same turn"):
        await check_turns_are_apart(lambda account_id, _: unlocked.check_cooldown(account_id), COOLDOWN)
    await check_turns_are_apart(lambda account_id, _: check_cooldown(account_id), COOLDOWN)


async def check_both_edits_survive(update: Callable[[int, dict[str, Any]], Awaitable[Any]], other: Console) -> None:
    row = await create_task({"task_type": "process_pending", "interval_seconds": 60})

    async def elsewhere() -> None:
        with working_on(other):
            await update(row["id"], {"task_type": "retry_failed"})

    await asyncio.gather(update(row["id"], {"interval_seconds": 120}), elsewhere())
    (stored_row,) = await execute_query("select * from scheduled_tasks where id = ?", (row["id"],))
    found = stored_row["task_type"], stored_row["interval_seconds"]
    assert found == ("retry_failed", 120), f"an edit was lost: {found}"


async def test_f_d7_two_concurrent_edits_of_a_schedule_both_count(console: Console, other: Console) -> None:
    for _ in range(5):
        await check_both_edits_survive(update_task, other)

    with pytest.raises(AssertionError, match="an edit was lost"):
        await check_both_edits_survive(flawed.StaleEdits().update_task, other)
