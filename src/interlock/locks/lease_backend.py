"""How leases on keys are kept, waited for and given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.locks import Held, Left, LockStore, Renewed, Turns, Want

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["LockCustody"]


class LockCustody:
    """Locks, for what engines do alike."""

    def __init__(self, store: LockStore) -> None:
        self._store = store

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each its ttl again."""
        return await self._store.renew(leases)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        return await self._store.turns(session, owners)

    async def leave(self, want: Want) -> Left:
        """Give up the lease or the place in the queue."""
        return await self._store.leave(want)

    def next_owners(self, left: Left) -> Iterable[str]:
        """The next in the queue, if it is of our own session."""
        return () if left.next_owner is None else (left.next_owner,)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """All leases and places of the session."""
        return await self._store.session_requests(session)

    def stray(self, key: str, owner: str, session: str) -> Want:
        """What only the store remembers."""
        return Want(key, owner, "", session, 1.0, 0, False)
