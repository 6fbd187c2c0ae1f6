"""D3: schedules are validated before they are written; a bad row is switched off, and the others run."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from sentinel.api import create_api
from sentinel.database import execute_query
from sentinel.scheduler import (
    TaskConflictError,
    create_task,
    delete_task,
    get_task,
    list_tasks,
    start_scheduler,
    update_task,
)
from tests.examples.sentinel.conftest import served
from tests.examples.sentinel.flawed import write_task_before_validating
from tests.examples.sentinel.targets import create_test_target, stored
from tests.examples.sentinel.test_reports import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sentinel.console import Console

NEITHER = "Invalid trigger configuration: Either cron_expression or interval_seconds required"
INVALID = [
    ({"cron_expression": None, "interval_seconds": None}, NEITHER),
    ({"cron_expression": "* * * * *", "interval_seconds": 60}, NEITHER),
    ({"interval_seconds": 9}, "Invalid trigger configuration: "),
    ({"interval_seconds": 30 * 86400 + 1}, "Invalid trigger configuration: "),
    ({"cron_expression": "61 * * * *", "interval_seconds": None}, "Invalid trigger configuration: "),
    ({"cron_expression": "* * * *", "interval_seconds": None}, "Invalid trigger configuration: "),
    ({"task_type": "launch"}, "Unknown task type 'launch'"),
]


async def task(**fields: Any) -> dict[str, Any]:
    return await create_task({"task_type": "process_pending", "interval_seconds": 60} | fields)


async def check_an_invalid_edit_stores_nothing(update: Callable[[int, dict[str, Any]], Awaitable[Any]]) -> None:
    row = await task()
    with pytest.raises(ValueError, match="Invalid trigger configuration: "):
        await update(row["id"], {"interval_seconds": 3})

    assert await get_task(row["id"]) == row, "an invalid edit was stored"


async def test_an_invalid_edit_is_refused_before_it_is_written(console: Console) -> None:
    await check_an_invalid_edit_stores_nothing(update_task)


async def test_a_write_before_the_validation_is_caught(console: Console) -> None:
    with pytest.raises(AssertionError, match="an invalid edit was stored"):
        await check_an_invalid_edit_stores_nothing(write_task_before_validating)


@pytest.mark.parametrize("active", [True, False])
async def test_every_invalid_task_is_refused_and_leaves_nothing(console: Console, active: bool) -> None:
    row = await task(is_active=active)
    for change, message in INVALID:
        with pytest.raises(ValueError, match=message):
            await update_task(row["id"], change)
        with pytest.raises(ValueError, match=message):
            await task(**change, is_active=active)
    with pytest.raises(ValueError, match="Task not found"):
        await update_task(12345, {"is_active": False})
    with pytest.raises(ValueError, match="Task not found"):
        await delete_task(12345)

    assert await list_tasks() == [row]


async def test_weekday_0_is_sunday(console: Console) -> None:
    row = await task(cron_expression="0 12 * * 0", interval_seconds=None)

    schedule = await console.app.schedules.get(f"task-{row['id']}")
    assert schedule.next_at.isoweekday() == 7


async def test_a_bad_row_is_switched_off_and_the_others_run(console: Console, caplog: pytest.LogCaptureFixture) -> None:
    first, bad, last = await task(), await task(), await task(cron_expression="*/5 * * * *", interval_seconds=None)
    await execute_query("update scheduled_tasks set interval_seconds = 1 where id = ?", (bad["id"],))
    with caplog.at_level(logging.ERROR, "sentinel"):
        assert await start_scheduler() == 2

    assert any(
        message.startswith(f"Failed to register task #{bad['id']} (process_pending): ") for message in caplog.messages
    )
    assert [row["is_active"] for row in await list_tasks()] == [1, 0, 1]
    (log,) = await execute_query("select * from report_logs")
    assert (log["action"], log["success"], log["target_id"]) == (f"task_{bad['id']}_registration_failed", 0, None)
    assert "Invalid trigger configuration: " in log["error_message"]
    for row in (first, last):
        assert (await console.app.schedules.get(f"task-{row['id']}")).active


async def test_a_schedule_fires_and_its_task_processes_the_targets(console: Console) -> None:
    row, idle = await task(), await task(is_active=False)
    target = await create_test_target()
    await console.app.schedules.trigger(f"task-{row['id']}", by="ann")
    await console.app.drain()

    assert (await stored(target["id"]))["status"] == "completed"
    schedule = await console.app.schedules.get(f"task-{row['id']}")
    assert (schedule.misfire, schedule.grace, schedule.overlap) == ("once", 60, "skip")
    assert not (await console.app.schedules.get(f"task-{idle['id']}")).active


async def test_tasks_are_edited_over_http(console: Console) -> None:
    async with served(create_api(console)) as url:
        status, row = await ask(f"{url}/tasks", body={"task_type": "cleanup_cooldowns", "interval_seconds": 3600})
        assert (status, row["version"]) == (201, 1)
        path = f"{url}/tasks/{row['id']}"
        assert (await ask(path, "PATCH", {"is_active": False, "version": 1}))[1]["version"] == 2
        assert (await ask(path, "PATCH", {"is_active": True, "version": 1}))[0] == 409
        status, answer = await ask(path, "PATCH", {"interval_seconds": None})
        assert (status, answer) == (400, {"detail": NEITHER})
        assert await ask(f"{url}/tasks/999", "PATCH", {}) == (404, {"detail": "Task not found"})
        assert (await ask(path, "DELETE"))[0] == 204
        assert await ask(f"{url}/tasks", "GET") == (200, [])
        assert (await ask(path, "DELETE"))[0] == 404


async def test_an_edit_of_an_old_version_conflicts(console: Console) -> None:
    row = await task()
    assert (await update_task(row["id"], {"interval_seconds": 120, "version": 1}))["version"] == 2
    with pytest.raises(TaskConflictError, match="has version 2"):
        await update_task(row["id"], {"interval_seconds": 240, "version": 1})

    assert (await console.app.schedules.get(f"task-{row['id']}")).every == 120


async def test_what_fires_is_what_the_table_says_after_many_edits(console: Console, other: Console) -> None:
    row = await task()
    await asyncio.gather(*(update_task(row["id"], {"interval_seconds": 60 + number}) for number in range(10)))

    stored_row = await get_task(row["id"])
    assert stored_row is not None
    assert stored_row["version"] == 11
    assert (await console.app.schedules.get(f"task-{row['id']}")).every == stored_row["interval_seconds"]
