"""How reservations are waited for and given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.limits.reservation import Place
from interlock.ports.limits import Finished, LimitStore, Plan, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.leases import Held, Renewed

__all__ = ["LimitCustody"]


class LimitCustody:
    """Limits, for what engines do alike. Reservations end with their session and are never renewed."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Nothing to renew."""
        return ()

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        return await self._store.turns(session, owners)

    async def leave(self, want: Place) -> Finished:
        """Finish, or give back what never started."""
        return await self._store.finish(want.plan.session, want.owner)

    def next_owners(self, left: Finished) -> Iterable[str]:
        """Those of our own session whose turn may have come."""
        return left.next_owners

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """All reservations of the session."""
        return await self._store.session_requests(session)

    def stray(self, key: str, owner: str, session: str) -> Place:
        """What only the store remembers."""
        return Place(Plan(owner, "", session, (), start=False))
