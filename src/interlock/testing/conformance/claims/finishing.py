"""How claims are renewed, finished, forgotten and removed."""

from __future__ import annotations

import asyncio

import pytest

from interlock.ports.claims import ClaimFilter, ClaimFinished, ClaimState, Held
from interlock.testing.clock import until
from interlock.testing.conformance.claims.driver import KEEP, SESSION, ClaimSuite
from interlock.testing.conformance.driver import ANN

__all__ = ["SettlingConformance"]


class SettlingConformance(ClaimSuite):
    """The end of a claim."""

    # -- renewing --------------------------------------------------------------------------------------------------

    async def test_renewing_gives_the_full_lease_again_to_all_that_live(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "x", lease=10.0, keep=100.0)
            await b.claimed("a2", "y", lease=2.0)
            b.clock.advance(4)
            renewed = await b.claims.renew([Held("x", "a1", 10.0), Held("y", "a2", 2.0), Held("z", "a3", 9.0)])

            by_owner = {one.owner: one.expires_at for one in renewed}
            assert by_owner == {"a1": pytest.approx(b.clock.now() + 10, abs=0.01), "a2": None, "a3": None}
            assert all(one.why for one in renewed if one.expires_at is None)
            view = await b.view("x")
            assert view.expires_at == pytest.approx(b.clock.now() + 10, abs=0.01)
            assert view.kept_until == pytest.approx(b.clock.now() + 110, abs=0.01)

    async def test_renewing_nothing_is_harmless(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            assert list(await b.claims.renew([])) == []

    async def test_renewing_never_brings_a_claim_back(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "expired", lease=5.0)
            await b.claimed("a2", "done")
            await b.done("a2", "done")
            await b.claimed("a3", "taken", lease=5.0)
            b.clock.advance(5)
            await b.claimed("b1", "taken")
            held = [Held("expired", "a1", 5.0), Held("done", "a2", 5.0), Held("taken", "a3", 5.0)]
            renewed = {one.owner: one for one in await b.claims.renew(held)}

            assert [one.expires_at for one in renewed.values()] == [None] * 3
            assert "expired" in renewed["a1"].why
            assert "finished" in renewed["a2"].why
            assert "claimed again" in renewed["a3"].why
            assert (await b.view("done")).state is ClaimState.DONE
            assert (await b.view("taken")).owner == "b1"

    async def test_a_claim_does_not_outlive_its_session_by_being_renewed(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", lease=300.0)
            b.clock.advance(SESSION)
            (renewed,) = await b.claims.renew([Held("k", "a1", 300.0)])

            assert renewed.expires_at is None

    # -- finishing --------------------------------------------------------------------------------------------------

    async def test_settling_says_that_it_was_the_settlers(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "x")
            await b.claimed("a2", "y")

            assert await b.done("a1", "x") == ClaimFinished(True, "")
            assert await b.failed("a2", "y") == ClaimFinished(True, "")

    async def test_a_late_settlement_holds_if_nobody_claimed_it_since(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "by lease", lease=5.0)
            await b.claimed("a2", "by session", lease=300.0)
            await b.claimed("b1", "by end", lease=300.0)
            await b.store.sessions.end("b")
            await b.let_pass(2 * SESSION, "c")

            assert (await b.done("a1", "by lease", result="1")).done
            assert (await b.done("a2", "by session")).done
            assert (await b.failed("b1", "by end", retry_in=10.0)).done
            assert (await b.known("c1", "by lease")).result == "1"
            assert (await b.known("c1", "by session")).state is ClaimState.DONE
            assert (await b.known("c1", "by end")).state is ClaimState.FAILED

    async def test_a_late_settlement_is_refused_if_somebody_claimed_it_since(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", lease=5.0)
            b.clock.advance(5)
            await b.claimed("b1")
            while_at_work = await b.done("a1", result="1")
            await b.done("b1", result="2")
            after_it_was_done = await b.done("a1", result="1")

            assert not while_at_work.done
            assert "claimed again" in while_at_work.why
            assert not after_it_was_done.done
            assert ((await b.view()).owner, (await b.view()).result) == ("b1", "2")

    async def test_settling_again_the_same_way_is_harmless(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "x")
            await b.done("a1", "x", result="1")
            await b.claimed("a2", "y")
            await b.failed("a2", "y", error="no", retry_in=60.0)
            before = await b.claims.list()
            b.clock.advance(5)

            assert await b.done("a1", "x", result="1") == ClaimFinished(True, "")
            assert await b.failed("a2", "y", error="no", retry_in=60.0) == ClaimFinished(True, "")
            after = await b.claims.list()
            assert [view._replace(seen_at=0.0) for view in after] == [view._replace(seen_at=0.0) for view in before]

    async def test_settling_again_another_way_is_refused(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1")
            await b.done("a1")
            finished = await b.failed("a1")

            assert not finished.done
            assert "done" in finished.why
            assert (await b.view()).state is ClaimState.DONE

    async def test_only_the_holder_settles(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1")
            stranger = await b.done("b1")
            nothing = await b.done("b1", "never claimed")

            assert (stranger.done, nothing.done) == (False, False)
            assert stranger.why
            assert nothing.why
            assert (await b.view()).live
            assert await b.claims.list("never claimed") == []

    async def test_one_whose_time_to_be_kept_is_over_cannot_be_settled(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", lease=5.0, keep=5.0)
            b.clock.advance(10)

            assert not (await b.done("a1")).done
            assert await b.claims.list() == []

    async def test_an_error_is_kept_up_to_two_thousand_characters_of_any_kind(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "long")
            await b.failed("a1", "long", error="é" * 2500)
            await b.claimed("a1", "odd")
            assert (await b.failed("a1", "odd", error="a\0b\ud800c")).done

            assert (await b.view("long")).error == "é" * 2000
            assert (await b.view("odd")).error.startswith("a")

    # -- forgetting ------------------------------------------------------------------------------------------------

    async def test_forgetting_makes_the_key_new_again_with_a_larger_fence(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            first = await b.claimed("a1")
            await b.done("a1", result="1")
            forgotten = await b.claims.forget("k", "eva forgot it: wrong", ANN)

            assert forgotten is not None
            assert (forgotten.state, forgotten.fence, forgotten.result) == (ClaimState.DONE, first.fence, "1")
            assert await b.claims.list() == []
            again = await b.claimed("b1")
            assert again.attempt == 1
            assert again.fence > first.fence

    async def test_forgetting_what_is_not_there_does_nothing(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "over", lease=5.0, keep=1.0)
            await b.claimed("a1", "twice")
            b.clock.advance(6)

            assert await b.claims.forget("never claimed", "why", ANN) is None
            assert await b.claims.forget("over", "why", ANN) is None
            assert await b.claims.forget("twice", "why", ANN) is not None
            assert await b.claims.forget("twice", "why", ANN) is None

    async def test_a_holder_whose_claim_is_forgotten_is_told_why_and_can_do_nothing_with_it(
        self, store_url: str
    ) -> None:
        async with self.claim_driver(store_url) as b:
            lost: list[tuple[str, str]] = []
            await b.claimed("a1")
            await b.claimed("a2", "finished")
            await b.done("a2", "finished")
            await b.store.messages.listen("a", lambda _: None, lambda owner, why: lost.append((owner, why)))
            await b.claims.forget("finished", "no holder is notified", ANN)
            forgotten = await b.claims.forget("k", "eva forgot it: stuck", ANN)

            assert forgotten is not None
            assert (forgotten.owner, forgotten.live) == ("a1", True)
            await until(lambda: lost, what="the holder is notified")
            assert set(lost) == {("a1", "eva forgot it: stuck")}
            (renewed,) = await b.claims.renew([Held("k", "a1", 60.0)])
            assert renewed == ("a1", None, "eva forgot it: stuck")
            assert await b.done("a1") == ClaimFinished(False, "eva forgot it: stuck")
            await b.claimed("b1")
            assert await b.done("a1") == ClaimFinished(False, "eva forgot it: stuck")
            assert (await b.view()).owner == "b1"

    # -- looking ---------------------------------------------------------------------------------------------------

    async def test_a_look_shows_claims_by_key(self, store_url: str) -> None:
        keys = ["b", "a/2", "B", "a/1", "é", "a", "🔑", "ﬀ"]
        async with self.claim_driver(store_url) as b:
            for key in keys:
                await b.claimed("a1", key)

            assert [view.key for view in await b.claims.list()] == sorted(keys)
            assert [view.key for view in await b.claims.list(limit=3)] == sorted(keys)[:3]
            assert [view.key for view in await b.claims.list("a")] == ["a"]
            assert await b.claims.list("A") == []
            assert await b.claims.list(limit=0) == []

    async def test_a_prefix_means_itself_and_nothing_else(self, store_url: str) -> None:
        keys = ["a%b/1", "a%b/2", "axb/1", "a_b/1", "a\\b/1", "a*b", "a'b", "a", "é/1", "É/1"]
        async with self.claim_driver(store_url) as b:
            for key in keys:
                await b.claimed("a1", key)

            for prefix in ("a%", "a_", "a\\", "a*", "a'", "a%b/", "a%b/2", "é", "a", "", "nothing", "a%b/22"):
                found = [view.key for view in await b.claims.list(None, ClaimFilter(prefix))]
                assert found == sorted(key for key in keys if key.startswith(prefix)), prefix
            assert [view.key for view in await b.claims.list(None, ClaimFilter("a%"), limit=1)] == ["a%b/1"]

    async def test_a_look_can_be_for_one_state(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            for key in ("d1", "d2", "f1", "p1", "p2"):
                await b.claimed("a1", key)
            await b.done("a1", "d1")
            await b.done("a1", "d2")
            await b.failed("a1", "f1")

            assert [view.key for view in await b.claims.list(None, ClaimFilter(state=ClaimState.DONE))] == ["d1", "d2"]
            assert [view.key for view in await b.claims.list(None, ClaimFilter(state=ClaimState.FAILED))] == ["f1"]
            assert [view.key for view in await b.claims.list(None, ClaimFilter(state=ClaimState.IN_PROGRESS))] == [
                "p1",
                "p2",
            ]
            assert await b.claims.list(None, ClaimFilter(state=ClaimState.NEW)) == []
            assert await b.claims.list("d1", ClaimFilter(state=ClaimState.FAILED)) == []
            assert [
                view.key for view in await b.claims.list(None, ClaimFilter("p", ClaimState.IN_PROGRESS), limit=1)
            ] == ["p1"]

    # -- removing --------------------------------------------------------------------------------------------------

    async def test_claims_whose_time_is_over_are_swept_in_bounded_steps_and_no_others(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.begin("d", seconds=1e6)
            await b.store.sessions.end("a")
            await b.store.sessions.end("b")
            await b.store.sessions.end("c")
            over = [f"over/{number}" for number in range(1100)]
            await asyncio.gather(*(b.claimed("d1", key, lease=10.0, keep=10.0) for key in over))
            await b.claimed("d1", "kept", lease=10.0, keep=KEEP)
            b.clock.advance(20)
            assert [view.key for view in await b.claims.list()] == ["kept"]
            first = await b.store.sessions.sweep()
            swept = first + await b.store.sessions.sweep() + await b.store.sessions.sweep()

            assert first <= 1000
            assert swept >= 1000  # a store may have removed a few itself
            assert [view.key for view in await b.claims.list()] == ["kept"]
            assert (await b.claimed("d2", "kept")).attempt == 2
