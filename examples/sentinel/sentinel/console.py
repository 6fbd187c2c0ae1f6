"""The parts of one program, and the order in which they open and close."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sentinel.cooldowns import NAME, Turns
from sentinel.current import opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from interlock import App, Job
    from sentinel.database import Database
    from sentinel.moderation import ModerationClient

__all__ = ["Console"]


@dataclass
class Console:
    """The parts of one program. It is open inside ``async with console:``, and while ``interlock run`` has its app."""

    url: str = field(repr=False)  # it may have a password
    app: App
    database: Database
    moderation: ModerationClient
    report: Job[..., None]
    """The job that reports one target."""
    task: Job[..., int]
    """The job that a schedule enqueues."""
    turns: Turns = field(default_factory=Turns, repr=False)

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.app.__aexit__(None, None, None)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Keep the database open while the app is."""
        await self.database.open()
        try:
            with opened(self):
                yield
        finally:
            await self.turns.close()
            await self.database.close()

    async def resize_cooldown(self, seconds: float, *, by: str) -> None:
        """Apply a new cooldown to every account, in every process, and to reports that wait already."""
        await self.app.limits.resize(
            f"cooldown:{NAME}", seconds, by=by, reason="changed in the console's configuration"
        )
