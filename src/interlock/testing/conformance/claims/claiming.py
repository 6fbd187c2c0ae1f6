"""Which claimant gets a new claim, and what the others get."""

from __future__ import annotations

import pytest

from interlock.ports.claims import ClaimState, SessionEnded
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.claims.driver import KEEP, LEASE, SESSION, ClaimSuite
from interlock.testing.conformance.driver import ANN

__all__ = ["ClaimingConformance"]


class ClaimingConformance(ClaimSuite):
    """One holder at a time, growing attempts and fences, and the correct state for all other claimants."""

    async def test_a_key_that_nobody_claimed_is_new_and_held_for_its_lease(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            answer = await b.claimed("a1", lease=20.0)

            assert answer.attempt == 1
            assert answer.expires_at == pytest.approx(b.clock.now() + 20, abs=0.01)

    async def test_while_its_holder_works_others_hear_that_it_is_in_progress_and_with_whom(
        self, store_url: str
    ) -> None:
        async with self.claim_driver(store_url) as b:
            mine = await b.claimed("a1", lease=10.0, keep=100.0)
            begun = b.clock.now()
            b.clock.advance(4)
            view = await b.known("b1")

            assert (view.key, view.state, view.attempt, view.fence) == ("k", ClaimState.IN_PROGRESS, 1, mine.fence)
            assert (view.owner, view.session, view.host, view.pid, view.program) == ("a1", "a", "host-a", 7, "test")
            assert view.claimed_at == pytest.approx(begun, abs=0.01)
            assert view.expires_at == pytest.approx(begun + 10, abs=0.01)
            assert view.kept_until == pytest.approx(begun + 110, abs=0.01)
            assert view.seen_at == pytest.approx(begun + 4, abs=0.01)
            assert (view.finished_at, view.retry_at, view.error, view.result) == (None, None, "", None)
            assert view.live

    async def test_a_claim_in_progress_ends_with_its_holders_session(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", lease=300.0)

            assert (await b.known("b1")).expires_at == pytest.approx(b.clock.now() + SESSION, abs=0.01)

    async def test_what_is_done_is_known_as_done_with_its_result(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            mine = await b.claimed("a1")
            b.clock.advance(5)
            await b.done("a1", result='{"id": 7}', keep=50.0)
            finished = b.clock.now()
            view = await b.known("b1")

            assert (view.state, view.owner, view.fence, view.result) == (ClaimState.DONE, "a1", mine.fence, '{"id": 7}')
            assert view.finished_at == pytest.approx(finished, abs=0.01)
            assert view.kept_until == pytest.approx(finished + 50, abs=0.01)
            assert (view.expires_at, view.retry_at, view.error, view.live) == (None, None, "", False)

    async def test_what_failed_is_known_as_failed_until_it_is_due(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            first = await b.claimed("a1")
            await b.failed("a1", error="ValueError: no", retry_in=8.0, keep=50.0)
            finished = b.clock.now()
            b.clock.advance(7)
            view = await b.known("b1")

            assert (view.state, view.error, view.result) == (ClaimState.FAILED, "ValueError: no", None)
            assert view.finished_at == pytest.approx(finished, abs=0.01)
            assert view.retry_at == pytest.approx(finished + 8, abs=0.01)
            assert view.kept_until == pytest.approx(finished + 58, abs=0.01)
            assert view.expires_at is None
            b.clock.advance(1)
            again = await b.claimed("b1")
            assert again.attempt == 2
            assert again.fence > first.fence

    async def test_a_new_attempt_shows_nothing_of_the_last_one(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1")
            await b.failed("a1", error="no")
            b.clock.advance(1)
            await b.claimed("b1", lease=10.0)
            view = await b.view()

            assert (view.state, view.owner, view.session, view.host) == (ClaimState.IN_PROGRESS, "b1", "b", "host-b")
            assert (view.finished_at, view.retry_at, view.error, view.result) == (None, None, "", None)
            assert view.claimed_at == pytest.approx(b.clock.now(), abs=0.01)

    async def test_one_whose_lease_ended_can_be_claimed(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            first = await b.claimed("a1", lease=5.0)
            b.clock.advance(4.9)
            await b.known("b1")
            b.clock.advance(0.1)
            second = await b.claimed("b1")

            assert second.attempt == 2
            assert second.fence > first.fence
            assert (await b.known("a2")).owner == "b1"

    async def test_one_whose_holders_session_died_can_be_claimed_long_before_its_lease_ends(
        self, store_url: str
    ) -> None:
        async with self.claim_driver(store_url) as b:
            first = await b.claimed("a1", lease=300.0)
            await b.let_pass(SESSION, "b")
            second = await b.claimed("b1")

            assert second.attempt == 2
            assert second.fence > first.fence

    async def test_one_whose_holders_session_was_ended_can_be_claimed_at_once(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", lease=300.0)
            await b.store.sessions.end("a")

            assert not (await b.view()).live
            assert (await b.claimed("b1")).attempt == 2

    async def test_what_a_session_settled_outlives_it(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "done")
            await b.done("a1", "done")
            await b.claimed("a2", "failed")
            await b.failed("a2", "failed", retry_in=600.0)
            await b.store.sessions.end("a")

            assert (await b.known("b1", "done")).state is ClaimState.DONE
            assert (await b.known("b2", "failed")).state is ClaimState.FAILED

    async def test_who_held_it_is_known_long_after_its_session_is_forgotten(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "held to death", keep=1e6)
            await b.claimed("a2", "done", keep=1e6)
            await b.done("a2", "done", keep=1e6)
            b.clock.advance(2 * 3600)
            await b.store.sessions.sweep()
            views = await b.claims.list()

            assert [(view.host, view.pid, view.program) for view in views] == [("host-a", 7, "test")] * 2
            assert not any(view.live for view in views)
            assert views[1].expires_at is not None
            assert views[1].expires_at <= views[1].seen_at

    async def test_one_whose_time_to_be_kept_is_over_is_new_again_with_a_larger_fence(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.begin("d", seconds=1e6)
            fences = [(await b.claimed("d1", key, keep=20.0, lease=10.0)).fence for key in ("done", "failed", "dead")]
            await b.done("d1", "done", keep=20.0)
            await b.failed("d1", "failed", retry_in=5.0, keep=20.0)
            b.clock.advance(19)
            assert (await b.known("d2", "done")).state is ClaimState.DONE
            b.clock.advance(1)
            assert (await b.claimed("d2", "done")).attempt == 1
            b.clock.advance(4)
            assert {view.key for view in await b.claims.list()} == {"done", "failed", "dead"}
            b.clock.advance(1)
            failed = await b.claimed("d2", "failed")
            assert {view.key for view in await b.claims.list()} == {"done", "failed", "dead"}
            b.clock.advance(5)
            assert {view.key for view in await b.claims.list()} == {"done", "failed"}
            dead = await b.claimed("d2", "dead")

            assert (failed.attempt, dead.attempt) == (1, 1)
            assert min(failed.fence, dead.fence) > max(fences)

    async def test_a_dead_holders_attempts_are_counted_for_as_long_as_the_claim_is_kept(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.begin("d", seconds=1e6)
            await b.claimed("d1", lease=10.0, keep=20.0)
            b.clock.advance(29)

            assert (await b.claimed("d2", lease=10.0, keep=20.0)).attempt == 2
            b.clock.advance(30)
            assert (await b.claimed("d3")).attempt == 1

    async def test_a_claim_still_to_be_kept_is_never_dropped(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.begin("d", seconds=1e9)
            await b.claimed("d1", "done", keep=1e6)
            await b.done("d1", "done", keep=1e6)
            await b.claimed("d1", "working", lease=1e6)
            b.clock.advance(1e6 - 1)
            await b.store.sessions.sweep()

            assert (await b.known("d2", "done")).state is ClaimState.DONE
            assert (await b.known("d2", "working")).live

    async def test_who_holds_it_is_granted_it_again_with_the_same_fence_and_a_new_expiry(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a0", lease=5.0)
            b.clock.advance(5)
            first = await b.claimed("a1", lease=10.0)
            b.clock.advance(4)
            again = await b.claimed("a1", lease=10.0, keep=KEEP)

            assert (again.fence, again.attempt) == (first.fence, 2)
            assert again.expires_at == pytest.approx(b.clock.now() + 10, abs=0.01)
            assert (await b.view()).kept_until == pytest.approx(b.clock.now() + 10 + KEEP, abs=0.01)

    async def test_an_owner_whose_lease_ended_begins_a_new_attempt(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            first = await b.claimed("a1", lease=5.0)
            b.clock.advance(5)
            second = await b.claimed("a1", lease=5.0)

            assert second.attempt == 2
            assert second.fence > first.fence

    async def test_an_owner_that_settled_it_hears_so(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1")
            await b.done("a1")

            assert (await b.known("a1")).state is ClaimState.DONE

    async def test_an_ended_session_claims_nothing_and_changes_nothing(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            await b.claimed("a1", "due")
            await b.failed("a1", "due")
            await b.claimed("a1", "held", lease=300.0)
            await b.let_pass(SESSION, "b")
            before = await b.claims.list()

            for key in ("new", "due", "held"):
                assert isinstance(await b.claim("a1", key), SessionEnded)
                assert isinstance(await b.claim("z1", key), SessionEnded)
            assert await b.claims.list() == before

    async def test_claims_and_locks_of_one_key_have_nothing_to_do_with_each_other(self, store_url: str) -> None:
        async with self.claim_driver(store_url) as b:
            fences = [await b.granted("a1"), (await b.claimed("b1")).fence]
            await b.leave("a1")
            fences += [await b.granted("a2"), (await b.claimed("c1", "other")).fence]

            assert fences == sorted(set(fences))

    async def test_keys_of_claims_are_any_text(self, store_url: str) -> None:
        keys = ["a'b\"c", "100%", "ключ/鍵/🔑", "x" * 512, " ", "a\nb\tc", "{}[]$1:name", "\\"]
        async with self.claim_driver(store_url) as b:
            for number, key in enumerate(keys):
                await b.claimed(f"a{number}", key, lease=LEASE)
                assert (await b.done(f"a{number}", key, result='"ключ 🔑"')).done
                assert (await b.known("b1", key)).result == '"ключ 🔑"'

            assert [view.key for view in await b.claims.list()] == sorted(keys)

    async def test_namespaces_do_not_see_one_anothers_claims(self, store_url: str) -> None:
        clock = VirtualClock()
        async with (
            self.claim_driver(store_url, clock, namespace=f"{self.namespace}-one") as one,
            self.claim_driver(store_url, clock, namespace=f"{self.namespace}-two") as two,
        ):
            await one.claimed("a1")
            await two.claimed("b1")

            assert [view.owner for view in await one.claims.list()] == ["a1"]
            assert not (await one.done("b1")).done
            assert await one.claims.forget("other", "why", ANN) is None
            assert await one.claims.forget("k", "why", ANN) is not None
            assert [view.owner for view in await two.claims.list()] == ["b1"]
