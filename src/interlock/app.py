"""The composition root: one object that knows the store, the settings, and everything built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from interlock.locks import Locks
from interlock.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from interlock.telemetry.metrics import LockMetrics

__all__ = ["App"]


class App:
    """An application on Interlock.

    ``url`` names the durable store: ``memory://``, ``sqlite:///bot.db`` or ``postgresql://…``. ``locks`` moves only
    the locks to another store. Everything opens with ``async with app:``.
    """

    def __init__(self, url: str, *, locks: str | None = None, settings: Settings | None = None, **changes: Any) -> None:
        self.settings = settings = Settings.of(settings, changes)
        self.locks = Locks.from_url(locks or url, settings=settings)

    async def __aenter__(self) -> Self:
        await self.locks.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.locks.close()

    @property
    def metrics(self) -> LockMetrics:
        """A Prometheus collector for all that this app counts and times."""
        return self.locks.metrics
