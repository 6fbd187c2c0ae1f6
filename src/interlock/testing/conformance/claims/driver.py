"""A test driver for the claims port: a store on a virtual clock, with short helpers."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.ports.claims import Claimed, ClaimFinished, ClaimOutcome, ClaimRequest, ClaimState, ClaimView, Known
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.driver import SESSION, Driver, DriverSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

__all__ = ["KEEP", "LEASE", "SESSION", "ClaimDriver", "ClaimSuite"]

LEASE = 60.0
KEEP = 3600.0


class ClaimDriver(Driver):
    """Owner ``a1`` belongs to session ``a``, which lasts ``SESSION`` seconds unless it is renewed."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.claims = store.claims

    async def claim(self, owner: str, key: str = "k", *, lease: float = LEASE, keep: float = KEEP) -> Any:
        return await self.claims.claim(ClaimRequest(key, owner, owner[0], lease, keep))

    async def claimed(self, owner: str, key: str = "k", **changes: Any) -> Claimed:
        answer = await self.claim(owner, key, **changes)
        assert isinstance(answer, Claimed), answer
        return answer

    async def known(self, owner: str, key: str = "k", **changes: Any) -> ClaimView:
        answer = await self.claim(owner, key, **changes)
        assert isinstance(answer, Known), answer
        return answer.view

    async def done(self, owner: str, key: str = "k", *, result: str | None = None, keep: float = KEEP) -> ClaimFinished:
        return await self.claims.finish(ClaimOutcome(key, owner, ClaimState.DONE, result, "", 0.0, keep))

    async def failed(
        self, owner: str, key: str = "k", *, error: str = "no", retry_in: float = 0.0, keep: float = KEEP
    ) -> ClaimFinished:
        return await self.claims.finish(ClaimOutcome(key, owner, ClaimState.FAILED, None, error, retry_in, keep))

    async def view(self, key: str = "k") -> ClaimView:
        (view,) = await self.claims.list(key)
        return view

    async def let_pass(self, seconds: float, *alive: str) -> None:
        """Advance time while renewing these sessions."""
        while seconds > 0:
            step = min(seconds, SESSION - 1)
            self.clock.advance(step)
            await self.keep(*alive)
            seconds -= step


class ClaimSuite(DriverSuite):
    """Tests that use one driver, or several that share a store."""

    @asynccontextmanager
    async def claim_driver(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[ClaimDriver]:
        """A fresh driver on the store."""
        async with self.driver(url, clock, **settings) as driver:
            yield ClaimDriver(driver.store, driver.clock)

    @asynccontextmanager
    async def claim_drivers(self, url: str, count: int) -> AsyncIterator[list[ClaimDriver]]:
        """Drivers with separate connections to one store, like processes, and a common clock."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.claim_driver(url, clock)) for _ in range(count)]
