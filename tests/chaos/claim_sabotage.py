"""Ways to break what claims promise, to prove that the checker notices: they stand between library and store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from interlock.ports.claims import Claimed, ClaimFinished, ClaimState, Known

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimAnswer, ClaimOutcome, ClaimRequest

__all__ = ["sabotage"]


def sabotage(store: Any, how: str) -> None:
    """Break a store's claims as named; "" breaks nothing. A store that several share is broken once."""
    claims = store.claims if how else None
    if claims is None or hasattr(claims, "sabotaged"):
        return
    claims.sabotaged = how
    claim, finish = claims.claim, claims.finish

    async def new_to_everybody(want: ClaimRequest) -> ClaimAnswer:
        answer = await claim(want)
        if isinstance(answer, Known):
            return Claimed(time.monotonic_ns(), time.time() + want.lease, answer.view.attempt + 1)
        return answer

    async def attempts_that_stand_still(want: ClaimRequest) -> ClaimAnswer:
        answer = await claim(want)
        return answer._replace(attempt=1) if isinstance(answer, Claimed) else answer

    async def falling_fences(want: ClaimRequest) -> ClaimAnswer:
        answer = await claim(want)
        return answer._replace(fence=10**18 - answer.fence) if isinstance(answer, Claimed) else answer

    async def forgets_what_is_done(outcome: ClaimOutcome) -> ClaimFinished:
        return ClaimFinished(True, "") if outcome.state is ClaimState.DONE else await finish(outcome)

    async def failed_is_done(outcome: ClaimOutcome) -> ClaimFinished:
        return await finish(outcome._replace(state=ClaimState.DONE, error="", result='"?"'))

    async def anybody_settles(outcome: ClaimOutcome) -> ClaimFinished:
        views = await claims.list(outcome.key)
        return await finish(outcome._replace(owner=views[0].owner) if views else outcome)

    async def settles_nothing(outcome: ClaimOutcome) -> ClaimFinished:
        return ClaimFinished(False, "no")

    async def never_lets_go(outcome: ClaimOutcome) -> ClaimFinished:
        return await finish(outcome._replace(retry_in=outcome.retry_in + 1000))

    for_claim = {
        "new to everybody": new_to_everybody,
        "attempts that stand still": attempts_that_stand_still,
        "falling fences": falling_fences,
    }
    for_settle = {
        "forgets what is done": forgets_what_is_done,
        "failed is done": failed_is_done,
        "anybody finishes": anybody_settles,
        "finishes nothing": settles_nothing,
        "never lets go": never_lets_go,
    }
    claims.claim = for_claim.get(how, claim)
    claims.finish = for_settle.get(how, finish)
