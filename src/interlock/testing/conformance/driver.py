"""A test driver for the locks port: a store on a virtual clock, with short helpers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.ports.journal import Attribution
from interlock.ports.locks import Granted, Left, LockRequest, Waiting
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.base import StoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

__all__ = ["ANN", "SESSION", "Driver", "DriverSuite"]

SESSION = 15.0
ANN = Attribution("ann", "because")
"""Who performs the operations of tests that are about something else."""


class Driver:
    """A store on a virtual clock, with sessions a, b and c, and short helpers for requests."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.locks = store.locks
        self.clock = clock
        self.wants: dict[str, LockRequest] = {}

    async def begin(self, *sessions: str, seconds: float = SESSION) -> None:
        for session in sessions:
            await self.store.sessions.begin(SessionCard(session, f"host-{session}", 7, "test"), seconds)

    async def keep(self, *sessions: str, seconds: float = SESSION) -> None:
        for session in sessions:
            assert await self.store.sessions.renew(session, seconds)

    def request(self, owner: str, key: str = "k", **changes: Any) -> LockRequest:
        """Owner ``a1`` belongs to session ``a`` and is a caller of its own unless told otherwise."""
        values: dict[str, Any] = {"caller": owner, "session": owner[0], "ttl": 300.0, "wait": 600.0, "nested": False}
        want = self.wants[owner] = LockRequest(key, owner, **(values | changes))
        return want

    async def ask(self, owner: str, key: str = "k", **changes: Any) -> Any:
        return await self.locks.ask(self.request(owner, key, **changes))

    async def granted(self, owner: str, key: str = "k", **changes: Any) -> int:
        answer = await self.ask(owner, key, **changes)
        assert isinstance(answer, Granted), answer
        return answer.fence

    async def waiting(self, owner: str, key: str = "k", **changes: Any) -> Waiting:
        answer = await self.ask(owner, key, **changes)
        assert isinstance(answer, Waiting), answer
        return answer

    async def leave(self, owner: str) -> Left:
        return await self.locks.leave(self.wants[owner])


class DriverSuite(StoreSuite):
    """Tests that use a driver."""

    @asynccontextmanager
    async def driver(self, url: str, clock: VirtualClock | None = None, **settings: Any) -> AsyncIterator[Driver]:
        """A fresh driver on the store."""
        clock = clock or VirtualClock()
        store = from_url(url, settings=Settings(**settings), clock=clock)
        await store.open()
        try:
            driver = Driver(store, clock)
            await driver.begin("a", "b", "c")
            yield driver
        finally:
            await store.close()
