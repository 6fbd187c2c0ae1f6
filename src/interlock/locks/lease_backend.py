"""The lease operations of the lock port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.locks import Held, Left, LockRequest, LockStore, Renewed, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["LockLeaseBackend"]


class LockLeaseBackend:
    """Locks, as the shared lease machinery uses them."""

    def __init__(self, store: LockStore) -> None:
        self._store = store

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each lease by its full ttl."""
        return await self._store.renew(leases)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiters whose turn may have come."""
        return await self._store.turns(session, owners)

    async def leave(self, request: LockRequest) -> Left:
        """Release the lease or leave the queue."""
        return await self._store.leave(request)

    def next_owners(self, left: Left) -> Iterable[str]:
        """Return the next in the queue, if it belongs to our own session."""
        return () if left.next_owner is None else (left.next_owner,)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return all leases and queue positions of the session."""
        return await self._store.session_requests(session)

    def rebuild_request(self, key: str, owner: str, session: str) -> LockRequest:
        """Rebuild a request that only the store remembers."""
        return LockRequest(key, owner, "", session, 1.0, 0, False)
