"""How claims are kept and given up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.claims.claim import ClaimRequest
from interlock.ports.claims import ClaimState, ClaimStore, Held, Renewed, Settled, Settlement
from interlock.ports.leases import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ClaimCustody"]

_MOST_STRAYS = 1000


class ClaimCustody:
    """Claims, for what engines do alike. Nobody waits for one, so there are no turns."""

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self._strays: dict[str, ClaimRequest] = {}
        self.unsaid: dict[str, Settlement] = {}
        """By owner, how claims ended that the store has not confirmed yet."""

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each its lease again."""
        return await self._store.renew(leases)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Nobody's."""
        return Turns((), math.inf)

    async def leave(self, want: ClaimRequest) -> Settled:
        """Say how it ended, if it did, else let others try at once."""
        why = "its claimant gave it up"
        given_up = Settlement(want.key, want.owner, ClaimState.FAILED, None, why, 0.0, want.keep)
        return await self._store.settle(self.unsaid.get(want.owner, given_up))

    def next_owners(self, left: Settled) -> Iterable[str]:
        """Nobody waits."""
        return ()

    def unheard(self, want: ClaimRequest) -> None:
        """Remember a request whose answer never came: it may be granted, now or later, with nobody to work on it."""
        self._strays[want.owner] = want
        while len(self._strays) > _MOST_STRAYS:
            del self._strays[next(iter(self._strays))]

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Requests of the session that were never answered. The store is not asked: it would need an index for that."""
        self._strays = {owner: want for owner, want in self._strays.items() if want.session == session}
        return [(want.key, owner) for owner, want in self._strays.items()]

    def stray(self, key: str, owner: str, session: str) -> ClaimRequest:
        """The request again."""
        return self._strays.get(owner) or ClaimRequest(key, owner, session, 1.0, 0.0, 0.0)
