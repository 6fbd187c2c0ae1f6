"""A test driver for the limits port: a store on a virtual clock, with short helpers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.ports.limits import Finished, LimitView, Plan, Turn, Use
from interlock.testing.conformance.driver import SESSION, Driver, DriverSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store
    from interlock.testing.clock import VirtualClock

__all__ = ["SESSION", "LimitDriver", "LimitSuite", "pace", "slots"]


def slots(max_count: int, key: str = "k") -> Use:
    """At most this many at once."""
    return Use(key, max_count, 0.0)


def pace(max_count: int, per: float, key: str = "k") -> Use:
    """At most this many starts in any span of this many seconds."""
    return Use(key, max_count, per)


class LimitDriver(Driver):
    """Owner ``a1`` belongs to session ``a`` and is a caller of its own."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.limits = store.limits

    @property
    def now(self) -> float:
        """The current time of the clock."""
        return self.clock.now()

    async def reserve(self, owner: str, *uses: Use, start: bool = True) -> Any:
        """Ask, and return the store's answer."""
        ordered = tuple(sorted(uses))
        return await self.limits.ask(Plan(owner, f"caller-{owner}", owner[0], ordered, start))

    async def started(self, owner: str, *uses: Use) -> Turn:
        """Ask, and expect a start."""
        turn = await self.turn(owner, *uses)
        assert turn.started, turn
        return turn

    async def waits(self, owner: str, *uses: Use, start: bool = True) -> Turn:
        """Ask, and expect no start."""
        turn = await self.turn(owner, *uses, start=start)
        assert not turn.started, turn
        return turn

    async def turn(self, owner: str, *uses: Use, start: bool = True) -> Turn:
        """Ask, and expect a reservation."""
        answer = await self.reserve(owner, *uses, start=start)
        assert isinstance(answer, Turn), answer
        return answer

    async def finish(self, owner: str) -> Finished:
        """Finish the work."""
        return await self.limits.finish(owner[0], owner)

    async def view(self, key: str = "k") -> LimitView:
        """The view of a key that is in use."""
        (view,) = await self.limits.list(key)
        return view

    async def at_work(self, key: str = "k") -> list[str]:
        """The owners that have started, as the view shows them."""
        return [user.owner for view in await self.limits.list(key) for user in view.started]

    async def in_line(self, key: str = "k") -> list[str]:
        """The waiters of the key, as the view shows them."""
        views = await self.limits.list(key)
        return [user.owner for view in views for user in view.waiting if user.waits_for == key]

    async def let_pass(self, seconds: float, *alive: str) -> None:
        """Advance time while renewing these sessions, all three by default."""
        while seconds > 0:
            step = min(seconds, SESSION / 2)
            self.clock.advance(step)
            await self.keep(*(alive or "abc"))
            seconds -= step


class LimitSuite(DriverSuite):
    """Tests that use such a driver."""

    @asynccontextmanager
    async def limit_driver(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[LimitDriver]:
        """A fresh driver on the store."""
        async with self.driver(url, clock, **settings) as driver:
            yield LimitDriver(driver.store, driver.clock)
