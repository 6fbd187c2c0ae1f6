"""The lease operations of the limit port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.limits.reservation import LimitRequest
from interlock.ports.limits import Finished, LimitStore, Plan, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.leases import Held, Renewed

__all__ = ["LimitLeaseBackend"]


class LimitLeaseBackend:
    """Limits, as the shared lease machinery uses them. Reservations end with their session and are never renewed."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Do nothing, because reservations are not renewed."""
        return ()

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the reservations whose turn may have come."""
        return await self._store.turns(session, owners)

    async def leave(self, request: LimitRequest) -> Finished:
        """Finish a reservation, started or not."""
        return await self._store.finish(request.plan.session, request.owner)

    def next_owners(self, left: Finished) -> Iterable[str]:
        """Return the reservations of our own session whose turn may have come."""
        return left.next_owners

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return all reservations of the session."""
        return await self._store.session_requests(session)

    def rebuild_request(self, key: str, owner: str, session: str) -> LimitRequest:
        """Rebuild a reservation that only the store remembers."""
        return LimitRequest(Plan(owner, "", session, (), start=False))
