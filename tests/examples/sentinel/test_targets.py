"""D2: of many that claim a target exactly one wins, and the claim, the status and the job are one step."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from interlock import JobState
from sentinel.current import working_on
from sentinel.database import execute_query
from sentinel.target_service import (
    _claim_target_for_processing,
    list_targets,
    process_target,
    reset_target,
    update_target_status,
)
from tests.examples.sentinel.checks import check_one_of_many_claims
from tests.examples.sentinel.flawed import ClaimInTwoSteps
from tests.examples.sentinel.targets import create_test_target, refuse_jobs, stored

if TYPE_CHECKING:
    from sentinel.console import Console


async def test_claim_target_only_once(console: Console) -> None:
    await check_one_of_many_claims(_claim_target_for_processing)


async def test_a_check_before_the_claim_is_caught(console: Console) -> None:
    """Checking first and claiming then is a race: time of check, time of use."""
    with pytest.raises(AssertionError, match="5 of 5 claims won"):
        await check_one_of_many_claims(ClaimInTwoSteps().claim)


async def test_two_programs_claim_each_target_once(console: Console, other: Console) -> None:
    targets = [await create_test_target() for _ in range(10)]

    async def claim(program: Console) -> list[bool]:
        with working_on(program):
            return [await _claim_target_for_processing(target["id"]) for target in targets]

    mine, theirs = await asyncio.gather(claim(console), claim(other))

    assert [ours + others for ours, others in zip(mine, theirs, strict=True)] == [1] * 10
    assert len(await console.app.jobs.matching(*JobState, name="execute_report")) == 10


@pytest.mark.parametrize(("status", "claimed"), [("pending", True), ("failed", True), ("completed", False)])
async def test_pending_and_failed_targets_can_be_claimed(console: Console, status: str, claimed: bool) -> None:
    target = await create_test_target(status)

    assert await _claim_target_for_processing(target["id"]) is claimed
    assert (await stored(target["id"]))["status"] == ("processing" if claimed else status)


async def test_the_loser_says_that_it_skips(console: Console, caplog: pytest.LogCaptureFixture) -> None:
    target = await create_test_target()
    with caplog.at_level(logging.INFO, "sentinel"):
        assert await process_target(target)
        assert not await process_target(target)

    assert f"Skipping target #{target['id']} (already processing)" in caplog.messages


async def test_a_claim_that_is_rolled_back_leaves_no_job(console: Console) -> None:
    target = await create_test_target()
    await refuse_jobs(console)
    with pytest.raises(Exception, match="no_jobs"):
        await _claim_target_for_processing(target["id"])

    assert await stored(target["id"]) == target
    assert await console.app.jobs.matching(*JobState) == []


async def test_a_job_that_lost_its_target_changes_nothing(console: Console) -> None:
    target = await create_test_target()
    await process_target(target)
    assert await update_target_status(target["id"], "failed")  # a person took it away
    await console.app.drain()

    assert (await stored(target["id"]))["status"] == "failed"


async def test_only_a_claim_makes_a_target_processing(console: Console) -> None:
    target = await create_test_target()

    with pytest.raises(ValueError, match="only a claim gives it a job"):
        await update_target_status(target["id"], "processing")
    with pytest.raises(Exception, match=r"(?i)check"):  # the table refuses it too
        await execute_query("update targets set status = 'processing' where id = ?", (target["id"],))
    assert not await update_target_status(12345, "failed")
    assert not await reset_target(target["id"])
    assert [one["id"] for one in await list_targets("pending")] == [target["id"]]
