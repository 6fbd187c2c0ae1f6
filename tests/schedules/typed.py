# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What a type checker sees of schedules. Checked by `make lint`: each comment that ignores an error is needed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, assert_type

from interlock import App, Handle
from interlock.schedules import Preview, Schedule

app = App("memory://")


@app.cron("*/5 * * * *", timezone="Europe/Berlin", misfire="skip", queue="checks")
async def health(limit: int = 5) -> str:
    return str(limit)


@app.every(30, overlap="queue")
def tidy_up() -> list[int]:
    return []


@app.every(30, overlap="both")  # type: ignore[arg-type]
async def wrong() -> None: ...


@app.schedules.on_switched_off
async def report(schedule: Schedule) -> None:
    assert_type(schedule.state_reason, str)


async def edited() -> None:
    assert_type(await health.enqueue(limit=3), Handle[str])
    assert_type(tidy_up(), list[int])
    assert_type(await app.schedules.save("s", job=health, every=60, by="ann"), Schedule)
    assert_type(await app.schedules.trigger("s", by="ann"), Handle[Any])
    assert_type(await app.schedules.preview("s"), Preview)
    now = datetime.now(UTC)
    assert_type(await app.schedules.backfill("s", now, now, by="ann", reason="lost"), list[Handle[Any]])
    await app.schedules.pause("s", by="ann")  # type: ignore[call-arg]
