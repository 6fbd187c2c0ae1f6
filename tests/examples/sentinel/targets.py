"""Targets for the tests."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from sentinel.database import execute_query
from sentinel.target_service import create_account, create_target, get_target

if TYPE_CHECKING:
    from sentinel.console import Console
    from sentinel.database import Row

_numbers = itertools.count(1)


async def create_test_target(status: str = "pending", item: str = "item") -> Row:
    """A target with an account of its own."""
    account_id = await create_account(f"account {next(_numbers)}")
    target_id = await create_target(item, account_id)
    if status != "pending":
        await execute_query("update targets set status = ? where id = ?", (status, target_id))
    return await stored(target_id)


async def stored(target_id: int) -> Row:
    target = await get_target(target_id)
    assert target is not None
    return target


async def logs_of(target_id: int) -> list[Row]:
    """The rows of a target in report_logs, the oldest first."""
    return await execute_query("select * from report_logs where target_id = ? order by id", (target_id,))


async def until_status(target_id: int, *statuses: str, seconds: float = 20) -> Row:
    """Wait for a target to have one of these statuses."""
    async with asyncio.timeout(seconds):
        while (target := await stored(target_id))["status"] not in statuses:
            await asyncio.sleep(0.02)
    return target


async def refuse_jobs(console: Console) -> None:
    """Let the database refuse every new job, as a full disk would."""
    await console.database.fetch(_REFUSALS[console.app.store_name])


_REFUSALS = {
    "sqlite": "create trigger no_jobs before insert on interlock_job begin select raise(abort, 'no_jobs'); end",
    "postgres": "alter table interlock.job add constraint no_jobs check (false) not valid",
}
