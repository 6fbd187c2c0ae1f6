"""Puts the parts together: ``async with create_console("sqlite:///sentinel.db") as console: …``."""

# The handler keeps its documented name, with its underscore.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from interlock import App, Retry
from sentinel import report_service, scheduler
from sentinel.config import COOLDOWN
from sentinel.console import Console
from sentinel.cooldowns import account_cooldown
from sentinel.current import working_on
from sentinel.database import open_database
from sentinel.moderation import ModerationClient
from sentinel.report_service import _run_report_in_background

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.jobs import CurrentJob
    from interlock.schedules import Schedule

__all__ = ["DEFAULT_MODERATION_URL", "DEFAULT_URL", "create_console"]

DEFAULT_URL = "sqlite:///sentinel.db"
DEFAULT_MODERATION_URL = "http://127.0.0.1:8090"


def create_console(url: str | None = None, *, moderation_url: str | None = None, **settings: Any) -> Console:
    """Build the parts; nothing is opened yet.

    ``url`` names the store and the database of the console's own tables: the default is ``SENTINEL_URL`` of the
    environment, or SQLite in the current directory. ``moderation_url`` is where reports go, by default
    ``SENTINEL_MODERATION_URL``. ``settings`` are Interlock's.
    """
    url = url or os.environ.get("SENTINEL_URL") or DEFAULT_URL
    moderation_url = moderation_url or os.environ.get("SENTINEL_MODERATION_URL") or DEFAULT_MODERATION_URL
    app = App(url, lifespan=lambda _: console.lifespan(), **settings)

    @app.middleware
    async def choose_console(  # pyright: ignore[reportUnusedFunction]
        job: CurrentJob, call_next: Callable[[], Awaitable[Any]]
    ) -> Any:
        with working_on(console):
            return await call_next()

    @app.schedules.on_switched_off
    async def switched_off(schedule: Schedule) -> None:  # pyright: ignore[reportUnusedFunction]
        with working_on(console):
            await scheduler.switched_off(schedule)

    report = app.job(
        name=report_service.ACTION,
        lane="target:{target_id}",
        on_failure="skip",
        limits=[account_cooldown(COOLDOWN)],
        retry=report_service.RETRY,
    )(_run_report_in_background)
    report.on_end("failed", "cancelled", "quarantined", "discarded", name="report_ended")(report_service.report_ended)
    task = app.job(name="run_task", retry=Retry.NEVER)(scheduler.run_task)
    console = Console(url, app, open_database(url), ModerationClient(moderation_url), report, task)
    return console
