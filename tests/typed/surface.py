"""The public surface as a type checker sees it. ``make lint`` checks this file; nothing runs it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, assert_type

from interlock import App, Claims, Cursors, Events, Lease, Limits, Locks, Settings, Slots
from interlock.claims import Claim, ClaimView
from interlock.cursors import Position
from interlock.deadlocks import retry_on_deadlock
from interlock.events import EventView
from interlock.explanation import Explanation
from interlock.limits import LimitView
from interlock.locks import Holder, LockView

app = App("memory://", session_ttl=timedelta(seconds=5), keep_events=3600, stuck_work="report")
assert_type(app.locks, Locks)
assert_type(app.claims, Claims)
assert_type(app.limits, Limits)
assert_type(app.cursors, Cursors)
assert_type(app.events, Events)
assert_type(Settings(session_ttl=timedelta(seconds=5)).session_ttl, float)
App("memory://", session_ttl="5")  # pyright: ignore[reportArgumentType]
App("memory://", unknown=1)  # pyright: ignore[reportCallIssue]
Locks.from_url("memory://", namespace=5)  # pyright: ignore[reportArgumentType]


async def locks() -> None:
    async with app.locks.acquire("k", ttl=timedelta(minutes=5), wait=60) as lease:
        assert_type(lease, Lease)
        assert_type(lease.fence, int)
        assert_type(lease.expires_at, datetime)
    assert_type(await app.locks.list(limit=10), Sequence[LockView])
    view = await app.locks.get("k")
    assert_type(view, LockView)
    assert_type(view.seen_at, datetime)
    assert_type(view.holder, Holder | None)
    assert_type(await app.locks.explain("k"), Explanation)


async def claims() -> None:
    async with app.claims.claim("k", keep=timedelta(days=1), ttl=60) as claim:
        assert_type(claim, Claim)
    assert_type(await app.claims.list(prefix="k", limit=10), Sequence[ClaimView])
    view = await app.claims.get("k")
    assert_type(view, ClaimView)
    assert_type(view.claimed_at, datetime)
    assert_type(view.retry_at, datetime | None)
    assert_type(await app.claims.explain("k"), Explanation)


async def limits() -> None:
    assert_type(Slots("containers", 5).count, int)
    assert_type(await app.limits.list(limit=10), Sequence[LimitView])
    assert_type((await app.limits.get("slots:containers")).seen_at, datetime)
    assert_type(await app.limits.explain("slots:containers"), Explanation)


async def cursors() -> None:
    assert_type(await app.cursors.list(limit=10), Sequence[Position[Any]])
    assert_type((await app.cursors.get("notes")).moved_at, datetime)
    assert_type((await app.cursors.explain("notes")).why, str)


async def events() -> None:
    assert_type(await app.events.list(source="github", limit=10), Sequence[EventView])
    view = await app.events.get(1)
    assert_type(view, EventView)
    assert_type(view.received_at, datetime)
    assert_type(await app.events.explain(1), Explanation)


@retry_on_deadlock(max_retries=5, base_delay=timedelta(milliseconds=10))
async def move(source: str, *, amount: int) -> bool:
    return bool(source) and amount > 0


@app.locks.retry_on_deadlock()
def count(key: str) -> int:
    return len(key)


async def deadlocks() -> None:
    assert_type(await move("a", amount=1), bool)
    assert_type(count("a"), int)
    await move("a")  # pyright: ignore[reportCallIssue]
    count(1)  # pyright: ignore[reportArgumentType]
