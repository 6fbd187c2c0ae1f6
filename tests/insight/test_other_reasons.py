"""Why a lock, a limit or a claim is as it is: every reason, on every store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.claims.explain import explain as explain_claim
from interlock.errors import CapabilityError
from interlock.insight import Insight, data
from interlock.ports.claims import ClaimOutcome, ClaimRequest, ClaimState
from interlock.ports.limits import Plan, Use
from interlock.reasons import REASONS, Reason
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.driver import SESSION, Driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from enum import StrEnum


class Place(Driver):
    insight: Insight

    async def told(self, kind: str, key: str, reason: StrEnum) -> str:
        """The short of it, which the page and an explanation agree about."""
        explanation = await self.insight.explain(kind, key)
        page = await getattr(self.insight, kind)(key)
        assert (explanation.reason, explanation.subject) == (reason, (kind, key))
        assert (page.reason, page.why, page.explanation.lines) == (str(reason), explanation.why, explanation.lines)
        assert data(page)["why"] == explanation.why
        return explanation.why


@asynccontextmanager
async def place(url: str) -> AsyncIterator[Place]:
    clock = VirtualClock()
    store = from_url(url, settings=Settings(), clock=clock)
    await store.open()
    try:
        made = Place(store, clock)
        await made.begin("a", "b", "c")
        made.insight = Insight(store, clock=clock)
        yield made
    finally:
        await store.close()


async def test_locks(store_url: str) -> None:
    async with place(store_url) as p:
        assert await p.told("lock", "k", Reason.FREE) == "is free"
        await p.granted("a1")
        p.clock.advance(2)
        assert await p.told("lock", "k", Reason.HELD) == "has been held by a1 for 2.0 s"
        await p.waiting("b1")
        await p.waiting("c1")
        assert await p.told("lock", "k", Reason.AWAITED) == "has been held by a1 for 2.0 s; 2 wait"
        (row,) = await p.insight.locks()
        assert [(waiter.place, waiter.who.caller) for waiter in row.waiters] == [(1, "b1"), (2, "c1")]
        assert row.waiters[1].why == "has waited for 0 ms and has 1 ahead of it; a1 holds it"
        assert row.holder is not None
        assert (row.holder.who.host, row.holder.who.pid, row.holder.since) == (
            "host-a",
            7,
            pytest.approx(p.clock.now() - 2),
        )
        await p.leave("a1")
        assert await p.told("lock", "k", Reason.PASSING) == "is free and reserved for b1; 2 wait"


async def test_a_waiter_that_is_gone_is_told_as_such(store_url: str) -> None:
    async with place(store_url) as p:
        await p.granted("a1")
        await p.waiting("b1", wait=5.0)
        p.clock.advance(6)
        page = await p.insight.lock("k")

        if page.lock is not None and page.lock.waiters:  # a store may have dropped it already
            assert page.lock.waiters[0].live is False
            assert page.lock.waiters[0].why.startswith("is gone")
        assert page.reason == "held"


async def test_limits(store_url: str) -> None:
    async with place(store_url) as p:
        slot, cooldown = (Use("s", 1, 0.0),), (Use("c", 1, 90.0),)

        async def reserve(owner: str, uses: tuple[Use, ...], *, start: bool = True) -> Any:
            return await p.store.limits.ask(Plan(owner, owner, owner[0], uses, start))

        assert await p.told("limit", "s", Reason.UNUSED) == "is not in use"
        await reserve("a1", (Use("r", 2, 0.0),))
        assert await p.told("limit", "r", Reason.ROOM) == "1 of 2 running"
        await reserve("a2", slot)
        await reserve("b1", slot)
        assert await p.told("limit", "s", Reason.FULL) == "1 of 1 running, 1 waits"
        page = await p.insight.limit("s")
        assert [(holder.counts, holder.who.caller) for holder in page.holders] == [("reservations", "a2")]
        assert [(waiter.place, waiter.who.caller, waiter.why) for waiter in page.waiters] == [
            (1, "b1", "has waited for 0 ms, first in line")
        ]
        await p.store.limits.finish("a", "a2")
        assert await p.told("limit", "s", Reason.PASSING) == "0 of 1 running, 1 waits; b1 may start now"
        await reserve("c1", cooldown)
        assert await p.told("limit", "c", Reason.TOO_SOON) == "1 of 1 started, room in 90.0 s"
        assert [(row.key, row.counts, row.figure, row.full) for row in await p.insight.limits()] == [
            ("c", "reservations", "1 every 90 s", True),
            ("r", "reservations", "2 at once", False),
            ("s", "reservations", "1 at once", False),
        ]


async def test_claims(store_url: str) -> None:
    async with place(store_url) as p:
        claims = p.store.claims

        async def finish(state: ClaimState, **how: Any) -> None:
            values = {"result": None, "error": "", "retry_in": 0.0, "keep": 600.0} | how
            await claims.finish(ClaimOutcome("k", "a1", state, **values))

        want = ClaimRequest("k", "a1", "a", 60.0, 600.0)
        assert await p.told("claim", "k", Reason.NEW) == "is new"
        await claims.claim(want)
        p.clock.advance(2)
        assert await p.told("claim", "k", Reason.IN_PROGRESS) == "has been in progress for 2.0 s in test@host-a:7"
        await finish(ClaimState.FAILED, error="no", retry_in=30.0)
        assert await p.told("claim", "k", Reason.FAILED_NOT_DUE) == "failed and can be claimed again in 30.0 s: no"
        await p.keep("a", seconds=100.0)
        p.clock.advance(31)
        assert await p.told("claim", "k", Reason.FAILED) == "failed and can be claimed again now: no"
        await claims.claim(want)
        await finish(ClaimState.DONE, result='"ok"')
        assert await p.told("claim", "k", Reason.DONE) == "was done 0 ms ago by test@host-a:7"
        await p.begin("d")
        await claims.claim(ClaimRequest("gone", "d1", "d", 60.0, 600.0))
        p.clock.advance(SESSION + 1)
        assert await p.told("claim", "gone", Reason.HOLDER_GONE) == (
            "its holder test@host-d:7 is gone or silent; it can be claimed again"
        )
        assert [(row.claim.key, row.reason) for row in await p.insight.claims()] == [
            ("gone", "holder-gone"),
            ("k", "done"),
        ]
        assert [row.claim.key for row in await p.insight.claims(prefix="k", state=ClaimState.DONE)] == ["k"]


async def test_lists_go_on_where_they_ended(store_url: str) -> None:
    async with place(store_url) as p:
        for n in range(5):
            await p.granted(f"a{n}", f"k{n}")
            await p.store.claims.claim(ClaimRequest(f"k{n}", f"a{n}", "a", 60.0, 600.0))
            await p.store.limits.ask(Plan(f"b{n}", "b", "b", (Use(f"k{n}", 1, 0.0),), True))
        for listed, key in (
            (p.insight.locks, lambda row: row.key),
            (p.insight.limits, lambda row: row.key),
            (p.insight.claims, lambda row: row.claim.key),
        ):
            found, after = [], None
            while True:
                part = await listed(limit=2, after=after)
                assert len(part) <= 2
                found += [key(row) for row in part]
                after = part.more
                if after is None:
                    break
            assert found == [f"k{n}" for n in range(5)]


async def test_what_a_store_does_not_offer_is_refused(interlock_redis_url: str) -> None:
    async with place(interlock_redis_url) as p:
        assert p.insight.parts == {"locks", "claims", "limits"}
        for call in (p.insight.jobs(), p.insight.lane("l"), p.insight.events(), p.insight.explain("job", 1)):
            with pytest.raises(CapabilityError, match="redis offers no"):
                await call
        overview = await p.insight.overview()
        assert (overview.parts, overview.queues, overview.totals) == (p.insight.parts, (), {})
        assert (await p.insight.pulse())["locks"] == {"held": 0, "waiting": 0}


def test_a_claim_that_is_explained_without_a_store() -> None:
    assert explain_claim("k", None).lines == ("'k' is new: no claim on it is kept.",)


def test_every_reason_has_a_test() -> None:
    here = Path(__file__).read_text("utf-8")
    about = {"lock", "limit", "claim"}
    known = [reason for reason, info in REASONS.items() if about & set(info.subjects)]

    assert not [reason for reason in known if f"Reason.{reason.name}" not in here]
