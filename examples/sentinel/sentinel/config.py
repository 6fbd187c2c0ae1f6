"""Configuration that operators change while the program runs, kept in the table ``config``."""

from __future__ import annotations

import math

from typing_extensions import TypedDict

from sentinel.current import current_console
from sentinel.database import execute_query

__all__ = ["COOLDOWN", "Config", "get_config", "update_config"]

COOLDOWN = 90.0
"""Seconds between two reports of one account, unless the table says otherwise."""
_LONGEST = 86_400.0


class Config(TypedDict):
    """The contents of the table, with defaults."""

    cooldown: float


async def get_config() -> Config:
    """Read the configuration."""
    rows = await execute_query("select value from config where name = 'cooldown'")
    return Config(cooldown=float(rows[0]["value"]) if rows else COOLDOWN)


async def update_config(cooldown: float, *, by: str) -> Config:
    """Change the cooldown, for every process and also for reports that are queued already."""
    if not math.isfinite(cooldown) or not 0.001 <= cooldown <= _LONGEST:
        raise ValueError(f"Invalid cooldown {cooldown!r}: use 0.001 to {_LONGEST:,.0f} seconds.")
    await execute_query(
        "insert into config (name, value) values ('cooldown', ?)"
        " on conflict (name) do update set value = excluded.value",
        (str(cooldown),),
    )
    await current_console().resize_cooldown(cooldown, by=by)
    return await get_config()
