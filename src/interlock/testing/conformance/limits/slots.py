"""Slots: how many at once, queues, and several limits together."""

from __future__ import annotations

import pytest

from interlock.ports.limits import TURN_SECONDS, Finished
from interlock.testing.clock import until
from interlock.testing.conformance.limits.driver import SESSION, LimitSuite, pace, slots

__all__ = ["SlotConformance"]


class SlotConformance(LimitSuite):
    """At most N are started and not finished; queues are served in order."""

    async def test_as_many_start_as_there_are_slots_and_no_more(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            for owner in ("a1", "b1", "a2"):
                turn = await b.started(owner, slots(3))
                assert turn.at == pytest.approx(b.now, abs=1e-6)
                assert (turn.key, turn.ahead, turn.differs) == ("", 0, "")
            waiting = await b.waits("c1", slots(3))

            assert (waiting.at, waiting.key, waiting.ahead) == (None, "k", 0)
            assert await b.at_work() == ["a1", "b1", "a2"]

    async def test_a_finished_one_makes_room_for_one(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.waits("c1", slots(1))

            assert await b.finish("a1") == Finished(True, True, ())
            await b.started("b1", slots(1))
            await b.waits("c1", slots(1))

    async def test_a_line_is_served_in_the_order_of_the_first_request(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a0", slots(1))
            owners = ["b1", "c1", "a2", "b2", "c2"]
            for place, owner in enumerate(owners):
                assert (await b.waits(owner, slots(1))).ahead == place
            for owner in reversed(owners):
                await b.waits(owner, slots(1))
            assert await b.in_line() == owners
            at_work = "a0"
            for owner in owners:
                await b.finish(at_work)
                for later in owners[owners.index(owner) + 1 :]:
                    await b.waits(later, slots(1))
                await b.started(owner, slots(1))
                at_work = owner

    async def test_newcomers_stand_behind_those_in_line_also_when_a_slot_is_free(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.finish("a1")
            turn = await b.waits("c1", slots(1))

            assert (turn.key, turn.ahead) == ("k", 1)
            assert turn.recheck_in == pytest.approx(TURN_SECONDS, abs=0.001)
            await b.started("b1", slots(1))

    async def test_several_free_slots_belong_to_as_many_of_the_first_in_line(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            for owner in ("a1", "a2"):
                await b.started(owner, slots(2))
            for owner in ("b1", "b2", "b3"):
                await b.waits(owner, slots(2))
            await b.finish("a1")
            await b.finish("a2")

            await b.waits("b3", slots(2))
            await b.started("b2", slots(2))
            await b.waits("b3", slots(2))
            await b.started("b1", slots(2))

    async def test_who_does_not_come_for_its_slot_lets_those_behind_it_go_ahead_and_keeps_its_place(
        self, store_url: str
    ) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            for owner in ("b1", "b2", "b3"):
                await b.waits(owner, slots(1))
            await b.finish("a1")
            await b.let_pass(TURN_SECONDS - 0.001)
            await b.waits("b2", slots(1))
            await b.let_pass(0.001)
            await b.waits("b3", slots(1))
            await b.started("b2", slots(1))
            await b.finish("b2")
            assert await b.in_line() == ["b1", "b3"]
            await b.waits("b3", slots(1))
            await b.started("b1", slots(1))

    async def test_each_further_place_takes_as_long_again(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            for owner in ("b1", "b2", "b3"):
                await b.waits(owner, slots(1))
            await b.finish("a1")
            await b.let_pass(2 * TURN_SECONDS - 0.001)
            turn = await b.waits("b3", slots(1))
            assert turn.recheck_in == pytest.approx(0.001, abs=1e-5)
            await b.let_pass(0.001)
            await b.started("b3", slots(1))

    async def test_a_slot_taken_and_freed_again_is_kept_for_the_first_in_line_anew(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.waits("b2", slots(1))
            await b.finish("a1")
            await b.let_pass(TURN_SECONDS)
            await b.started("b2", slots(1))
            await b.let_pass(60)
            await b.finish("b2")

            await b.waits("b3", slots(1))
            await b.started("b1", slots(1))

    async def test_a_slot_that_a_dead_process_left_is_kept_for_the_first_in_line_since_its_death(
        self, store_url: str
    ) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1))
            await b.waits("b1", slots(1))
            await b.waits("b2", slots(1))
            await b.let_pass(SESSION + TURN_SECONDS - 0.5, "b", "c")
            await b.waits("b2", slots(1))
            await b.let_pass(0.5, "b", "c")
            await b.started("b2", slots(1))

    async def test_one_that_could_start_but_was_not_asked_to_keeps_its_turn(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            turn = await b.waits("a1", slots(1), start=False)
            assert turn.at is not None
            assert turn.at <= b.now
            assert turn.key == ""
            assert await b.in_line() == ["a1"]
            await b.waits("b1", slots(1))
            await b.let_pass(TURN_SECONDS - 1)
            await b.waits("b1", slots(1))
            await b.started("a1", slots(1))

    async def test_one_that_was_not_asked_to_start_keeps_its_turn_as_long_as_any_other(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.let_pass(60)
            await b.waits("a1", slots(1), start=False)
            await b.waits("b1", slots(1))
            await b.let_pass(TURN_SECONDS)
            await b.started("b1", slots(1))

    async def test_all_limits_are_taken_in_one_step_or_none(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "y"))
            waiting = await b.waits("b1", slots(1, "x"), slots(1, "y"), slots(1, "z"))

            assert waiting.key == "y"
            assert await b.at_work("x") == []
            for key in "xz":
                await b.started(f"c{key}", slots(1, key))

    async def test_who_is_held_up_by_one_limit_holds_nobody_up_at_another(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "busy"))
            for number in range(5):
                await b.waits(f"b{number}", slots(1, "busy"), slots(5, "idle"))

            assert await b.in_line("idle") == []
            await b.started("c1", slots(5, "idle"))

    async def test_one_stands_in_the_line_of_the_first_limit_without_room_and_moves_on(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "x"))
            await b.started("a2", slots(1, "y"))
            both = (slots(1, "x"), slots(1, "y"))
            assert (await b.waits("b1", *both)).key == "x"
            await b.waits("c1", slots(1, "x"))
            told: list[str | None] = []
            await b.store.messages.listen("c", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)
            await b.finish("a1")
            await b.waits("c1", slots(1, "x"))
            assert (await b.waits("b1", *both)).key == "y"

            assert (await b.in_line("x"), await b.in_line("y")) == (["c1"], ["b1"])
            await until(lambda: "c1" in told, what="the next waiter is notified that the slot is not taken")
            await b.started("c1", slots(1, "x"))

    async def test_who_comes_to_a_line_later_stands_where_its_first_request_puts_it(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "x"))
            await b.started("a2", slots(1, "y"))
            both = (slots(1, "x"), slots(1, "y"))
            await b.waits("b1", *both)
            await b.waits("c1", slots(1, "y"))
            await b.finish("a1")
            turn = await b.waits("b1", *both)

            assert (turn.key, turn.ahead) == ("y", 0)
            assert await b.in_line("y") == ["b1", "c1"]

    async def test_who_waits_for_its_time_stands_in_no_line(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            both = (pace(1, 60.0, "p"), slots(1, "s"))
            await b.started("a1", *both)
            await b.finish("a1")
            turn = await b.waits("b1", *both)

            assert turn.key == "p"
            assert await b.in_line("s") == []
            await b.started("c1", slots(1, "s"))

    async def test_where_processes_disagree_about_the_number_the_smaller_one_holds_and_is_told(
        self, store_url: str
    ) -> None:
        async with self.limit_driver(store_url) as b:
            assert (await b.started("a1", slots(5))).differs == ""
            assert (await b.started("a2", slots(5))).differs == ""
            small = await b.waits("b1", slots(2), slots(9, "agreed"))
            assert small.differs == "k"
            large = await b.waits("a3", slots(5))
            assert (large.differs, large.key) == ("k", "k")
            assert (await b.view()).max_count == 2
            await b.finish("b1")
            assert (await b.started("a3", slots(5))).differs == ""

    async def test_a_saturated_key_does_not_hinder_others(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(1, "busy"))
            for number in range(30):
                await b.waits(f"b{number}", slots(1, "busy"))

            await b.started("c1", slots(1, "other"))

    async def test_a_waiter_is_told_when_its_predecessor_may_have_died(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(2))
            await b.started("b1", slots(2))
            b.clock.advance(5)
            await b.keep("b", "c")

            assert (await b.waits("c1", slots(2))).recheck_in == pytest.approx(SESSION - 5, abs=0.001)

    async def test_finishing_tells_the_next_in_line_and_returns_those_of_the_same_session(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", slots(2))
            await b.started("a2", slots(2))
            await b.waits("a3", slots(2))
            await b.waits("b1", slots(2))
            told: list[str | None] = []
            await b.store.messages.listen("b", told.append, lambda *_: None)
            b.store.messages.watch(waiting=True)

            assert await b.finish("a1") == Finished(True, True, ("a3",))
            assert await b.finish("a2") == Finished(True, True, ("a3",))
            await until(lambda: "b1" in told, what="the next waiter is notified")
            await b.started("b1", slots(2))
