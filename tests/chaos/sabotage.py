"""Ways to break a promise on purpose, to prove that the checker notices: they stand between library and store."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from interlock.ports.locks import Granted, Waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.ports.locks import Answer, LockRequest, LockStore

    Ask = Callable[[LockRequest], Awaitable[Answer]]

__all__ = ["DEAF", "sabotaged"]

DEAF = "deaf"
"""Not of the store: bodies that go on when they are cancelled."""


def sabotaged(store: LockStore, how: str) -> Ask:
    """The store's way of granting keys, broken as named; "" and what is not about the store break nothing."""
    ask = store.ask

    async def no_exclusion(want: LockRequest) -> Answer:
        return Granted(time.monotonic_ns(), time.time() + want.ttl)

    async def lost_places(want: LockRequest) -> Answer:
        answer = await ask(want)
        if type(answer) is Waiting and random.random() < 0.5:
            await store.leave(want)
        return answer

    async def same_fence(want: LockRequest) -> Answer:
        answer = await ask(want)
        return Granted(7, answer.expires_at) if type(answer) is Granted else answer

    async def falling_fence(want: LockRequest) -> Answer:
        answer = await ask(want)
        return Granted(1_000_000 - answer.fence, answer.expires_at) if type(answer) is Granted else answer

    broken: dict[str, Ask] = {
        "no exclusion": no_exclusion,
        "lost places": lost_places,
        "same fence": same_fence,
        "falling fence": falling_fence,
    }
    return broken.get(how, ask)
