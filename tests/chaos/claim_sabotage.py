"""Ways to break what claims promise, to prove that the checker notices: they stand between library and store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from interlock.ports.claims import Claimed, ClaimState, Known, Settled

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimAnswer, ClaimWant, Settlement

__all__ = ["sabotage"]


def sabotage(store: Any, how: str) -> None:
    """Break a store's claims as named; "" breaks nothing. A store that several share is broken once."""
    claims = store.claims if how else None
    if claims is None or hasattr(claims, "sabotaged"):
        return
    claims.sabotaged = how
    claim, settle = claims.claim, claims.settle

    async def new_to_everybody(want: ClaimWant) -> ClaimAnswer:
        answer = await claim(want)
        if isinstance(answer, Known):
            return Claimed(time.monotonic_ns(), time.time() + want.lease, answer.view.attempt + 1)
        return answer

    async def attempts_that_stand_still(want: ClaimWant) -> ClaimAnswer:
        answer = await claim(want)
        return answer._replace(attempt=1) if isinstance(answer, Claimed) else answer

    async def falling_fences(want: ClaimWant) -> ClaimAnswer:
        answer = await claim(want)
        return answer._replace(fence=10**18 - answer.fence) if isinstance(answer, Claimed) else answer

    async def forgets_what_is_done(settlement: Settlement) -> Settled:
        return Settled(True, "") if settlement.state is ClaimState.DONE else await settle(settlement)

    async def failed_is_done(settlement: Settlement) -> Settled:
        return await settle(settlement._replace(state=ClaimState.DONE, error="", result='"?"'))

    async def anybody_settles(settlement: Settlement) -> Settled:
        views = await claims.list(settlement.key)
        return await settle(settlement._replace(owner=views[0].owner) if views else settlement)

    async def settles_nothing(settlement: Settlement) -> Settled:
        return Settled(False, "no")

    async def never_lets_go(settlement: Settlement) -> Settled:
        return await settle(settlement._replace(retry_in=settlement.retry_in + 1000))

    for_claim = {
        "new to everybody": new_to_everybody,
        "attempts that stand still": attempts_that_stand_still,
        "falling fences": falling_fences,
    }
    for_settle = {
        "forgets what is done": forgets_what_is_done,
        "failed is done": failed_is_done,
        "anybody settles": anybody_settles,
        "settles nothing": settles_nothing,
        "never lets go": never_lets_go,
    }
    claims.claim = for_claim.get(how, claim)
    claims.settle = for_settle.get(how, settle)
