"""The locks and sessions ports, step by step on a clock that the test moves: exact, with nothing left to timing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.errors import LeaseLostError
from interlock.ports.locks import (
    CLAIM_SECONDS,
    Busy,
    Deadlocked,
    Granted,
    Held,
    Left,
    SessionEnded,
    Wait,
    Waiting,
    Want,
)
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock, until
from interlock.testing.conformance.base import StoreSuite, needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store

__all__ = ["LockStoreConformance"]

SESSION = 15.0


class Bench:
    """A store on a virtual clock, with sessions a, b and c begun, and asking made short."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.locks = store.locks
        self.clock = clock
        self.wants: dict[str, Want] = {}

    async def begin(self, *sessions: str, seconds: float = SESSION) -> None:
        for session in sessions:
            await self.store.sessions.begin(SessionCard(session, f"host-{session}", 7, "test"), seconds)

    async def keep(self, *sessions: str, seconds: float = SESSION) -> None:
        for session in sessions:
            assert await self.store.sessions.renew(session, seconds)

    def want(self, owner: str, key: str = "k", **changes: Any) -> Want:
        """Owner ``a1`` belongs to session ``a`` and is a party of its own unless told otherwise."""
        values: dict[str, Any] = {"party": owner, "session": owner[0], "ttl": 300.0, "wait": 600.0, "nested": False}
        want = self.wants[owner] = Want(key, owner, **(values | changes))
        return want

    async def ask(self, owner: str, key: str = "k", **changes: Any) -> Any:
        return await self.locks.ask(self.want(owner, key, **changes))

    async def granted(self, owner: str, key: str = "k", **changes: Any) -> int:
        answer = await self.ask(owner, key, **changes)
        assert isinstance(answer, Granted), answer
        return answer.fence

    async def waiting(self, owner: str, key: str = "k", **changes: Any) -> Waiting:
        answer = await self.ask(owner, key, **changes)
        assert isinstance(answer, Waiting), answer
        return answer

    async def leave(self, owner: str) -> Left:
        return await self.locks.leave(self.wants[owner])


class LockStoreConformance(StoreSuite):
    """What the locks and sessions ports promise."""

    @asynccontextmanager
    async def bench(self, url: str, clock: VirtualClock | None = None, **settings: Any) -> AsyncIterator[Bench]:
        """A fresh bench on the store."""
        clock = clock or VirtualClock()
        store = from_url(url, settings=Settings(**settings), clock=clock)
        await store.open()
        try:
            bench = Bench(store, clock)
            await bench.begin("a", "b", "c")
            yield bench
        finally:
            await store.close()

    # -- granting --------------------------------------------------------------------------------------------------

    async def test_a_free_key_is_granted_at_once_for_its_ttl(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            answer = await b.ask("a1", ttl=20.0)

            assert isinstance(answer, Granted)
            assert answer.expires_at == pytest.approx(b.clock.now() + 20, abs=0.01)

    async def test_every_fence_is_larger_than_all_before_it_across_keys(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            fences = []
            for round_ in range(5):
                for key in "xyz":
                    owner = f"a{round_}{key}"
                    fences.append(await b.granted(owner, key))
                    await b.leave(owner)

            assert fences == sorted(set(fences))

    async def test_asking_again_is_harmless_for_a_holder(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            fence = await b.granted("a1", ttl=10.0)
            b.clock.advance(4)
            again = await b.ask("a1", ttl=10.0)

            assert again.fence == fence
            assert again.expires_at == pytest.approx(b.clock.now() + 10, abs=0.01)

    async def test_asking_again_is_harmless_for_a_waiter(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.waiting("c1")
            await b.waiting("b1")
            (view,) = await b.locks.look("k")

            assert [waiter.owner for waiter in view.waiters] == ["b1", "c1"]

    async def test_a_waiter_is_told_when_its_holder_may_have_died(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", ttl=20.0)
            assert (await b.waiting("b1")).look_again == pytest.approx(SESSION, abs=0.01)
            b.clock.advance(12)
            await b.keep("a", "b", "c")
            assert (await b.waiting("c1")).look_again == pytest.approx(8, abs=0.01)

    async def test_who_does_not_want_to_wait_is_told_at_once_and_leaves_nothing(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            answer = await b.ask("b1", wait=0)
            (view,) = await b.locks.look("k")

            assert isinstance(answer, Busy)
            assert answer.holder is not None
            assert (answer.holder.owner, answer.holder.host, answer.holder.pid) == ("a1", "host-a", 7)
            assert view.waiters == ()

    async def test_an_ended_session_is_granted_nothing(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            b.clock.advance(SESSION)

            assert isinstance(await b.ask("a1"), SessionEnded)
            assert isinstance(await b.ask("z1"), SessionEnded)
            assert await b.locks.look() == []

    async def test_keys_are_any_text(self, store_url: str) -> None:
        keys = ["a'b\"c", "100%", "ключ/鍵/🔑", "x" * 512, " ", "a\nb\tc", "{}[]$1:name", "\\"]
        async with self.bench(store_url) as b:
            for number, key in enumerate(keys):
                await b.granted(f"a{number}", key)
            views = await b.locks.look()

            assert sorted(view.key for view in views) == sorted(keys)

    async def test_namespaces_do_not_see_one_another(self, store_url: str) -> None:
        clock = VirtualClock()
        async with (
            self.bench(store_url, clock, namespace="one") as one,
            self.bench(store_url, clock, namespace="two") as two,
        ):
            await one.granted("a1")
            await two.granted("b1")

            assert [view.holder.owner for view in await one.locks.look() if view.holder] == ["a1"]
            assert [view.holder.owner for view in await two.locks.look() if view.holder] == ["b1"]

    # -- order -----------------------------------------------------------------------------------------------------

    async def test_waiters_are_served_in_the_order_they_asked(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            owners = ["b1", "c1", "a2", "b2", "c2"]
            for owner in owners:
                await b.waiting(owner)
            served = []
            holder = "a1"
            for _ in owners:
                left = await b.leave(holder)
                assert left.held
                assert left.next_owner is not None
                holder = left.next_owner
                served.append(holder)
                await b.granted(holder)

            assert served == owners

    async def test_a_free_key_is_kept_for_the_first_in_its_queue(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")

            assert isinstance(await b.ask("c1", wait=0), Busy)
            await b.waiting("c2")
            await b.granted("b1")

    async def test_a_waiter_is_never_granted_while_it_does_not_ask(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")
            (view,) = await b.locks.look("k")

            assert view.holder is None
            assert [waiter.owner for waiter in view.waiters] == ["b1"]

    async def test_a_key_handed_over_within_a_session_is_granted_in_order_with_a_larger_fence(
        self, store_url: str
    ) -> None:
        async with self.bench(store_url) as b:
            first = await b.granted("a1")
            await b.waiting("a2", ttl=20.0)
            await b.waiting("b1")
            left = await b.leave("a1")

            assert (left.held, left.next_owner) == (True, "a2")
            fence = await b.granted("a2", ttl=20.0)
            assert fence > first
            if left.handed is not None:  # a store may; then asking again changes nothing
                assert left.handed.fence == fence
                assert left.handed.expires_at == pytest.approx(b.clock.now() + 20, abs=0.01)
            assert (await b.leave("a2")).handed is None
            (view,) = await b.locks.look("k")
            assert view.holder is None
            assert [waiter.owner for waiter in view.waiters] == ["b1"]

    async def test_a_waiter_that_left_is_not_served(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.waiting("c1")
            await b.leave("b1")

            assert (await b.leave("a1")).next_owner == "c1"

    async def test_when_the_first_of_a_free_key_leaves_the_second_is_next(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.waiting("c1")
            await b.leave("a1")

            assert (await b.leave("b1")).next_owner == "c1"
            await b.granted("c1")

    async def test_a_waiter_whose_time_is_over_is_passed_over(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1", wait=5.0)
            await b.waiting("c1")
            b.clock.advance(6)

            assert (await b.leave("a1")).next_owner == "c1"
            await b.granted("c1")

    async def test_a_waiter_whose_session_ended_is_passed_over(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.waiting("c1")
            b.clock.advance(10)
            await b.keep("a", "c")
            b.clock.advance(6)

            assert (await b.leave("a1")).next_owner == "c1"
            await b.granted("c1")

    async def test_a_first_waiter_that_does_not_come_lets_the_next_go_ahead_and_keeps_its_place(
        self, store_url: str
    ) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.waiting("c1")
            await b.leave("a1")
            b.clock.advance(CLAIM_SECONDS - 1)
            early = await b.waiting("c1")
            b.clock.advance(1)

            assert early.look_again == pytest.approx(1, abs=0.01)
            assert (await b.locks.turns("c", [])).owners == ("c1",)
            await b.granted("c1")
            assert (await b.leave("c1")).next_owner == "b1"
            await b.granted("b1")

    # -- the end of a lease ----------------------------------------------------------------------------------------

    async def test_a_lease_that_ran_out_passes_on_with_a_larger_fence(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            first = await b.granted("a1", ttl=5.0)
            waiting = await b.waiting("b1")
            b.clock.advance(5)

            assert waiting.look_again == pytest.approx(5, abs=0.01)
            assert await b.granted("b1") > first

    async def test_a_dead_session_frees_its_leases_long_before_their_ttl(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", ttl=300.0)
            await b.waiting("b1")
            b.clock.advance(10)
            await b.keep("b")
            b.clock.advance(SESSION - 10)

            assert (await b.locks.turns("b", [])).owners == ("b1",)
            await b.granted("b1")

    async def test_renewing_gives_the_full_ttl_again_to_all_that_live(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", ttl=10.0)
            await b.granted("a2", "y", ttl=2.0)
            b.clock.advance(4)
            renewed = await b.locks.renew([Held("x", "a1", 10.0), Held("y", "a2", 2.0), Held("z", "a3", 9.0)])

            by_owner = {one.owner: one.expires_at for one in renewed}
            assert by_owner == {"a1": pytest.approx(b.clock.now() + 10, abs=0.01), "a2": None, "a3": None}
            assert all(one.why for one in renewed if one.expires_at is None)

    async def test_renewing_never_brings_back_what_has_ended(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", ttl=5.0)
            b.clock.advance(5)
            (renewed,) = await b.locks.renew([Held("k", "a1", 5.0)])
            assert renewed.expires_at is None

            await b.granted("b1", "other", ttl=300.0)
            b.clock.advance(SESSION)
            (renewed,) = await b.locks.renew([Held("other", "b1", 300.0)])
            assert renewed.expires_at is None

    async def test_leaving_says_whether_the_lease_was_held_to_the_end(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", ttl=5.0)
            b.clock.advance(6)
            late = await b.leave("a1")
            await b.granted("b1", "other")
            in_time = await b.leave("b1")

            assert not late.held
            assert "expired" in late.why
            assert in_time == Left(True, "", None)

    async def test_leaving_twice_or_as_a_stranger_changes_nothing(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.leave("a1")
            await b.granted("b1")
            again = await b.leave("a1")
            stranger = await b.locks.leave(b.want("c9"))
            (view,) = await b.locks.look("k")

            assert not again.held
            assert not stranger.held
            assert view.holder is not None
            assert view.holder.owner == "b1"

    async def test_nothing_is_kept_of_a_key_that_was_given_back(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")
            await b.leave("b1")

            assert await b.locks.look() == []
            assert await b.locks.belongings("a") == []

    # -- sessions --------------------------------------------------------------------------------------------------

    async def test_a_session_that_ended_cannot_be_renewed(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            b.clock.advance(SESSION)
            assert not await b.store.sessions.renew("a", SESSION)
            assert not await b.store.sessions.renew("nobody", SESSION)

            await b.begin("d")
            await b.store.sessions.end("d")
            assert not await b.store.sessions.renew("d", SESSION)

    async def test_ending_a_session_frees_all_it_had_and_tells_the_next(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x")
            await b.granted("b1", "y")
            await b.waiting("b2", "x")
            await b.waiting("a2", "y")
            await b.waiting("c1", "y")
            told: list[str | None] = []
            await b.locks.listen("b", told.append, lambda *_: None)
            b.locks.watch(waiting=True)
            await b.store.sessions.end("a")

            await until(lambda: "b2" in told, what="the waiter behind the ended session is told")
            await b.granted("b2", "x")
            assert (await b.leave("b1")).next_owner == "c1"

    async def test_ending_a_session_twice_is_harmless(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1")
            await b.store.sessions.end("a")
            await b.store.sessions.end("a")

            await b.granted("b1")

    async def test_old_sessions_are_swept(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "held-to-death")
            b.clock.advance(2 * 3600)
            await b.begin("d")
            swept = await b.store.sessions.sweep()

            assert swept >= 3
            assert await b.locks.belongings("a") == []
            await b.granted("d1", "held-to-death")

    async def test_belongings_are_all_leases_and_places_of_a_session(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x")
            await b.granted("b1", "y")
            await b.waiting("a2", "y")

            assert sorted(await b.locks.belongings("a")) == [("x", "a1"), ("y", "a2")]

    # -- messages and turns ----------------------------------------------------------------------------------------

    async def test_the_next_waiter_is_told_when_a_key_comes_free(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            told: list[str | None] = []
            await b.locks.listen("b", told.append, lambda *_: None)
            b.locks.watch(waiting=True)
            await b.granted("a1")
            await b.waiting("b1")
            await b.leave("a1")

            await until(lambda: "b1" in told, what="b1 is told")

    async def test_turns_name_those_who_should_ask_and_when_to_look_again(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", ttl=8.0)
            await b.waiting("b1", "x")
            await b.waiting("b2", "x")
            before = await b.locks.turns("b", ["b1", "b2"])
            await b.leave("a1")
            after = await b.locks.turns("b", ["b1", "b2", "b3"])

            assert before.owners == ()
            assert before.look_again == pytest.approx(8, abs=0.01)
            assert sorted(after.owners) == ["b1", "b3"]
            assert (await b.locks.turns("c", [])).owners == ()

    # -- force -----------------------------------------------------------------------------------------------------

    async def test_force_takes_the_key_tells_the_holder_why_and_the_next_that_it_is_free(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            lost: list[tuple[str, str]] = []
            told: list[str | None] = []
            await b.granted("a1")
            await b.waiting("b1")
            await b.locks.listen("a", told.append, lambda owner, why: lost.append((owner, why)))
            holder = await b.locks.force("k", "eva released it by force: stuck")

            assert holder is not None
            assert holder.owner == "a1"
            await until(lambda: lost, what="the old holder is told")
            assert lost[0] == ("a1", "eva released it by force: stuck")
            (renewed,) = await b.locks.renew([Held("k", "a1", 300.0)])
            assert renewed.expires_at is None
            assert "eva" in renewed.why
            await b.granted("b1")

    async def test_force_on_a_key_nobody_holds_does_nothing(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "expired", ttl=1.0)
            b.clock.advance(2)

            assert await b.locks.force("free", "why") is None
            assert await b.locks.force("expired", "why") is None

    # -- looking ---------------------------------------------------------------------------------------------------

    async def test_a_look_shows_holders_and_queues_in_order(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            fence = await b.granted("a1", "y", ttl=30.0)
            await b.waiting("b1", "y", wait=None)
            await b.waiting("c1", "y", wait=20.0)
            await b.granted("c2", "x")
            x, y = await b.locks.look()

            assert (x.key, y.key) == ("x", "y")
            assert y.holder is not None
            assert (y.holder.owner, y.holder.party, y.holder.fence, y.holder.pid) == ("a1", "a1", fence, 7)
            assert y.holder.expires_at == pytest.approx(b.clock.now() + SESSION, abs=0.01)
            assert [waiter.owner for waiter in y.waiters] == ["b1", "c1"]
            assert y.waiters[0].gives_up_at is None
            assert y.waiters[1].gives_up_at == pytest.approx(b.clock.now() + 20, abs=0.01)
            assert len(await b.locks.look(limit=1)) == 1

    async def test_a_look_tells_the_living_from_the_dead(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", ttl=300.0)
            await b.waiting("b1", wait=3.0)
            await b.waiting("c1")
            b.clock.advance(5)
            (view,) = await b.locks.look("k")
            assert [waiter.live for waiter in view.waiters] == [False, True]

            b.clock.advance(SESSION)
            for view in await b.locks.look("k"):
                assert view.holder is None
                assert not any(waiter.live for waiter in view.waiters)

    # -- deadlocks -------------------------------------------------------------------------------------------------

    async def test_a_holder_that_asks_for_its_own_key_is_told(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", party="P")
            answer = await b.ask("a2", party="P", nested=True)

            assert answer == Deadlocked((Wait("P", "k", "P"),))

    @pytest.mark.parametrize("size", [2, 3, 5])
    async def test_whoever_closes_a_cycle_is_told_the_whole_of_it(self, store_url: str, size: int) -> None:
        async with self.bench(store_url) as b:
            for i in range(size):
                await b.granted(f"a{i}", f"k{i}", party=f"P{i}")
            for i in range(size - 1):
                await b.waiting(f"b{i}", f"k{i + 1}", party=f"P{i}", nested=True)
            last = size - 1
            answer = await b.ask(f"b{last}", "k0", party=f"P{last}", nested=True)

            assert isinstance(answer, Deadlocked)
            around = [last, *range(size)]
            assert answer.cycle == tuple(
                Wait(f"P{party}", f"k{(party + 1) % size}", f"P{(party + 1) % size}") for party in around[:size]
            )

    async def test_the_one_that_was_told_is_not_in_the_queue_and_the_rest_go_on(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", party="P")
            await b.granted("b1", "y", party="Q")
            await b.waiting("a2", "y", party="P", nested=True)
            assert isinstance(await b.ask("b2", "x", party="Q", nested=True), Deadlocked)

            assert (await b.leave("b1")).next_owner == "a2"
            await b.granted("a2", "y", party="P", nested=True)
            (x, _) = await b.locks.look()
            assert x.waiters == ()

    async def test_a_wait_that_closes_no_cycle_is_let_be(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", party="P")
            await b.granted("b1", "y", party="Q")
            await b.granted("c1", "z", party="R")
            await b.waiting("a2", "y", party="P", nested=True)
            await b.waiting("c2", "y", party="R", nested=True)
            await b.waiting("c3", "x", party="S")

            assert isinstance(await b.ask("b2", "free", party="Q", nested=True), Granted)

    async def test_the_dead_are_no_part_of_a_cycle(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", party="P", ttl=300.0)
            await b.granted("b1", "y", party="Q", ttl=2.0)
            await b.waiting("a2", "y", party="P", nested=True)
            b.clock.advance(3)

            assert isinstance(await b.ask("c1", "x", party="Q", nested=True), Waiting)

    async def test_a_party_may_wait_for_several_keys_at_once(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", "x", party="P")
            await b.granted("b1", "y", party="Q")
            await b.granted("c1", "z", party="R")
            await b.waiting("a2", "z", party="P", nested=True)
            await b.waiting("a3", "y", party="P", nested=True)
            answer = await b.ask("b2", "x", party="Q", nested=True)

            assert answer == Deadlocked((Wait("Q", "x", "P"), Wait("P", "y", "Q")))

    async def test_who_does_not_wait_closes_no_cycle(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            await b.granted("a1", party="P")

            assert isinstance(await b.ask("a2", party="P", nested=True, wait=0), Busy)

    # -- fenced transactions ---------------------------------------------------------------------------------------

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_write_commits_while_the_lease_is_live(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            fence = await b.granted("a1")
            async with b.locks.fenced("k", "a1", fence) as tx:
                await tx.execute("create table target (value integer)")
                await tx.execute("insert into target (value) values (1)")
            async with b.locks.fenced("k", "a1", fence) as tx:
                rows = await tx.fetch("select value from target")

            assert [tuple(row) for row in rows] == [(1,)]

    @needs(Capability.TRANSACTIONS)
    async def test_a_stale_fenced_write_is_refused(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            old = await b.granted("a1", ttl=5.0)
            b.clock.advance(6)
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "a1", old):
                    pytest.fail("the body must not run")  # pragma: no cover
            await b.granted("b1")
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "a1", old):
                    pytest.fail("the body must not run")  # pragma: no cover
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "b1", old):
                    pytest.fail("the body must not run")  # pragma: no cover

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_write_that_fails_leaves_nothing(self, store_url: str) -> None:
        async with self.bench(store_url) as b:
            fence = await b.granted("a1")
            async with b.locks.fenced("k", "a1", fence) as tx:
                await tx.execute("create table target (value integer)")
            with pytest.raises(RuntimeError, match="on purpose"):
                async with b.locks.fenced("k", "a1", fence) as tx:
                    await tx.execute("insert into target (value) values (1)")
                    raise RuntimeError("on purpose")
            async with b.locks.fenced("k", "a1", fence) as tx:
                assert list(await tx.fetch("select value from target")) == []
