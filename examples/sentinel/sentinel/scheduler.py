"""Scheduled tasks: rows that operators edit while the program runs, each with a schedule of Interlock's.

A row is validated before it is written, and registered afterwards. Edits of one row take turns, in all processes, and
none is lost: each one changes the row that the one before it left.
"""

# The cleanup keeps its documented name, with its underscore.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.errors import ConcurrencyConflictError, NotFoundError
from sentinel.cooldowns import _cleanup_stale_cooldowns
from sentinel.current import current_console
from sentinel.database import Row, Transaction, execute_in_transaction, execute_insert, execute_query, timestamp
from sentinel.target_service import list_targets, process_target

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from interlock.schedules import Schedule


__all__ = [
    "TASK_TYPES",
    "TaskConflictError",
    "create_task",
    "delete_task",
    "get_task",
    "list_tasks",
    "run_task",
    "schedule_name",
    "start_scheduler",
    "switched_off",
    "update_task",
]

logger = logging.getLogger("sentinel")

TASK_TYPES = ("process_pending", "retry_failed", "cleanup_cooldowns")
_FIELDS = ("task_type", "cron_expression", "interval_seconds", "is_active")
_ACTOR = "sentinel"
_EDIT_WAIT = 30
_ATTEMPTS = 3
_GRACE = 60
"""Seconds that a firing may be late, after a standstill, and still count."""


class TaskConflictError(ValueError):
    """The task was changed since it was read."""


async def get_task(task_id: int) -> Row | None:
    """Return a task, or None if there is none."""
    rows = await execute_query("select * from scheduled_tasks where id = ?", (task_id,))
    return rows[0] if rows else None


async def list_tasks() -> list[Row]:
    """List all tasks."""
    return await execute_query("select * from scheduled_tasks order by id")


async def create_task(data: Mapping[str, Any]) -> Row:
    """Add a task and return its row. An invalid one is refused and not stored."""
    row = {"cron_expression": None, "interval_seconds": None, "is_active": True} | dict(data)
    await _validate(row)
    now = timestamp()
    task_id = await execute_insert(
        "insert into scheduled_tasks (task_type, cron_expression, interval_seconds, is_active, created_at, updated_at)"
        " values (?, ?, ?, ?, ?, ?)",
        (*_values(row), now, now),
    )
    async with _editing(task_id):
        stored = await get_task(task_id)
        if stored is None:
            raise ValueError("Task not found")
        try:
            await _register_job(stored)
        except BaseException:
            await execute_query("delete from scheduled_tasks where id = ?", (task_id,))
            raise
    return stored


async def update_task(task_id: int, data: Mapping[str, Any]) -> Row:
    """Change some fields of a task and return its row.

    ``data`` may have the ``version`` that the operator saw: if the task was changed since, this raises
    :class:`TaskConflictError`. Without it the change applies to the newest row.
    """
    async with _editing(task_id):
        current_row = await get_task(task_id)
        if current_row is None:
            raise ValueError("Task not found")
        if data.get("version", current_row["version"]) != current_row["version"]:
            raise TaskConflictError(f"Task #{task_id} was changed meanwhile: it has version {current_row['version']}.")
        validation_row = current_row | {name: data[name] for name in _FIELDS if name in data}
        await _validate(validation_row)
        updated = await _write(task_id, validation_row, current_row["version"])
        try:
            await _register_job(updated)
        except BaseException:
            await _write(task_id, current_row, updated["version"])
            raise
    return updated


async def delete_task(task_id: int) -> None:
    """Remove a task and its schedule."""
    async with _editing(task_id):
        with contextlib.suppress(NotFoundError):
            await current_console().app.schedules.delete(
                schedule_name(task_id), by=_ACTOR, reason="the task was deleted"
            )
        if not await execute_query("delete from scheduled_tasks where id = ? returning id", (task_id,)):
            raise ValueError("Task not found")


async def start_scheduler() -> int:
    """Register every active task and return how many. A bad row is switched off and recorded; the others run."""
    registered = 0
    for listed in await execute_query("select id from scheduled_tasks where is_active = 1 order by id"):
        async with _editing(listed["id"]):
            row = await get_task(listed["id"])
            if row is None or not row["is_active"]:
                continue  # it was edited meanwhile
            try:
                await _register_job(row)
            except ValueError as error:
                logger.error("Failed to register task #%d (%s): %s", row["id"], row["task_type"], error)  # noqa: TRY400
                await _deactivate_task_after_job_failure(row["id"], error)
            else:
                registered += 1
    return registered


async def run_task(task_id: int) -> int:
    """The handler of the job that a schedule enqueues: do the task's work and return how much there was."""
    row = await get_task(task_id)
    if row is None or not row["is_active"]:
        return 0
    if row["task_type"] == "cleanup_cooldowns":
        return await _cleanup_stale_cooldowns()
    status = "pending" if row["task_type"] == "process_pending" else "failed"
    claimed = [await process_target(target) for target in await list_targets(status)]
    return sum(claimed)


async def _register_job(row: Row) -> None:
    """Give a task the schedule that its row describes. Raises ``ValueError`` if the row is invalid."""
    await _validate(row)
    console = current_console()
    for _ in range(_ATTEMPTS):
        try:
            version = (await console.app.schedules.get(schedule_name(row["id"]))).version
        except NotFoundError:
            version = None
        with contextlib.suppress(ConcurrencyConflictError):  # a person was faster, on the dashboard: the row decides
            await console.app.schedules.save(
                schedule_name(row["id"]),
                job=console.task,
                cron=row["cron_expression"] or None,
                every=row["interval_seconds"] or None,
                arguments={"task_id": row["id"]},
                misfire="once",
                grace=_GRACE,
                overlap="skip",
                active=bool(row["is_active"]),
                version=version,
                by=_ACTOR,
                reason=f"task #{row['id']}",
            )
            return
    raise TaskConflictError(f"The schedule of task #{row['id']} is being changed by others.")


async def _deactivate_task_after_job_failure(task_id: int, error: Exception) -> None:
    """Switch a task off whose schedule cannot work, and record why."""

    async def _operation(transaction: Transaction) -> None:
        await transaction.fetch(
            "update scheduled_tasks set is_active = 0, version = version + 1, updated_at = ? where id = ?",
            (timestamp(), task_id),
        )
        await transaction.fetch(
            "insert into report_logs (action, success, error_message, created_at) values (?, 0, ?, ?)",
            (f"task_{task_id}_registration_failed", str(error), timestamp()),
        )

    await execute_in_transaction(_operation)


async def switched_off(schedule: Schedule) -> None:
    """Record that Interlock found a task's schedule unusable and switched it off."""
    task_id = schedule.arguments.get("task_id")
    if isinstance(task_id, int):
        await _deactivate_task_after_job_failure(task_id, ValueError(schedule.state_reason))


def schedule_name(task_id: int) -> str:
    """Return the name of a task's schedule."""
    return f"task-{task_id}"


async def _validate(row: Mapping[str, Any]) -> None:
    """Refuse a row that could not be registered, whether it is active or not."""
    if row["task_type"] not in TASK_TYPES:
        raise ValueError(f"Unknown task type {row['task_type']!r}: use {', '.join(TASK_TYPES)}.")
    cron, interval = row["cron_expression"], row["interval_seconds"]
    try:
        if bool(cron) == bool(interval):
            raise ValueError("Either cron_expression or interval_seconds required")
        await current_console().app.schedules.preview(cron=cron or None, every=interval or None, count=1)
    except ValueError as error:
        raise ValueError(f"Invalid trigger configuration: {error}") from error


async def _write(task_id: int, row: Row, version: int) -> Row:
    """Replace a version of a row with the next one."""
    rows = await execute_query(
        "update scheduled_tasks set task_type = ?, cron_expression = ?, interval_seconds = ?, is_active = ?,"
        " version = version + 1, updated_at = ? where id = ? and version = ? returning *",
        (*_values(row), timestamp(), task_id, version),
    )
    if not rows:
        raise TaskConflictError(f"Task #{task_id} was changed meanwhile.")
    return rows[0]


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["task_type"], row["cron_expression"] or None, row["interval_seconds"] or None, int(row["is_active"])


@asynccontextmanager
async def _editing(task_id: int) -> AsyncGenerator[None]:
    """The turn to edit a task, in all processes: a row and its schedule are written in one order."""
    async with current_console().app.locks.acquire(f"sentinel:task:{task_id}", wait=_EDIT_WAIT):
        yield
