"""What the engines of all concepts do alike: they open, keep, lose, and close without leaving anything behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from interlock.leases.owned_lease import OwnedLease
from interlock.leases.renewer import LeaseRenewer
from interlock.leases.store_access import StoreAccess
from interlock.leases.wait_queue import WaitQueue

if TYPE_CHECKING:
    from interlock.leases.backend import LeaseBackend
    from interlock.operations import Operations
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

__all__ = ["LeaseEngine"]

W = TypeVar("W", bound=Any)
O = TypeVar("O", bound=OwnedLease)  # noqa: E741
L = TypeVar("L")


class LeaseEngine(Generic[W, O, L]):
    """One concept at work for one process in one store. W is what is asked for, O what is owned, L how it is left."""

    mark: ClassVar[str]
    """What tells its owners from those of other concepts."""
    these: ClassVar[str]
    """Its name, for those who lose something because it was closed."""

    def __init__(self, store_client: StoreClient, custody: LeaseBackend[W, L]) -> None:
        self.store = store_client.store
        self.monotonic = store_client.clock.monotonic
        self._store_client = store_client
        self._settings = store_client.settings
        self._room = WaitQueue(store_client, self, custody)
        self._warden: LeaseRenewer[O] = LeaseRenewer(
            custody, store_client.clock, store_client.settings.session_ttl, self._held, self._lose, self._renewal_failed
        )
        self._reach: StoreAccess[W, O, L] = StoreAccess(store_client, custody, self._room)
        self._owners = self._reach.owners
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session

    async def open(self) -> None:
        """Begin a session, or share the one that other concepts have; from here on messages arrive."""
        self._loop = asyncio.get_running_loop()
        self._session = await self._store_client.open(self)

    async def close(self) -> None:
        """Give everything back. Whoever still waits is told."""
        self._reach.closed = True
        for owned in self._held():
            self._lose(owned, "closed", f"its {self.these} were closed")
        self._room.call(None)
        try:
            await self._bodies_stopped()
            await self._warden.stop()
            await self._reach.close()
            if self._store_client.shared or self._unsaid():
                await self._reach.give_back()
        finally:
            await self._store_client.close(self)

    @property
    def operations(self) -> Operations:
        """What people and programs do to the store, journaled."""
        return self._store_client.operations

    def _unsaid(self) -> bool:
        """Whether the store is still to be told something that ending the session does not say."""
        return False

    async def _bodies_stopped(self) -> None:
        """Wait for the bodies just cancelled, for as long as any body may take to stop: then others are let in."""
        until = self.monotonic() + self._settings.session_margin
        while self._any_body() and self.monotonic() < until:  # noqa: ASYNC110 - every block's end counts
            await asyncio.sleep(0.002)

    def _any_body(self) -> bool:
        return any(owned is not None and owned.tied for owned in self._owners.values())

    def _new_owner(self, session: Session) -> str:
        """A name for a request, which is ours until it is given up."""
        self._count += 1
        owner = f"{session.id}.{self.mark}{self._count}"
        self._owners[owner] = None
        return owner

    async def _live_session(self) -> Session:
        """The session, or the one that follows if it is lost."""
        session = self._session
        if session.lost:
            session = await self._store_client.keeper.next_session(session, self._settings.store_wait)
        return session

    def _held(self) -> list[O]:
        return [owned for owned in self._owners.values() if owned and not owned.released and not owned.lost_why]

    # -- losing ----------------------------------------------------------------------------------------------------

    def _lose(self, owned: O, reason: str, why: str) -> None:
        """Something owned has ended, or is about to, under its holder."""
        if not owned.released and not owned.lost_why:
            self._retire(owned)
            self._lost(owned, reason, why)
            # Still ours, and not given back before its body has ended: it may need the rest of the margin to stop in.
            owned.lose(why)

    def _retire(self, owned: O) -> None:
        """It is held no longer from now on: count it."""
        raise NotImplementedError

    def _lost(self, owned: O, reason: str, why: str) -> None:
        """Count and log a loss."""
        raise NotImplementedError

    def _renewal_failed(self, owned: O, error: Exception) -> None:
        """Log a renewal that did not get through."""
        raise NotImplementedError

    # -- a part of the process's store_client ----------------------------------------------------------------------

    def session_lost(self, session: Session) -> None:
        """Everything held is lost; whoever waits queues anew."""
        for owned in self._held():
            if owned.session is session:
                self._lose(owned, "session", "its process's session could not be renewed")
        self._room.call(None)

    def session_began(self, session: Session) -> None:
        """What is asked for from now on belongs to this session."""
        self._session = session
        for owner, owned in list(self._owners.items()):
            if owned is not None and owned.abandoned:
                del self._owners[owner]  # lost with its session, in no block, and nobody came to release it
        self._room.call(None)  # whoever queued under the last one queues anew

    def turn(self, owner: str | None) -> None:
        """It may be somebody's turn."""
        if owner is None:
            # The store may have restarted, or said something that nobody heard: what is ours, what is not?
            self._warden.renew_all()
            self._reach.suspect()
        self._room.call(owner)

    def taken(self, owner: str, why: str) -> None:
        """Something owned was taken by force."""
        owned = self._owners.get(owner)
        if owned is not None:
            self._lose(owned, "taken", why)
