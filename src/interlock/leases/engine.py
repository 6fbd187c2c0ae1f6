"""Base of the engines of locks, claims and limits: opening, loss of leases, and closing without leftovers."""

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
    """The engine of one concept, for one process and one store.

    W is the type of requests, O the type of leases, and L what the store returns for a release.
    """

    owner_tag: ClassVar[str]
    """Distinguishes this concept's owners from those of other concepts."""
    plural: ClassVar[str]
    """The concept's name, for the error of a holder whose lease is lost because the engine was closed."""

    def __init__(self, store_client: StoreClient, backend: LeaseBackend[W, L]) -> None:
        self.store = store_client.store
        self.monotonic = store_client.clock.monotonic
        self._store_client = store_client
        self._settings = store_client.settings
        self._queue = WaitQueue(store_client, self, backend)
        self._renewer: LeaseRenewer[O] = LeaseRenewer(
            backend, store_client.clock, store_client.settings.session_ttl, self._held, self._lose, self._renewal_failed
        )
        self._access: StoreAccess[W, O, L] = StoreAccess(store_client, backend, self._queue)
        self._owners = self._access.owners
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session

    async def open(self) -> None:
        """Start a session, or share the one that other concepts already have, and receive messages from now on."""
        self._loop = asyncio.get_running_loop()
        self._session = await self._store_client.open(self)

    async def close(self) -> None:
        """Release everything. Waiters get an error."""
        self._access.closed = True
        for lease in self._held():
            self._lose(lease, "closed", f"its {self.plural} were closed")
        self._queue.wake(None)
        try:
            await self._blocks_ended()
            await self._renewer.stop()
            await self._access.close()
            if self._store_client.shared or self._has_unreported():
                await self._access.release_all()
        finally:
            await self._store_client.close(self)

    def in_use(self) -> bool:
        """Whether closing it now would take a lease from its holder."""
        return bool(self._owners)

    def forget(self) -> None:
        """Give up every lease in a process that was just forked. The store is not told: its parent holds them."""
        self._access.closed = True
        for lease in self._held():
            lease._loss = "this process was forked, and its parent holds it"

    @property
    def operations(self) -> Operations:
        """The journaled operations on this store."""
        return self._store_client.operations

    def _has_unreported(self) -> bool:
        """Whether the store still lacks a report that the end of the session does not imply."""
        return False

    async def _blocks_ended(self) -> None:
        """Wait for the blocks that were just cancelled, for as long as a block may take to stop."""
        until = self.monotonic() + self._settings.session_margin
        while self._any_block() and self.monotonic() < until:  # noqa: ASYNC110 - every block's end counts
            await asyncio.sleep(0.002)

    def _any_block(self) -> bool:
        return any(lease is not None and lease._in_block for lease in self._owners.values())

    def _new_owner(self, session: Session) -> str:
        """Return a new owner ID. It stays registered until its request is withdrawn."""
        self._count += 1
        owner = f"{session.id}.{self.owner_tag}{self._count}"
        self._owners[owner] = None
        return owner

    async def _live_session(self) -> Session:
        """Return the session, or its successor if it is lost."""
        session = self._session
        if session.lost:
            session = await self._store_client.keeper.next_session(session, self._settings.store_wait)
        return session

    def _held(self) -> list[O]:
        return [lease for lease in self._owners.values() if lease and not lease._released and not lease._loss]

    # -- loss ------------------------------------------------------------------------------------------------------

    def _lose(self, lease: O, cause: str, why: str) -> None:
        """Handle a lease that has ended, or is about to end, while it is held."""
        if not lease._released and not lease._loss:
            self._retire(lease)
            self._lost(lease, cause, why)
            # Not released before its block has ended: the block may need the rest of the margin to stop.
            lease._lose(why)

    def _retire(self, lease: O) -> None:
        """Count the end of a lease."""
        raise NotImplementedError

    def _lost(self, lease: O, cause: str, why: str) -> None:
        """Count and log a loss."""
        raise NotImplementedError

    def _renewal_failed(self, lease: O, error: Exception) -> None:
        """Log a renewal that did not reach the store."""
        raise NotImplementedError

    # -- callbacks of the store client -------------------------------------------------------------------------------

    def session_lost(self, session: Session) -> None:
        """Lose everything that is held. Waiters queue again."""
        for lease in self._held():
            if lease._session is session:
                self._lose(lease, "session", "its process's session could not be renewed")
        self._queue.wake(None)

    def session_began(self, session: Session) -> None:
        """Use this session for every new request."""
        self._session = session
        for owner, lease in list(self._owners.items()):
            if lease is not None and lease._abandoned:
                del self._owners[owner]  # lost with its session, in no block, and never released
        self._queue.wake(None)  # waiters of the last session queue again

    def turn(self, owner: str | None) -> None:
        """Wake the waiter whose turn may have come."""
        if owner is None:
            # The store may have restarted, or a message may have been lost: check what is held.
            self._renewer.renew_all()
            self._access.suspect_leftovers()
        self._queue.wake(owner)

    def taken(self, owner: str, why: str) -> None:
        """Lose a lease that was released by force."""
        lease = self._owners.get(owner)
        if lease is not None:
            self._lose(lease, "taken", why)
