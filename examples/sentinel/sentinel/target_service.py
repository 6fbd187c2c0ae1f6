"""Targets and their status: pending, processing, completed, failed.

A target that is processing belongs to the job in its column ``job_id``. The claim, the status and the job commit
together, and only that job, or the hook at its end, moves the target on. So a crash leaves no target behind: the job is
rescued, or it ends and its hook runs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sentinel.config import get_config
from sentinel.cooldowns import account_cooldown
from sentinel.current import current_console
from sentinel.database import Row, Transaction, execute_in_transaction, execute_insert, execute_query, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CLAIMABLE",
    "create_account",
    "create_target",
    "get_target",
    "list_targets",
    "process_target",
    "reset_target",
    "update_target_status",
]

logger = logging.getLogger("sentinel")

CLAIMABLE = ("pending", "failed")
"""The statuses that a claim takes. A completed target has to be reset first."""


async def create_account(name: str) -> int:
    """Add an account and return its ID."""
    return await execute_insert("insert into accounts (name, created_at) values (?, ?)", (name, timestamp()))


async def create_target(item: str, account_id: int) -> int:
    """Add a target, to be reported from an account, and return its ID."""
    now = timestamp()
    return await execute_insert(
        "insert into targets (item, account_id, created_at, updated_at) values (?, ?, ?, ?)",
        (item, account_id, now, now),
    )


async def get_target(target_id: int) -> Row | None:
    """Return a target, or None if there is none."""
    rows = await execute_query("select * from targets where id = ?", (target_id,))
    return rows[0] if rows else None


async def list_targets(status: str | None = None, limit: int = 200) -> list[Row]:
    """List targets, the oldest first."""
    if status is None:
        return await execute_query("select * from targets order by id limit ?", (limit,))
    return await execute_query("select * from targets where status = ? order by id limit ?", (status, limit))


async def _claim_target_for_processing(target_id: int) -> bool:
    """Claim a target and enqueue its report, in one transaction. Of many callers exactly one gets True."""
    config = await get_config()  # outside the transaction
    report = current_console().report.options(limits=[account_cooldown(config["cooldown"])])

    async def _operation(transaction: Transaction) -> bool:
        rows = await transaction.fetch(
            "update targets set updated_at = ? where id = ? and status in ('pending', 'failed') returning account_id",
            (timestamp(), target_id),
        )
        if not rows:
            return False
        account_id = int(rows[0]["account_id"])
        handle = await report.enqueue(target_id=target_id, account_id=account_id, connection=transaction.connection)
        await transaction.fetch(
            "update targets set status = 'processing', job_id = ?, fence = 0 where id = ?", (handle.id, target_id)
        )
        return True

    return await execute_in_transaction(_operation)


async def process_target(target: Mapping[str, object]) -> bool:
    """Have a target processed, unless that happens already. Schedules call it for every pending target."""
    target_id = int(str(target["id"]))
    claimed = await _claim_target_for_processing(target_id)
    if not claimed:
        logger.info("Skipping target #%d (already processing)", target_id)
    return claimed


async def update_target_status(target_id: int, status: str) -> bool:
    """Set the status of a target by hand; False if there is none.

    If a job was processing the target, it can no longer write to it. Only a claim makes a target processing, because
    a target without a job would stay so forever.
    """
    if status == "processing":
        raise ValueError("Claim the target instead: only a claim gives it a job.")
    rows = await execute_query(
        "update targets set status = ?, job_id = null, updated_at = ? where id = ? returning id",
        (status, timestamp(), target_id),
    )
    return bool(rows)


async def reset_target(target_id: int) -> bool:
    """Make a completed or failed target pending again; False if it is not one of these."""
    rows = await execute_query(
        "update targets set status = 'pending', job_id = null, updated_at = ?"
        " where id = ? and status in ('completed', 'failed') returning id",
        (timestamp(), target_id),
    )
    return bool(rows)
