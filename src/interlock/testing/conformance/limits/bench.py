"""A store on a virtual clock, with reserving made short: what the suites for the limits port work at."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.ports.limits import Finished, LimitView, Plan, Turn, Use
from interlock.testing.conformance.bench import SESSION, Bench, BenchSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store
    from interlock.testing.clock import VirtualClock

__all__ = ["SESSION", "LimitBench", "LimitSuite", "pace", "slots"]


def slots(most: int, key: str = "k") -> Use:
    """At most so many at once."""
    return Use(key, most, 0.0)


def pace(most: int, per: float, key: str = "k") -> Use:
    """At most so many starts in any so many seconds."""
    return Use(key, most, per)


class LimitBench(Bench):
    """Owner ``a1`` belongs to session ``a`` and is a caller of its own."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.limits = store.limits

    @property
    def now(self) -> float:
        """The clock's time."""
        return self.clock.now()

    async def reserve(self, owner: str, *uses: Use, start: bool = True) -> Any:
        """Whatever the store answers."""
        ordered = tuple(sorted(uses))
        return await self.limits.ask(Plan(owner, f"caller-{owner}", owner[0], ordered, start))

    async def started(self, owner: str, *uses: Use) -> Turn:
        """Ask, and be started."""
        turn = await self.turn(owner, *uses)
        assert turn.started, turn
        return turn

    async def waits(self, owner: str, *uses: Use, start: bool = True) -> Turn:
        """Ask, and not be started."""
        turn = await self.turn(owner, *uses, start=start)
        assert not turn.started, turn
        return turn

    async def turn(self, owner: str, *uses: Use, start: bool = True) -> Turn:
        """Ask, and have a reservation."""
        answer = await self.reserve(owner, *uses, start=start)
        assert isinstance(answer, Turn), answer
        return answer

    async def finish(self, owner: str) -> Finished:
        """The work is over."""
        return await self.limits.finish(owner[0], owner)

    async def view(self, key: str = "k") -> LimitView:
        """The key, which is in use."""
        (view,) = await self.limits.look(key)
        return view

    async def at_work(self, key: str = "k") -> list[str]:
        """Those who have started, as a look shows them."""
        return [user.owner for view in await self.limits.look(key) for user in view.started]

    async def in_line(self, key: str = "k") -> list[str]:
        """Those who stand in the key's line, as a look shows them."""
        views = await self.limits.look(key)
        return [user.owner for view in views for user in view.waiting if user.waits_for == key]

    async def let_pass(self, seconds: float, *alive: str) -> None:
        """Let time pass, with these sessions alive to the end; all three unless told otherwise."""
        while seconds > 0:
            step = min(seconds, SESSION / 2)
            self.clock.advance(step)
            await self.keep(*(alive or "abc"))
            seconds -= step


class LimitSuite(BenchSuite):
    """Tests that work at such a bench."""

    @asynccontextmanager
    async def limit_bench(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[LimitBench]:
        """A fresh bench on the store."""
        async with self.bench(url, clock, **settings) as bench:
            yield LimitBench(bench.store, bench.clock)
