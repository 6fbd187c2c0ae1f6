"""The composition root: one object that knows the stores, the settings, and everything built on them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from interlock.backends import from_url
from interlock.claims import Claims
from interlock.cursors import Cursors
from interlock.limits import Limits
from interlock.locks import Locks
from interlock.presence import Presence
from interlock.settings import Settings
from interlock.telemetry.metrics import Together

if TYPE_CHECKING:
    from types import TracebackType

    from interlock.face import Face
    from interlock.ports.store import Capability

__all__ = ["App"]


class App:
    """An application on Interlock.

    ``url`` names the durable store: ``memory://``, ``sqlite:///bot.db`` or ``postgresql://…``. ``locks`` moves only
    :attr:`locks` to another store, ``claims`` only :attr:`once`. Everything opens with ``async with app:``.
    """

    def __init__(
        self,
        url: str,
        *,
        locks: str | None = None,
        claims: str | None = None,
        settings: Settings | None = None,
        **changes: Any,
    ) -> None:
        self.settings = Settings.of(settings, changes)
        needs: dict[str, list[Capability]] = {}
        places: dict[type[Face[Any]], str] = {
            Locks: locks or url,
            Claims: claims or url,
            Cursors: url,
            Limits: url,
        }
        for part, place in places.items():
            needs.setdefault(place, []).append(part.needs)
        presences = {
            place: Presence(from_url(place, settings=self.settings, needs=needed), self.settings)
            for place, needed in needs.items()
        }
        self.locks = Locks(presences[places[Locks]])
        """One holder per key at a time."""
        self.once = Claims(presences[places[Claims]])
        """Each thing once."""
        self.cursors = Cursors(presences[url])
        """Where pollers stand."""
        self.limits = Limits(presences[url])
        """How much at once, and how often."""
        self._opened: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for part in (self.locks, self.once, self.cursors, self.limits):
                await stack.enter_async_context(part)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    @property
    def metrics(self) -> Together:
        """A Prometheus collector for all that this app counts and times."""
        return Together(self.locks.metrics, self.once.metrics, self.limits.metrics)
