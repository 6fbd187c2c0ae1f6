"""How leases and sessions end, notifications, and views."""

from __future__ import annotations

import pytest

from interlock.ports.locks import Held, Left
from interlock.testing.clock import until
from interlock.testing.conformance.driver import ANN, SESSION, DriverSuite

__all__ = ["EndingConformance"]


class EndingConformance(DriverSuite):
    """Expiry, release, forced release and the end of sessions."""

    async def test_a_lease_that_ran_out_passes_on_with_a_larger_fence(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            first = await b.granted("a1", ttl=5.0)
            waiting = await b.waiting("b1")
            b.clock.advance(5)

            assert waiting.recheck_in == pytest.approx(5, abs=0.01)
            assert await b.granted("b1") > first

    async def test_a_dead_session_frees_its_leases_long_before_their_ttl(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", ttl=300.0)
            await b.waiting("b1")
            b.clock.advance(10)
            await b.keep("b")
            b.clock.advance(SESSION - 10)

            assert (await b.locks.turns("b", [])).owners == ("b1",)
            await b.granted("b1")

    async def test_renewing_gives_the_full_ttl_again_to_all_that_live(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", ttl=10.0)
            await b.granted("a2", "y", ttl=2.0)
            b.clock.advance(4)
            renewed = await b.locks.renew([Held("x", "a1", 10.0), Held("y", "a2", 2.0), Held("z", "a3", 9.0)])

            by_owner = {one.owner: one.expires_at for one in renewed}
            assert by_owner == {"a1": pytest.approx(b.clock.now() + 10, abs=0.01), "a2": None, "a3": None}
            assert all(one.why for one in renewed if one.expires_at is None)

    async def test_renewing_never_brings_back_what_has_ended(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", ttl=5.0)
            b.clock.advance(5)
            (renewed,) = await b.locks.renew([Held("k", "a1", 5.0)])
            assert renewed.expires_at is None

            await b.granted("b1", "other", ttl=300.0)
            b.clock.advance(SESSION)
            (renewed,) = await b.locks.renew([Held("other", "b1", 300.0)])
            assert renewed.expires_at is None

    async def test_leaving_says_whether_the_lease_was_held_to_the_end(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", ttl=5.0)
            b.clock.advance(6)
            late = await b.leave("a1")
            await b.granted("b1", "other")
            in_time = await b.leave("b1")

            assert not late.held
            assert "expired" in late.why
            assert in_time == Left(True, "", None)

    async def test_leaving_twice_or_as_a_stranger_changes_nothing(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1")
            await b.leave("a1")
            await b.granted("b1")
            again = await b.leave("a1")
            stranger = await b.locks.leave(b.request("c9"))
            (view,) = await b.locks.list("k")

            assert not again.held
            assert not stranger.held
            assert view.holder is not None
            assert view.holder.owner == "b1"

    async def test_nothing_is_kept_of_a_key_that_was_given_back(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")
            await b.leave("b1")

            assert await b.locks.list() == []
            assert await b.locks.session_requests("a") == []

    async def test_a_session_that_ended_cannot_be_renewed(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            b.clock.advance(SESSION)
            assert not await b.store.sessions.renew("a", SESSION)
            assert not await b.store.sessions.renew("nobody", SESSION)

            await b.begin("d")
            await b.store.sessions.end("d")
            assert not await b.store.sessions.renew("d", SESSION)

    async def test_ending_a_session_frees_all_it_had_and_tells_the_next(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x")
            await b.granted("b1", "y")
            await b.waiting("b2", "x")
            await b.waiting("a2", "y")
            await b.waiting("c1", "y")
            told: list[str | None] = []
            await b.store.messages.listen("b", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)
            await b.store.sessions.end("a")

            await until(lambda: "b2" in told, what="the waiter behind the ended session is notified")
            await b.granted("b2", "x")
            assert (await b.leave("b1")).next_owner == "c1"

    async def test_ending_a_session_twice_is_harmless(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1")
            await b.store.sessions.end("a")
            await b.store.sessions.end("a")

            await b.granted("b1")

    async def test_old_sessions_are_swept(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "held-to-death")
            b.clock.advance(2 * 3600)
            await b.begin("d")
            swept = await b.store.sessions.sweep()

            assert swept >= 3
            assert await b.locks.session_requests("a") == []
            await b.granted("d1", "held-to-death")

    async def test_session_requests_are_all_leases_and_places_of_a_session(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x")
            await b.granted("b1", "y")
            await b.waiting("a2", "y")

            assert sorted(await b.locks.session_requests("a")) == [("x", "a1"), ("y", "a2")]

    async def test_the_next_waiter_is_told_when_a_key_comes_free(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            told: list[str | None] = []
            await b.store.messages.listen("b", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")

            await until(lambda: "b1" in told, what="b1 is notified")

    async def test_turns_name_those_who_should_ask_and_when_to_look_again(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "x", ttl=8.0)
            await b.waiting("b1", "x")
            await b.waiting("b2", "x")
            before = await b.locks.turns("b", ["b1", "b2"])
            await b.leave("a1")
            after = await b.locks.turns("b", ["b1", "b2", "b3"])

            assert before.owners == ()
            assert before.recheck_in == pytest.approx(8, abs=0.01)
            assert sorted(after.owners) == ["b1", "b3"]
            assert (await b.locks.turns("c", [])).owners == ()

    async def test_force_takes_the_key_tells_the_holder_why_and_the_next_that_it_is_free(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            lost: list[tuple[str, str]] = []
            told: list[str | None] = []
            await b.granted("a1")
            await b.waiting("b1")
            await b.store.messages.listen("a", told.append, lambda owner, why: lost.append((owner, why)))
            holder = await b.locks.force("k", "eva released it by force: stuck", ANN)

            assert holder is not None
            assert holder.owner == "a1"
            await until(lambda: lost, what="the old holder is notified")
            assert lost[0] == ("a1", "eva released it by force: stuck")
            (renewed,) = await b.locks.renew([Held("k", "a1", 300.0)])
            assert renewed.expires_at is None
            assert "eva" in renewed.why
            await b.granted("b1")

    async def test_force_on_a_key_nobody_holds_does_nothing(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", "expired", ttl=1.0)
            b.clock.advance(2)

            assert await b.locks.force("free", "why", ANN) is None
            assert await b.locks.force("expired", "why", ANN) is None

    async def test_a_look_shows_holders_and_queues_in_order(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            fence = await b.granted("a1", "y", ttl=30.0)
            await b.waiting("b1", "y", wait=None)
            await b.waiting("c1", "y", wait=20.0)
            await b.granted("c2", "x")
            x, y = await b.locks.list()

            assert (x.key, y.key) == ("x", "y")
            assert y.holder is not None
            assert (y.holder.owner, y.holder.caller, y.holder.fence, y.holder.pid) == ("a1", "a1", fence, 7)
            assert y.holder.expires_at == pytest.approx(b.clock.now() + SESSION, abs=0.01)
            assert [waiter.owner for waiter in y.waiters] == ["b1", "c1"]
            assert y.waiters[0].gives_up_at is None
            assert y.waiters[1].gives_up_at == pytest.approx(b.clock.now() + 20, abs=0.01)
            assert len(await b.locks.list(limit=1)) == 1

    async def test_a_look_tells_the_living_from_the_dead(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            await b.granted("a1", ttl=300.0)
            await b.waiting("b1", wait=3.0)
            await b.waiting("c1")
            b.clock.advance(5)
            (view,) = await b.locks.list("k")
            assert [waiter.live for waiter in view.waiters] == [False, True]

            b.clock.advance(SESSION)
            for view in await b.locks.list("k"):
                assert view.holder is None
                assert not any(waiter.live for waiter in view.waiters)
