"""Paces: rates, cooldowns, plans and late starts."""

from __future__ import annotations

import pytest

from interlock.testing.conformance.limits.driver import SESSION, LimitSuite, pace, slots

__all__ = ["PaceConformance"]


def near(seconds: float) -> object:
    """The same microsecond, within the precision of a float."""
    return pytest.approx(seconds, abs=2e-6, rel=0)


class PaceConformance(LimitSuite):
    """Never more starts than allowed in any span; every reservation gets its time immediately."""

    async def test_as_many_start_at_once_as_the_pace_allows_and_the_rest_are_planned(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            for number in range(3):
                await b.started(f"a{number}", pace(3, 10.0))
            turns = [await b.waits(f"b{number}", pace(3, 10.0)) for number in range(7)]

            assert [turn.at for turn in turns] == [near(b.now + wait) for wait in (10, 10, 10, 20, 20, 20, 30)]
            assert {turn.key for turn in turns} == {"k"}
            assert [turn.recheck_in for turn in turns] == [near(wait) for wait in (10, 10, 10, 20, 20, 20, 30)]

    async def test_starts_exactly_the_span_apart_do_not_count_together(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 10.0))
            await b.waits("b1", pace(1, 10.0))
            await b.let_pass(9.999999)
            await b.waits("b1", pace(1, 10.0))
            await b.let_pass(0.000001)
            await b.started("b1", pace(1, 10.0))

    async def test_a_start_counts_also_when_the_work_is_over(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 10.0))
            assert (await b.finish("a1")).started
            turn = await b.waits("b1", pace(1, 10.0))

            assert turn.at == near(b.now + 10)
            assert await b.at_work() == ["a1"]
            await b.let_pass(10)
            assert await b.at_work() == []

    async def test_a_start_counts_also_when_its_process_has_died(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            both = (slots(1, "s"), pace(1, 60.0, "p"))
            begun = b.now
            await b.started("a1", *both)
            await b.let_pass(SESSION, "b", "c")

            await b.started("b1", slots(1, "s"))
            assert (await b.waits("b2", pace(1, 60.0, "p"))).at == near(begun + 60)

    async def test_a_start_counts_also_when_its_session_has_been_ended(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 60.0))
            await b.store.sessions.end("a")
            turn = await b.waits("b1", pace(1, 60.0))

            assert turn.at == near(b.now + 60)
            (user,) = (await b.view()).started
            assert (user.owner, user.host, user.pid, user.started) == ("a1", "host-a", 7, True)

    async def test_nobody_starts_before_its_time(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 10.0))
            await b.waits("b1", pace(1, 10.0))
            last = await b.waits("c1", pace(1, 10.0))
            await b.let_pass(15)

            assert (await b.waits("c1", pace(1, 10.0))).at == last.at
            await b.started("b1", pace(1, 10.0))

    async def test_asking_again_keeps_the_planned_time(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 10.0))
            first = await b.waits("b1", pace(1, 10.0))
            await b.let_pass(3)
            again = await b.waits("b1", pace(1, 10.0))

            assert again.at == first.at
            assert again.key == "k"
            assert again.recheck_in == near(7)

    async def test_what_never_started_gives_its_time_back_for_others_to_plan_with(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 10.0))
            planned = [await b.waits(owner, pace(1, 10.0)) for owner in ("b1", "b2", "b3")]
            finished = await b.finish("b2")
            turn = await b.waits("c1", pace(1, 10.0))

            assert (finished.known, finished.started) == (True, False)
            assert turn.at == planned[1].at
            assert (await b.waits("b3", pace(1, 10.0))).at == planned[2].at

    async def test_the_dead_give_back_times_they_never_used(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(1, 60.0))
            first = await b.waits("b1", pace(1, 60.0))
            await b.let_pass(SESSION, "a", "c")

            assert (await b.waits("c1", pace(1, 60.0))).at == first.at

    async def test_starting_late_moves_nobodys_plan_but_who_would_come_too_soon_is_planned_anew(
        self, store_url: str
    ) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            await b.started("a1", pace(1, 10.0))
            await b.waits("b1", pace(1, 10.0))
            await b.waits("c1", pace(1, 10.0))
            await b.let_pass(17)
            late = await b.started("b1", pace(1, 10.0))
            assert late.at == near(begun + 17)
            assert (await b.waits("c1", pace(1, 10.0))).at == near(begun + 20)
            await b.let_pass(3)
            assert (await b.waits("c1", pace(1, 10.0))).at == near(begun + 27)
            await b.let_pass(7)
            await b.started("c1", pace(1, 10.0))

    async def test_who_is_planned_anew_stays_before_those_who_asked_later(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            await b.started("a1", pace(1, 10.0))
            for owner in ("b1", "b2", "b3", "b4"):
                await b.waits(owner, pace(1, 10.0))
            await b.let_pass(19)
            await b.started("b1", pace(1, 10.0))
            await b.let_pass(1)
            assert (await b.waits("b2", pace(1, 10.0))).at == near(begun + 29)
            await b.let_pass(9)
            await b.started("b2", pace(1, 10.0))

    async def test_one_that_comes_late_to_an_idle_limit_starts_at_once(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            await b.started("a1", pace(2, 10.0))
            await b.started("a2", pace(2, 10.0))
            await b.waits("b1", pace(2, 10.0))
            await b.let_pass(300)

            assert (await b.started("b1", pace(2, 10.0))).at == near(b.now)

    async def test_several_paces_are_satisfied_together(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            both = (pace(2, 10.0, "short"), pace(3, 60.0, "long"))
            await b.started("a1", *both)
            await b.started("a2", *both)
            third = await b.waits("a3", *both)
            fourth = await b.waits("a4", *both)

            assert (third.at, third.key) == (near(begun + 10), "short")
            assert (fourth.at, fourth.key) == (near(begun + 60), "long")

    async def test_a_plan_fits_between_those_made_before_it(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            await b.started("a1", pace(1, 100.0, "slow"))
            await b.waits("a2", pace(1, 100.0, "slow"), pace(1, 20.0, "quick"))
            await b.let_pass(70)
            await b.started("a3", pace(1, 20.0, "quick"))
            await b.let_pass(5)

            assert (await b.waits("a4", pace(1, 20.0, "quick"))).at == near(begun + 120)
            await b.finish("a2")
            assert (await b.waits("a5", pace(1, 20.0, "quick"))).at == near(begun + 90)

    async def test_where_processes_disagree_about_a_pace_both_figures_are_kept(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            begun = b.now
            await b.started("a1", pace(2, 10.0))
            strict = await b.waits("b1", pace(1, 30.0))
            assert (strict.at, strict.differs) == (near(begun + 30), "k")
            lax = await b.waits("a2", pace(2, 10.0))
            assert (lax.at, lax.differs) == (near(begun + 60), "k")
            view = await b.view()
            assert (view.max_count, view.per) == (1, 30.0)

    async def test_a_pace_and_slots_go_together(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            both = (pace(2, 10.0, "p"), slots(1, "s"))
            await b.started("a1", *both)
            line = await b.waits("b1", *both)
            assert (line.at, line.key) == (None, "s")
            await b.finish("a1")
            await b.started("b1", *both)
            await b.finish("b1")
            timed = await b.waits("c1", *both)
            assert (timed.at, timed.key) == (near(b.now + 10), "p")
            await b.let_pass(10)
            await b.started("c1", *both)

    async def test_one_in_line_whose_pace_was_used_up_meanwhile_is_planned_anew_and_lets_others_by(
        self, store_url: str
    ) -> None:
        async with self.limit_driver(store_url) as b:
            both = (pace(1, 10.0, "p"), slots(1, "s"))
            await b.started("a1", slots(1, "s"))
            assert (await b.waits("b1", *both)).key == "s"
            await b.let_pass(10)
            await b.started("c1", pace(1, 10.0, "p"))
            await b.finish("a1")
            turn = await b.waits("b1", *both)

            assert (turn.at, turn.key) == (near(b.now + 10), "p")
            await b.started("c2", slots(1, "s"))

    async def test_fractions_of_a_second_are_exact(self, store_url: str) -> None:
        async with self.limit_driver(store_url) as b:
            for number in range(30):
                await b.started(f"a{number}", pace(1, 0.1))
                b.clock.advance(0.1)
