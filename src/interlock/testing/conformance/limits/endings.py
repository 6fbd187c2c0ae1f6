"""How reservations end, what repeated requests do, notifications, and views."""

from __future__ import annotations

import pytest

from interlock.ports import limits
from interlock.ports.limits import (
    STALE_SECONDS,
    TURN_SECONDS,
    Finished,
    Full,
    SessionEnded,
)
from interlock.testing.clock import VirtualClock, until
from interlock.testing.conformance.limits.driver import SESSION, LimitSuite, pace, slots

__all__ = ["LimitEndingConformance"]


class LimitEndingConformance(LimitSuite):
    """Idempotence, sessions, staleness, bounds and views."""

    async def test_asking_again_is_harmless_for_one_that_has_started(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            uses = (slots(2, "s"), pace(2, 60.0, "p"))
            first = await b.started("a1", *uses)
            await b.let_pass(5)
            for start in (True, False):
                again = await b.turn("a1", *uses, start=start)
                assert (again.started, again.at) == (True, first.at)

            assert await b.at_work("s") == ["a1"]
            assert await b.at_work("p") == ["a1"]

    async def test_a_reservation_can_be_made_first_and_started_later(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            uses = (slots(1, "s"), pace(1, 60.0, "p"))
            made = await b.waits("a1", *uses, start=False)
            assert made.at == pytest.approx(b.now, abs=1e-6)
            assert await b.at_work("s") == []
            await b.started("a1", *uses)
            assert await b.at_work("s") == ["a1"]

    async def test_the_limits_of_a_reservation_are_those_of_its_first_request(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "x"))
            await b.waits("b1", slots(1, "x"))
            turn = await b.waits("b1", slots(7, "y"))

            assert turn.key == "x"
            assert await b.limits.list("y") == []
            await b.finish("b1")
            assert await b.in_line("x") == []

    async def test_finishing_twice_or_what_never_was_changes_nothing(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            assert await b.finish("a1") == Finished(True, True, ())
            await b.started("b1", slots(1))

            assert await b.finish("a1") == Finished(False, False, ())
            assert await b.finish("c9") == Finished(False, False, ())
            assert await b.at_work() == ["b1"]

    async def test_nothing_is_kept_of_slots_that_were_given_back(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.finish("a1")
            await b.finish("b1")

            assert await b.limits.list() == []
            assert await b.limits.session_requests("a") == []

    async def test_leaving_the_line_lets_those_behind_go_ahead(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.waits("c1", slots(1))
            await b.finish("a1")
            told: list[str | None] = []
            await b.store.messages.listen("c", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)
            finished = await b.finish("b1")

            assert (finished.known, finished.started) == (True, False)
            await until(lambda: "c1" in told, what="the next waiter is notified")
            await b.started("c1", slots(1))

    async def test_an_ended_session_reserves_nothing(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            b.clock.advance(SESSION)

            assert isinstance(await b.reserve("a1", slots(1)), SessionEnded)
            assert isinstance(await b.reserve("z1", slots(1)), SessionEnded)
            assert await b.limits.list() == []

    async def test_reservations_of_a_dead_session_count_for_nothing(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(2))
            await b.started("b1", slots(2))
            await b.waits("a2", slots(2))
            await b.waits("c1", slots(2))
            await b.let_pass(SESSION, "b", "c")

            assert await b.at_work() == ["b1"]
            assert (await b.limits.turns("c", [])).owners == ("c1",)
            await b.started("c1", slots(2))
            assert await b.limits.session_requests("a") == []
            assert await b.finish("a1") == Finished(False, False, ())

    async def test_ending_a_session_frees_all_it_had_and_tells_the_next(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "x"))
            await b.waits("b1", slots(1, "x"))
            await b.started("b2", slots(1, "y"))
            await b.waits("a2", slots(1, "y"))
            await b.waits("c1", slots(1, "y"))
            told: list[str | None] = []
            await b.store.messages.listen("b", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)
            await b.store.sessions.end("a")

            await until(lambda: "b1" in told, what="the waiter behind the ended session is notified")
            await b.started("b1", slots(1, "x"))
            await b.finish("b2")
            await b.started("c1", slots(1, "y"))

    async def test_what_nobody_comes_for_vanishes_after_a_while(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.keep("a", "b", "c", seconds=3 * STALE_SECONDS)
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.waits("c1", slots(1))
            b.clock.advance(60)
            await b.waits("c1", slots(1))
            b.clock.advance(STALE_SECONDS - 60)
            assert await b.in_line() == ["b1", "c1"]
            b.clock.advance(0.000001)
            assert await b.in_line() == ["c1"]
            assert sorted((await b.limits.turns("b", ["b1"])).owners) == ["b1"]
            assert await b.limits.session_requests("b") == []
            assert await b.finish("b1") == Finished(False, False, ())
            await b.finish("a1")
            await b.started("c1", slots(1))

    async def test_what_has_started_never_gets_stale(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.keep("a", "b", seconds=3 * STALE_SECONDS)
            await b.started("a1", slots(1))
            b.clock.advance(2 * STALE_SECONDS)
            await b.store.sessions.sweep()

            await b.waits("b1", slots(1))

    async def test_one_with_a_time_is_kept_until_long_after_it(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.keep("a", "b", "c", seconds=20 * STALE_SECONDS)
            span = 3 * STALE_SECONDS
            await b.started("a1", pace(1, span))
            planned = await b.waits("b1", pace(1, span))
            b.clock.advance(span + STALE_SECONDS)
            assert [user.owner for user in (await b.view()).waiting] == ["b1"]
            b.clock.advance(1)
            assert await b.limits.list() == []
            assert planned.at is not None

    async def test_one_that_was_stale_is_made_anew_at_the_end_of_the_line(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.keep("a", "b", "c", seconds=3 * STALE_SECONDS)
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            b.clock.advance(STALE_SECONDS + 1)
            await b.waits("c1", slots(1))
            await b.waits("b1", slots(1))

            assert await b.in_line() == ["c1", "b1"]

    async def test_a_sweep_removes_what_counts_no_more_and_nothing_else(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.keep("b", "c", seconds=10 * STALE_SECONDS)
            await b.started("a1", slots(1, "dead"), pace(1, 10.0, "past"), pace(1, 9 * STALE_SECONDS, "counts"))
            await b.waits("b1", slots(1, "dead"))
            await b.started("c1", slots(1, "works"))
            b.clock.advance(2 * STALE_SECONDS)
            for _ in range(3):
                await b.store.sessions.sweep()

            assert [view.key for view in await b.limits.list()] == ["counts", "works"]
            assert await b.store.sessions.sweep() == 0
            await b.started("c2", slots(1, "dead"), pace(1, 10.0, "past"))
            assert not (await b.waits("c3", pace(1, 9 * STALE_SECONDS, "counts"))).started

    async def test_a_key_with_too_many_reservations_takes_no_more_and_changes_nothing(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.limit_driver(store_url) as b:
            monkeypatch.setattr(limits, "MAX_ON_A_KEY", 5)
            for number in range(5):
                await b.turn(f"a{number}", slots(2))
            assert await b.reserve("b1", slots(2), slots(2, "other")) == Full("k")
            assert await b.limits.list("other") == []
            assert await b.limits.session_requests("b") == []
            await b.finish("a4")
            await b.waits("b1", slots(2), slots(2, "other"))
            await b.turn("a3", slots(2))

    async def test_turns_name_those_who_should_ask_and_when_to_look_again(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "s"))
            await b.started("a2", pace(1, 6.0, "p"))
            await b.waits("b1", slots(1, "s"))
            await b.waits("b2", slots(1, "s"))
            await b.waits("b3", pace(1, 6.0, "p"))
            before = await b.limits.turns("b", ["b1", "b2", "b3"])
            assert before.owners == ()
            assert before.recheck_in == pytest.approx(6, abs=0.001)
            await b.finish("a1")
            after = await b.limits.turns("b", ["b1", "b9"])
            assert sorted(after.owners) == ["b1", "b9"]
            assert after.recheck_in == pytest.approx(6, abs=0.001)
            await b.let_pass(6)
            assert sorted((await b.limits.turns("b", [])).owners) == ["b1", "b3"]
            await b.let_pass(TURN_SECONDS - 6)
            assert sorted((await b.limits.turns("b", [])).owners) == ["b1", "b2", "b3"]
            assert (await b.limits.turns("c", [])).owners == ()
            assert await b.limits.turns("nobody", ["x"]) == (("x",), float("inf"))

    async def test_turns_of_those_who_wait_say_when_a_predecessor_may_have_died(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            b.clock.advance(4)
            await b.keep("b", "c")

            turns = await b.limits.turns("b", ["b1"])
            assert turns.owners == ()
            assert turns.recheck_in == pytest.approx(SESSION - 4, abs=0.001)
            b.clock.advance(SESSION - 4)
            assert (await b.limits.turns("b", ["b1"])).owners == ("b1",)

    async def test_turns_change_nothing(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.finish("a1")
            for _ in range(3):
                assert (await b.limits.turns("b", ["b1"])).owners == ("b1",)
            assert await b.in_line() == ["b1"]

    async def test_session_requests_are_all_that_a_session_has_not_finished(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "x"), pace(1, 60.0, "y"))
            await b.waits("a2", slots(1, "x"))
            await b.started("a3", pace(9, 60.0, "z"))
            await b.finish("a3")
            await b.started("b1", slots(1, "w"))
            session_requests = sorted(await b.limits.session_requests("a"), key=lambda one: one[1])

            assert [owner for _, owner in session_requests] == ["a1", "a2"]
            assert session_requests[0][0] in {"x", "y"}
            assert session_requests[1][0] == "x"

    async def test_a_look_shows_who_is_at_work_and_who_waits_in_order(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            await b.started("a1", slots(1, "s"), pace(1, 60.0, "p"))
            await b.let_pass(2)
            await b.waits("b1", slots(1, "s"))
            await b.waits("c1", slots(1, "s"), pace(1, 60.0, "p"))
            p, s = await b.limits.list()

            assert (p.key, s.key) == ("p", "s")
            (user,) = s.started
            assert user[:8] == ("a1", "caller-a1", "a", "host-a", 7, "test", 1, 0.0)
            assert user.asked_at == pytest.approx(begun, abs=1e-6)
            assert user.at == pytest.approx(begun, abs=1e-6)
            assert (user.started, user.waits_for) == (True, "")
            assert [(u.owner, u.at, u.started, u.waits_for) for u in s.waiting] == [
                ("b1", None, False, "s"),
                ("c1", pytest.approx(begun + 60, abs=1e-5), False, ""),
            ]
            assert [(u.owner, u.per) for u in p.started] == [("a1", 60.0)]
            assert [u.asked_at for u in s.waiting] == [pytest.approx(begun + 2, abs=1e-6)] * 2
            assert (s.max_count, s.per, p.max_count, p.per) == (1, 0.0, 1, 60.0)
            assert s.seen_at == pytest.approx(b.now, abs=1e-6)
            assert s.free_since is None
            assert len(await b.limits.list(limit=1)) == 1
            await b.finish("a1")
            assert (await b.view("s")).free_since == pytest.approx(b.now, abs=1e-6)

    async def test_keys_are_any_text(self, store_url: str) -> None:
        keys = ["a'b\"c", "100%", "ключ/鍵/🔑", "x" * 512, " ", "a\nb\tc", "{}[]$1:name", "\\", "Z", "a", "_"]
        async with self.limit_driver(store_url) as b:
            await b.started("a1", *(slots(1, key) for key in keys))
            waiting = await b.waits("b1", *(slots(1, key) for key in reversed(keys)))

            assert [view.key for view in await b.limits.list()] == sorted(keys)
            assert waiting.key == min(keys)
            await b.finish("a1")
            await b.started("b1", *(slots(1, key) for key in keys))

    async def test_namespaces_do_not_see_one_another(self, store_url: str) -> None:
        clock = VirtualClock()
        async with (
            self.limit_driver(store_url, clock, namespace=f"{self.namespace}-one") as one,
            self.limit_driver(store_url, clock, namespace=f"{self.namespace}-two") as two,
        ):
            await one.started("a1", slots(1), pace(1, 60.0, "p"))
            await two.started("b1", slots(1), pace(1, 60.0, "p"))

            assert await one.at_work() == ["a1"]
            assert await two.at_work() == ["b1"]
