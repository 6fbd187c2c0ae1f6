"""What a Redis whose memory is full still takes: all that keeps or ends what was granted before. For any version."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis

from interlock.backends import from_url
from interlock.errors import StoreUnavailableError
from interlock.ports.claims import Claimed, ClaimOutcome, ClaimRequest, ClaimState
from interlock.ports.leases import Held
from interlock.ports.limits import Plan, Turn, Use
from interlock.ports.locks import Granted, LockRequest
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["takes_what_keeps_or_ends"]


@contextmanager
def full(url: str) -> Iterator[None]:
    """The server's memory is full meanwhile."""
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


async def takes_what_keeps_or_ends(url: str) -> None:
    store: Any = from_url(url, settings=Settings(store_wait=5))
    await store.open()
    for session in ("s", "other"):
        await store.sessions.begin(SessionCard(session, "host", 7, "test"), 600.0)
    want = LockRequest("lock", "s.1", "p", "s", 60.0, 0, False)
    assert isinstance(await store.locks.ask(want), Granted)
    await store.locks.ask(LockRequest("lock", "other.1", "q", "other", 60.0, None, False))
    work = ClaimRequest("delivery", "s.2", "s", 60.0, 600.0)
    assert isinstance(await store.claims.claim(work), Claimed)
    plan = Plan("s.3", "p", "s", (Use("slots", 1, 0.0), Use("zrate", 5, 60.0)), True)
    turn = await store.limits.ask(plan)
    assert isinstance(turn, Turn)
    assert turn.started
    await store.limits.ask(Plan("other.3", "q", "other", (Use("slots", 1, 0.0),), True))

    with full(url):
        with pytest.raises(StoreUnavailableError, match="OOM"):
            await store.locks.ask(LockRequest("new", "s.9", "p", "s", 60.0, 0, False))
        assert await store.sessions.renew("s", 600.0)
        (renewed,) = await store.locks.renew([Held("lock", "s.1", 60.0)])
        assert renewed.expires_at is not None
        (renewed,) = await store.claims.renew([Held("delivery", "s.2", 60.0)])
        assert renewed.expires_at is not None
        done = ClaimOutcome("delivery", "s.2", ClaimState.DONE, '"result"', "", 0.0, 600.0)
        assert (await store.claims.finish(done)).done
        assert (await store.limits.finish("s", "s.3")).known
        assert (await store.locks.leave(want)).held
        await store.sessions.end("other")
        await store.sessions.sweep()

    assert await store.locks.list() == []
    assert [view.key for view in await store.limits.list()] == ["zrate"]
    ((claim,)) = await store.claims.list()
    assert (claim.state, claim.result) == (ClaimState.DONE, '"result"')
    await store.close()
