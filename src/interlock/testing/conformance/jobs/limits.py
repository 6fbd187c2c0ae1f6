"""Slots taken by fetches: exact, all or none, first come, first served."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from interlock.ports.jobs import Acknowledgement, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, pace, slots

if TYPE_CHECKING:
    from interlock.ports.limits import Use

__all__ = ["JobSlotConformance"]


class JobSlotConformance(JobSuite):
    """No more jobs are fetched than there are slots, and a free slot goes to the first in line."""

    async def test_as_many_are_fetched_as_there_are_slots(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(3),)) for _ in range(5)]
            first = await b.fetch("a", 2)
            second = await b.fetch("b")

            assert [job.id for job in (*first, *second)] == ids[:3]
            assert all(job.slots == ("k",) for job in (*first, *second))
            batch = await b.batch("c")
            assert (list(batch.jobs), batch.recheck_in) == ([], math.inf)
            assert await b.states(*ids[3:]) == [JobState.WAITING] * 2

    @pytest.mark.parametrize("outcome", list(Outcome))
    async def test_every_end_frees_the_slot_and_wakes_the_next(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(uses=(slots(1),)), await b.add(uses=(slots(1),))
            (job,) = await b.fetch("a")
            assert await b.state(second) is JobState.WAITING
            acknowledged = await b.acknowledged(Acknowledgement(first, job.fence, outcome, delay=30.0, error="no"))

            assert acknowledged.ready
            assert await b.state(second) is JobState.READY
            got = await b.one("b")
            assert got.id == second
            await b.done(got)
            assert await b.ids("c") == ([first] if outcome is Outcome.RETURNED else [])

    async def test_handing_back_and_rescue_free_the_slot(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(1),)) for _ in range(3)]
            assert await b.ids("a") == ids[:1]
            await b.jobs.return_unstarted("a")
            assert await b.ids("b") == [ids[1]]
            assert await b.fetch("c") == []
            await b.crash("b")

            assert await b.ids("c") == [ids[2]]
            assert await b.fetch("c") == []

    async def test_a_slot_is_held_until_rescue_not_until_the_session_ends(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first, second = await b.add(uses=(slots(1),)), await b.add(uses=(slots(1),))
            await b.one("a")
            await b.let_pass(SESSION + 1, "b", "c")
            assert await b.fetch("b") == [], "the work of a dead session may still be under way"
            await b.jobs.rescue()

            assert await b.ids("b") == [second]
            assert await b.state(first) in (JobState.READY, JobState.WAITING)

    async def test_a_line_is_served_first_come_first_served(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(1),)) for _ in range(6)]
            got = []
            for place in range(6):
                job = await b.one("abc"[place % 3])
                assert await b.fetch() == []
                got.append(job.id)
                await b.done(job)

            assert got == ids

    async def test_newcomers_stand_behind_whatever_their_priority(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            waiting = [await b.add(uses=(slots(1),), priority=1) for _ in range(2)]
            assert await b.fetch() == []
            urgent = await b.add(uses=(slots(1),), priority=100)
            await b.done(busy)
            urgent_too = await b.add(uses=(slots(1),), priority=100)
            got = []
            for _ in range(4):
                (job,) = await b.fetch(limit=5)
                got.append(job.id)
                await b.done(job)

            assert got == [*waiting, urgent, urgent_too]

    async def test_newcomers_stand_behind_also_before_the_first_in_line_has_come(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            waiting = await b.add(uses=(slots(1),), priority=1)
            assert await b.fetch() == []
            await b.done(busy)
            newcomer = await b.add(uses=(slots(1),), priority=100)
            got = [job.id for _ in range(3) for job in await b.fetch("b", 1)]

            assert got == [waiting]
            assert await b.state(newcomer) is JobState.WAITING

    async def test_several_slots_that_come_free_together_go_to_as_many(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(3),)) for _ in range(7)]
            first = await b.fetch()
            await b.done(*first)
            second = await b.fetch()
            await b.done(second[0])
            third = await b.fetch()

            assert [job.id for job in (*first, *second, *third)] == ids
            assert [len(first), len(second), len(third)] == [3, 3, 1]

    async def test_a_key_without_room_does_not_hold_up_others(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1, "busy"),))
            await b.one()
            stuck = [await b.add(uses=(slots(1, "busy"),), priority=100) for _ in range(30)]
            free = [await b.add(uses=(slots(2, "free"),)), await b.add(), await b.add(lane="l")]
            got: list[int] = []
            for _ in range(5):
                got += await b.ids("b", 10)

            assert got == free
            assert set(await b.states(*stuck)) == {JobState.WAITING}

    async def test_all_slots_are_taken_or_none(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1, "y"),))
            busy = await b.one()
            both = await b.add(uses=(slots(1, "x"), slots(1, "y"), slots(1, "z")))
            assert await b.fetch() == []
            assert (await b.situation(both)).waits_for == "y"
            ids = [await b.add(uses=(slots(1, key),)) for key in "xz"]
            singles = await b.fetch()
            assert [job.id for job in singles] == ids, "a job that waits holds slots of others"
            await b.done(busy)
            assert await b.fetch() == []
            await b.done(*singles)

            (job,) = await b.fetch()
            assert (job.id, job.slots) == (both, ("x", "y", "z"))

    async def test_who_is_held_up_by_another_limit_lets_those_behind_it_go(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for key in "xy":
                await b.add(uses=(slots(1, key),))
            x, y = await b.fetch()
            both = await b.add(uses=(slots(1, "x"), slots(1, "y")))
            behind = await b.add(uses=(slots(1, "x"),))
            assert await b.fetch() == []
            assert [(await b.situation(job_id)).waits_for for job_id in (both, behind)] == ["x", "x"]
            await b.done(x)
            got = await b.ids() + await b.ids()

            assert got == [behind], "room that the first in line cannot use is lost"
            assert (await b.situation(both)).waits_for == "y"
            await b.done(y)
            assert await b.fetch() == [], "one of two limits was enough"

    async def test_one_that_waited_for_both_keys_in_turn_gets_them_in_the_end(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for key in "xy":
                await b.add(uses=(slots(1, key),))
            x, y = await b.fetch()
            both = await b.add(uses=(slots(1, "x"), slots(1, "y")))
            assert await b.fetch() == []
            await b.done(x)
            assert await b.fetch() == []
            newcomer = await b.add(uses=(slots(1, "y"),), priority=100)
            assert await b.fetch() == []
            await b.done(y)

            assert await b.ids() == [both]
            assert await b.state(newcomer) is JobState.WAITING

    @pytest.mark.parametrize("how", ["cancelled", "held"])
    async def test_one_that_was_woken_but_does_not_come_lets_the_next_go(self, store_url: str, how: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            woken, behind = await b.add(uses=(slots(1),), lane="l"), await b.add(uses=(slots(1),))
            assert await b.fetch() == []
            await b.done(busy)
            if how == "cancelled":
                assert await b.jobs.cancel(woken, Attribution("ann", "not wanted")) is JobState.CANCELLED
            else:
                await b.jobs.hold("l", Attribution("ann", "not now"))

            assert await b.ids() == [behind]

    @pytest.mark.parametrize("how", ["cancelled", "held"])
    async def test_one_that_left_the_line_is_not_waited_for(self, store_url: str, how: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            first, behind = await b.add(uses=(slots(1),), lane="l"), await b.add(uses=(slots(1),))
            assert await b.fetch() == []
            if how == "cancelled":
                await b.jobs.cancel(first, Attribution("ann", "not wanted"))
            else:
                await b.jobs.hold("l", Attribution("ann", "not now"))
            await b.done(busy)
            job = await b.one()

            assert job.id == behind
            assert await b.fetch() == []
            if how == "held":
                await b.done(job)
                assert await b.fetch() == [], "a held lane continued because a slot became free"
                await b.jobs.release("l", ANN)
                assert await b.ids() == [first]

    async def test_one_that_was_held_in_line_has_its_ticket_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            first = await b.add(uses=(slots(1),), lane="l")
            assert await b.fetch() == []
            await b.jobs.hold("l", Attribution("ann", "not now"))
            await b.jobs.release("l", ANN)
            assert await b.fetch() == []
            behind = [await b.add(uses=(slots(1),)) for _ in range(2)]
            assert await b.fetch() == []
            await b.done(busy)
            (job,) = await b.fetch()
            assert job.id == first
            await b.end(job, Outcome.RETRY, delay=0.0)
            got = []
            for _ in range(3):
                (job,) = await b.fetch()
                got.append(job.id)
                await b.done(job)

            assert got == [*behind, first], "it had its turn, and stands before others still"

    async def test_a_queue_that_nobody_works_on_does_not_keep_a_slot(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            idle = await b.add(uses=(slots(1),), queue="idle")
            mine = await b.add(uses=(slots(1),))
            assert await b.fetch("b", queues=("idle", "q")) == []
            await b.done(busy)

            assert await b.ids(queues=("q",)) == [mine]
            assert await b.fetch(queues=("idle",)) == []
            assert idle not in (mine, busy.id)

    async def test_a_name_that_nobody_knows_any_more_does_not_keep_a_slot(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            await b.add(uses=(slots(1),), name="gone")
            assert await b.fetch("b", names=("gone", "n")) == []
            mine = await b.add(uses=(slots(1),))
            assert await b.fetch() == []
            await b.done(busy)
            job = await b.one()
            assert job.id == mine
            newcomer = await b.add(uses=(slots(1),))
            await b.done(job)

            assert await b.ids() == [newcomer]

    @pytest.mark.parametrize("use", [slots(1), pace(1, 10.0)], ids=["slots", "pace"])
    @pytest.mark.parametrize("limit", [1, 10])
    async def test_who_knows_several_names_serves_them_first_come_first_served(
        self, store_url: str, limit: int, use: Use
    ) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(use,))
            job = await b.one()
            names = [f"name-{number % 7}" for number in range(8)]
            ids = []
            for priority, name in enumerate(names):
                ids.append(await b.add(uses=(use,), name=name, priority=priority))
                assert await b.fetch("b", names=names) == []
            got = []
            for _ in ids:
                await b.done(job)
                await b.let_pass(10.0)
                (job,) = await b.fetch("b", limit, names=names)
                got.append(job.id)

            assert got == ids

    async def test_one_behind_another_name_is_for_who_knows_only_that(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            await b.add(uses=(slots(1),), name="other")
            mine = await b.add(uses=(slots(1),))
            assert await b.fetch("b", names=("other", "n")) == []
            await b.done(busy)
            assert await b.fetch("b", at_once=0, names=("other", "n")) == [], "a scarce slot was taken in advance"
            await b.let_pass(2.0)

            assert await b.ids() == [mine]

    async def test_where_figures_differ_the_smaller_one_holds(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            wide, narrow = (slots(5),), (slots(2),)
            await b.add(uses=wide)
            first = await b.one()
            small = await b.add(uses=narrow)
            second = await b.one()
            assert second.id == small
            for uses in (wide, narrow):
                await b.add(uses=uses)
            assert await b.fetch() == [], "a job that knows a larger figure overrode the smaller one"
            await b.done(second)
            third = await b.one()
            assert third.id not in (first.id, second.id)
            await b.done(first, third)
            await b.done(*await b.fetch())

            await b.add_many(7, uses=wide)
            assert len(await b.fetch()) == 5, "a figure that no job has any more still holds"

    async def test_a_job_with_slots_is_fetched_without_its_lane_following(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", uses=(slots(9),)) for _ in range(2)]
            plain = await b.add(lane="l")
            job = await b.one(run=10)
            assert job.id == ids[0]
            await b.done(job)
            (job,) = await b.fetch(run=10)
            assert job.id == ids[1]
            await b.done(job)

            assert await b.ids(run=10) == [plain]

    async def test_slots_that_get_scarce_are_not_taken_in_advance(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(8),)) for _ in range(12)]
            plain = [await b.add() for _ in range(3)]
            half = await b.fetch("a", at_once=1)
            assert [job.id for job in half] == [*ids[:4], *plain]
            assert await b.ids("b", at_once=0) == ids[4:6]
            assert await b.ids("b", at_once=0) == ids[6:7]
            assert await b.ids("b", at_once=0) == []

            assert await b.state(ids[7]) is JobState.READY, "a job for which there is room waits for a limit"
            assert await b.ids("c", at_once=5) == ids[7:8]
            assert set(await b.states(*ids[8:])) == {JobState.WAITING}

    async def test_as_many_slots_as_can_start_at_once_are_taken(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(uses=(slots(8),)) for _ in range(12)]

            assert await b.ids("a", at_once=7) == ids[:7]
            assert await b.ids("b", at_once=100) == ids[7:8]
