"""One limit for jobs and for reservations: what either side takes counts for the other, in the order of asking."""

from __future__ import annotations

import asyncio
import json
import math
import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from interlock.backends import from_url
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, JobState, Outcome
from interlock.ports.journal import JournalFilter
from interlock.ports.limits import TURN_SECONDS, Plan, Turn
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near, new_job, pace, slots
from interlock.testing.conformance.limits.driver import LimitDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.jobs import FetchedJob
    from interlock.ports.limits import Use
    from interlock.ports.store import Store
    from interlock.testing.conformance.jobs.driver import JobDriver

__all__ = ["SharedLimitConformance"]


class SharedLimitConformance(JobSuite):
    """Jobs and reservations under one key never exceed it together, and neither starves the other."""

    @asynccontextmanager
    async def both(self, url: str) -> AsyncIterator[tuple[JobDriver, LimitDriver]]:
        """Drivers of both sides of one store. Session ``a`` is a worker for jobs named ``n`` in queue ``q``."""
        async with self.job_driver(url) as jobs:
            await jobs.jobs.register_worker("a", ["q"], ["n"], 10)
            yield jobs, LimitDriver(jobs.store, jobs.clock)

    # -- slots -----------------------------------------------------------------------------------------------------

    async def test_jobs_get_only_the_slots_that_reservations_leave(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(3))
            await r.started("c1", slots(3))
            ids = [await b.add(uses=(slots(3),)) for _ in range(3)]

            assert await b.ids() == ids[:1]
            assert await b.states(*ids[1:]) == [JobState.WAITING] * 2

    async def test_reservations_get_only_the_slots_that_jobs_leave(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            for _ in range(2):
                await b.add(uses=(slots(3),))
            assert len(await b.fetch()) == 2

            await r.started("b1", slots(3))
            turn = await r.waits("c1", slots(3))
            assert (turn.key, turn.at) == ("k", None)

    async def test_slots_that_were_acknowledged_before_the_first_reservation_are_free(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(slots(1),))
            await b.done(await b.one())

            await r.started("b1", slots(1))

    async def test_an_acknowledgement_lets_the_first_reservation_start(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(slots(1),))
            job = await b.one()
            await r.waits("b1", slots(1))
            await r.waits("c1", slots(1))
            assert (await r.limits.turns("b", ())).owners == ()
            await b.done(job)

            assert (await r.limits.turns("b", ())).owners == ("b1",)
            await r.waits("c1", slots(1))
            await r.started("b1", slots(1))

    @pytest.mark.parametrize("outcome", list(Outcome))
    async def test_every_end_of_a_job_frees_its_slot_for_a_reservation(self, store_url: str, outcome: Outcome) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(slots(1),))
            job = await b.one()
            await r.waits("b1", slots(1))
            await b.end(job, outcome, delay=30.0, error="no")

            await r.started("b1", slots(1))

    async def test_a_finished_reservation_makes_the_first_waiting_job_ready(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1))
            ids = [await b.add(uses=(slots(1),)) for _ in range(2)]
            assert await b.ids() == []
            await r.finish("b1")

            assert await b.ids() == ids[:1]
            assert await b.ids() == []

    async def test_a_dead_session_frees_the_slots_of_its_reservations_for_jobs(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1))
            job = await b.add(uses=(slots(1),))
            batch = await b.batch()
            assert list(batch.jobs) == []
            assert batch.recheck_in <= SESSION + 0.1, "nobody says when a session has expired"
            await b.let_pass(SESSION + 1, "a", "c")

            assert await b.ids() == [job]

    async def test_an_ended_session_frees_the_slots_of_its_reservations_for_jobs(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1))
            job = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await b.store.sessions.end("b")

            assert await b.ids() == [job]

    async def test_a_rescue_frees_the_slots_of_jobs_for_reservations(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(slots(1),))
            await b.one("a")
            await r.waits("b1", slots(1))
            await b.crash("a")

            await r.started("b1", slots(1))

    async def test_both_sides_are_served_in_the_order_in_which_they_asked(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            first = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await r.waits("b1", slots(1))
            second = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await r.waits("c2", slots(1))
            await r.finish("b0")

            await r.waits("c2", slots(1))
            assert (await r.waits("b1", slots(1))).ahead == 1
            job = await b.one()
            assert job.id == first
            await b.done(job)
            assert await b.ids() == [], "the reservation asked before the second job"
            await r.waits("c2", slots(1))
            await r.started("b1", slots(1))
            await r.finish("b1")
            await r.waits("c2", slots(1))
            job = await b.one()
            assert job.id == second
            await b.done(job)
            await r.started("c2", slots(1))

    async def test_newcomers_of_both_sides_stand_behind_the_line(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            await r.waits("b1", slots(1))
            await r.finish("b0")
            newcomer = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await r.started("b1", slots(1))
            await r.finish("b1")
            await r.waits("c1", slots(1))

            assert await b.ids() == [newcomer]

    async def test_several_slots_go_to_as_many_of_both_sides(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            for owner in ("b0", "c0"):
                await r.started(owner, slots(2))
            ids = [await b.add(uses=(slots(2),))]
            assert await b.ids() == []
            await r.waits("b1", slots(2))
            ids.append(await b.add(uses=(slots(2),)))
            assert await b.ids() == []
            await r.finish("b0")
            await r.finish("c0")

            assert await b.ids() == ids[:1]
            assert await b.ids() == []
            await r.started("b1", slots(2))

    async def test_who_does_not_come_for_its_slot_does_not_hold_up_the_other_side(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            await r.waits("b1", slots(1))
            job = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await r.finish("b0")
            batch = await b.batch()
            assert list(batch.jobs) == []
            assert batch.recheck_in <= TURN_SECONDS + 0.1
            await b.let_pass(TURN_SECONDS + 0.1)

            assert await b.ids() == [job]

    async def test_jobs_that_their_worker_does_not_fetch_hold_up_a_reservation_for_one_turn(
        self, store_url: str
    ) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            for _ in range(3):
                await b.add(uses=(slots(1),))
            assert await b.ids() == []
            turn = await r.waits("c1", slots(1))
            assert turn.ahead == 3
            await r.finish("b0")
            await r.waits("c1", slots(1))
            await b.let_pass(TURN_SECONDS + 0.1)

            await r.started("c1", slots(1))

    async def test_jobs_that_no_live_worker_takes_hold_up_no_reservation(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            for _ in range(3):
                await b.add(name="other", uses=(slots(1),))
            assert await b.ids(names=("other",)) == []
            await r.waits("c1", slots(1))
            await r.finish("b0")

            await r.started("c1", slots(1))

    async def test_a_cancelled_job_no_longer_stands_before_a_reservation(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b0", slots(1))
            job = await b.add(uses=(slots(1),))
            assert await b.ids() == []
            await r.waits("c1", slots(1))
            await r.finish("b0")
            await r.waits("c1", slots(1))
            await b.jobs.cancel(job, ANN)

            await r.started("c1", slots(1))

    async def test_the_smaller_figure_of_either_side_applies(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(2))
            await b.add(uses=(slots(5),))
            await b.one()
            await b.add(uses=(slots(5),))
            assert await b.ids() == [], "the reservation knows of two"
            await r.finish("b1")

            assert len(await b.ids()) == 1
            turn = await r.waits("c1", slots(2))
            assert turn.differs == "k"

    async def test_all_limits_of_either_side_are_taken_or_none(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1, "x"))
            both = await b.add(uses=(slots(1, "x"), slots(1, "y")))
            assert await b.ids() == []
            await r.started("c1", slots(1, "y"))
            await r.finish("b1")
            assert await b.ids() == []
            await r.finish("c1")

            assert await b.ids() == [both]
            await r.waits("c2", slots(1, "w"), slots(1, "y"))

    # -- rates and cooldowns ---------------------------------------------------------------------------------------

    async def test_a_reservation_starts_the_cooldown_of_jobs(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            turn = await r.started("b1", pace(1, 90))
            await r.finish("b1")
            job = await b.add(uses=(pace(1, 90),))
            batch = await b.batch()
            assert list(batch.jobs) == []
            assert turn.at is not None
            assert b.now + batch.recheck_in == near(turn.at + 90, 0.01)
            await b.let_pass(89)
            assert await b.ids() == []
            await b.let_pass(1)

            assert await b.ids() == [job]

    async def test_no_reservation_starts_before_a_job_that_may_still_start(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(pace(1, 2),))
            await b.one(start_within=5.0)  # it may start at once, or in five seconds

            turn = await r.waits("b1", pace(1, 2))
            assert turn.at == near(b.now + 7)
            await b.let_pass(6.9)
            await r.waits("b1", pace(1, 2))
            await b.let_pass(0.2)
            await r.started("b1", pace(1, 2))

    async def test_a_job_that_may_still_start_counts_together_with_earlier_starts(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            first = await r.started("b1", pace(2, 2))
            await b.add(uses=(pace(2, 2),))
            await b.one(start_within=5.0)

            turn = await r.waits("b2", pace(2, 2))
            assert turn.at == near((first.at or 0) + 2)
            await b.let_pass(2)
            second = await r.started("b2", pace(2, 2))
            turn = await r.waits("b3", pace(2, 2))
            assert turn.at == near((second.at or 0) + 2), "the job still counts"

    async def test_a_job_starts_the_cooldown_of_reservations(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(pace(1, 90),))
            await b.done(await b.one(start_within=2.0))
            began = b.now
            turn = await r.waits("b1", pace(1, 90))
            assert turn.at == near(began + 92, 0.01), "the job may start until then"
            await b.let_pass(91)
            await r.waits("b1", pace(1, 90))
            await b.let_pass(1.1)

            await r.started("b1", pace(1, 90))

    async def test_a_job_counts_from_its_fetch_until_it_must_have_started(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(pace(1, 2),))
            await b.done(await b.one(start_within=10.0))
            began = b.now
            await b.let_pass(0.5)
            turn = await r.waits("b1", pace(1, 2))
            assert turn.at == near(began + 12, 0.01), "it may start until 10 s after its fetch"
            await b.let_pass(5)
            await r.waits("c1", pace(1, 2))

    async def test_a_job_that_was_returned_unstarted_does_not_count(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await b.add(uses=(pace(1, 90),))
            await b.one("a")
            await r.waits("b1", pace(1, 90))
            await b.jobs.return_unstarted("a")

            await r.started("c1", pace(1, 90))

    async def test_a_rate_counts_the_starts_of_both_sides(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(3, 60))
            for _ in range(3):
                await b.add(uses=(pace(3, 60),))
            assert len(await b.fetch()) == 2
            turn = await r.waits("b2", pace(3, 60))
            assert turn.at is not None
            await b.let_pass(61)

            assert len(await b.fetch()) + (await r.turn("b2", pace(3, 60))).started + len(await b.fetch()) == 2

    async def test_jobs_respect_the_planned_start_of_a_reservation_that_asked_before(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 90))
            turn = await r.waits("b2", pace(1, 90))
            job = await b.add(uses=(pace(1, 90),))
            assert await b.ids() == []
            await b.let_pass(90)
            assert await b.ids() == [], "it is the reservation's turn"
            assert turn.at is not None
            await r.started("b2", pace(1, 90))
            assert await b.ids() == []
            await b.let_pass(90)

            assert await b.ids() == [job]

    async def test_a_reservation_is_planned_behind_the_jobs_that_asked_before(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 90))
            ids = [await b.add(uses=(pace(1, 90),)) for _ in range(2)]
            assert await b.ids() == []
            began = b.now
            turn = await r.waits("c1", pace(1, 90))
            assert turn.at == near(began + 270, 0.1)
            got = []
            for _ in range(2):
                await b.let_pass(90.01)
                got += await b.ids()
            assert got == ids
            assert not (await r.turn("c1", pace(1, 90))).started
            await b.let_pass(90.1)

            await r.started("c1", pace(1, 90))

    async def test_a_planned_start_that_nobody_takes_holds_up_jobs_for_one_turn(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 90))
            await r.waits("b2", pace(1, 90))
            job = await b.add(uses=(pace(1, 90),))
            assert await b.ids() == []
            await b.let_pass(90)
            assert await b.ids() == []
            await b.let_pass(TURN_SECONDS + 0.1)
            batch = await b.batch()

            assert [fetched.id for fetched in batch.jobs] == [job]

    async def test_starts_of_a_dead_session_count_for_jobs(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 90))
            await b.store.sessions.end("b")
            job = await b.add(uses=(pace(1, 90),))
            assert await b.ids() == []
            await b.let_pass(60, "a", "c")
            assert await b.ids() == []
            await b.let_pass(30, "a", "c")

            assert await b.ids() == [job]

    # -- figures that a person sets --------------------------------------------------------------------------------

    async def test_more_slots_let_waiters_of_both_sides_start_at_once(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1))
            ids = [await b.add(uses=(slots(1),)) for _ in range(2)]
            assert await b.ids() == []
            await r.waits("c1", slots(1))
            assert await r.limits.resize(slots(3), ANN) is None

            assert await b.ids() == ids
            await r.waits("c1", slots(1))
            await r.limits.resize(slots(4), ANN)
            assert (await r.limits.turns("c", ())).owners == ("c1",)
            await r.started("c1", slots(1))

    async def test_fewer_slots_than_are_held_block_only_newcomers(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(3))
            await b.add(uses=(slots(3),))
            job = await b.one()
            await r.limits.resize(slots(1), ANN)
            waiting = await b.add(uses=(slots(3),))

            assert await b.ids() == []
            await r.waits("c1", slots(3))
            await b.done(job)
            assert await b.ids() == []
            await r.finish("b1")
            assert await b.ids() == [waiting]
            await r.waits("c1", slots(3))

    async def test_a_cooldown_is_resized_for_enqueued_jobs_and_planned_reservations(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 90))
            job = await b.add(uses=(pace(1, 90),))
            assert await b.ids() == []
            turn = await r.waits("c1", pace(1, 90))
            await r.limits.resize(pace(1, 10), ANN)
            assert await b.ids() == []
            await b.let_pass(10)
            assert await b.ids() == [job]
            again = await r.waits("c1", pace(1, 90))
            assert turn.at is not None
            assert again.at == near(b.now + 10, 0.01)
            await b.let_pass(10)

            await r.started("c1", pace(1, 90))

    async def test_a_longer_cooldown_counts_from_the_last_start(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", pace(1, 10))
            await r.finish("b1")
            await r.limits.resize(pace(1, 100), ANN)
            job = await b.add(uses=(pace(1, 10),))
            await b.let_pass(99)
            assert await b.ids() == []
            await r.waits("c1", pace(1, 10), start=False)
            await b.let_pass(1)

            assert await b.ids() == [job] or (await r.turn("c1", pace(1, 10))).started

    async def test_a_figure_applies_to_all_keys_of_its_name_unless_one_has_its_own(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.started("b1", slots(1, "slots:x:1"))
            await r.limits.resize(slots(2, "slots:x"), ANN)
            await r.limits.resize(slots(1, "slots:x:2"), ANN)
            for key, count in (("slots:x:1", 1), ("slots:x:2", 1), ("slots:x:3", 2), ("slots:xy:1", 1)):
                for _ in range(3):
                    await b.add(uses=(slots(1, key),))
                assert len(await b.ids()) == count, key
            await r.limits.reset("slots:x:2", ANN)

            assert len(await b.ids()) == 1
            overrides = await r.limits.overrides()
            assert [(one.name, one.max_count, one.set_by, one.reason) for one in overrides] == [
                ("slots:x", 2, ANN.actor, ANN.reason)
            ]

    async def test_a_reset_lets_the_figures_of_the_code_apply_again(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.limits.resize(slots(1), ANN)
            for _ in range(3):
                await b.add(uses=(slots(2),))
            assert len(await b.ids()) == 1
            before = await r.limits.reset("k", ANN)

            assert before is not None
            assert (before.max_count, before.per) == (1, 0.0)
            assert len(await b.ids()) == 1
            assert await r.limits.reset("k", ANN) is None
            assert await r.limits.overrides() == []

    async def test_changes_of_figures_are_in_the_journal(self, store_url: str) -> None:
        async with self.both(store_url) as (b, r):
            await r.limits.resize(pace(2, 60, "rate:api"), ANN)
            await r.limits.resize(pace(2, 60, "rate:api"), ANN)
            before = await r.limits.resize(pace(3, 60, "rate:api"), ANN)
            assert before is not None
            assert before.max_count == 2
            await r.limits.reset("rate:api", ANN)

            entries = await b.store.journal.list(JournalFilter(), limit=10)
            first, second, third = reversed(entries)
            assert [(entry.action, entry.subject_key, entry.actor) for entry in (first, second, third)] == [
                ("limit.resize", "rate:api", ANN.actor),
                ("limit.resize", "rate:api", ANN.actor),
                ("limit.reset", "rate:api", ANN.actor),
            ]
            assert json.loads(second.before or "")["count"] == 2
            assert json.loads(second.after or "") == {"count": 3, "per": 60.0, "by": ANN.actor}
            assert third.after is None

    # -- any sequence of steps -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(12))
    async def test_no_sequence_of_steps_exceeds_a_limit_or_starves_a_side(self, store_url: str, seed: int) -> None:
        """Requests, fetches, ends, crashes, changes of the figure and time in any order, against a simple model."""
        chance = random.Random(seed)
        async with self.both(store_url) as (b, r):
            await b.jobs.register_worker("b", ["q"], ["n"], 10)
            model = _Model(slots=2, gap=20.0)
            uses = (slots(2, "slots:s"), pace(1, 20.0, "cooldown:c"))
            owners: dict[str, tuple[Use, ...]] = {}
            fetched: dict[int, FetchedJob] = {}
            names = iter(range(10_000))
            for _ in range(120):
                step = chance.choices(
                    ("ask", "again", "finish", "add", "fetch", "end", "crash", "resize", "pass"),
                    (3, 4, 3, 3, 5, 4, 1, 1, 4),
                )[0]
                wanted = tuple(use for use in uses if chance.random() < 0.7) or uses[:1]
                if step == "ask" and len(owners) < 6:
                    owners[f"c{next(names)}"] = wanted
                if step in ("ask", "again") and owners:
                    owner = chance.choice(sorted(owners))
                    turn = await r.turn(owner, *owners[owner])
                    if turn.started:
                        model.started(owner, owners[owner], b.now)
                elif step == "finish" and owners:
                    owner = chance.choice(sorted(owners))
                    await r.finish(owner)
                    del owners[owner]
                    model.ended(owner)
                elif step == "add":
                    model.jobs[await b.add(uses=wanted)] = wanted
                elif step == "fetch":
                    for job in await b.fetch(chance.choice("ab"), chance.randint(1, 3)):
                        fetched[job.id] = job
                        model.started(job.id, model.jobs[job.id], b.now)
                elif step == "end" and fetched:
                    job = fetched.pop(chance.choice(sorted(fetched)))
                    await b.done(job)
                    model.ended(job.id)
                    del model.jobs[job.id]
                elif step == "crash" and chance.random() < 0.3:
                    session = f"victim{next(names)}"
                    await b.begin(session)
                    for job in await b.fetch(session, 2):
                        model.started(job.id, model.jobs[job.id], b.now)
                    await b.crash(session)
                    for job_id in set(model.held) - set(fetched) - set(owners):
                        model.ended(job_id)
                elif step == "resize":
                    model.slots = chance.randint(1, 4)
                    await r.limits.resize(slots(model.slots, "slots:s"), ANN)
                elif step == "pass":
                    await b.let_pass(chance.choice((0.5, 5.0, TURN_SECONDS, 20.0)))
            # Whoever waits is served once nothing is held any more.
            for owner in owners:
                await r.finish(owner)
            for job in fetched.values():
                await b.done(job)
                del model.jobs[job.id]
            model.held.clear()
            for _ in range(12 + 3 * len(model.jobs)):
                await b.let_pass(21.0)
                for job in await b.fetch("a", 1):
                    model.started(job.id, model.jobs.pop(job.id), b.now)
                    await b.done(job)
                    model.ended(job.id)
            assert not model.jobs, "jobs starve"
            turn = await r.turn("c-last", slots(1, "slots:s"))
            assert turn.started, turn

    # -- at the same time ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(4))
    async def test_both_sides_together_never_exceed_the_slots(self, store_url: str, seed: int) -> None:
        """Every key is new, so that the first uses of both sides meet."""
        chance = random.Random(seed)
        async with AsyncExitStack() as stack:
            count = 1 if store_url.startswith("memory") else 3
            sides = [await stack.enter_async_context(self._side(store_url, number)) for number in range(count)]
            held: dict[str, set[object]] = {}
            allowed = dict.fromkeys("pqr", 3)
            exceeded: list[str] = []

            def took(key: str, who: object) -> None:
                held.setdefault(key, set()).add(who)
                if len(held[key]) > allowed[key]:
                    exceeded.append(f"{key}: {held[key]}")

            async def reservations(number: int) -> None:
                side = sides[number % count]
                for turn in range(8):
                    key, owner = chance.choice("pqr"), f"o{number}-{turn}"
                    plan = Plan(owner, owner, side.session, (slots(3, key),), start=True)
                    for _ in range(200):
                        answer = await side.store.limits.ask(plan)
                        if isinstance(answer, Turn) and answer.started:
                            took(key, owner)
                            await asyncio.sleep(chance.uniform(0, 0.002))
                            held[key].discard(owner)
                            break
                        await asyncio.sleep(0.001)
                    await side.store.limits.finish(side.session, owner)

            async def jobs(number: int) -> None:
                side = sides[number % count]
                ids = await side.store.jobs.ids(12)
                keys = {job_id: chance.choice("pqr") for job_id in ids}
                await side.store.jobs.enqueue(
                    [new_job(job_id, queue=f"q{number}", uses=(slots(3, key),)) for job_id, key in keys.items()]
                )
                left = set(ids)
                request = FetchRequest(side.session, (f"q{number}",), ("n",), 2, 2, 1)
                for _ in range(400):
                    if not left:
                        break
                    batch = await side.store.jobs.fetch(request)
                    assert isinstance(batch, FetchResult)
                    for job in batch.jobs:
                        took(keys[job.id], job.id)
                    await asyncio.sleep(chance.uniform(0, 0.002))
                    for job in batch.jobs:
                        held[keys[job.id]].discard(job.id)
                        left.discard(job.id)
                    done = [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in batch.jobs]
                    if done:
                        await side.store.jobs.acknowledge(side.session, done)
                assert not left, "jobs starve"

            await asyncio.gather(*(work(number) for number in range(4) for work in (reservations, jobs)))

            assert not exceeded
            for key in "pqr":
                owner = f"last-{key}"
                answers = [
                    await sides[0].store.limits.ask(
                        Plan(f"{owner}{n}", owner, sides[0].session, (slots(3, key),), start=True)
                    )
                    for n in range(4)
                ]
                started = [answer.started for answer in answers if isinstance(answer, Turn)]
                assert started == [True, True, True, False], "what was freed is free, and no more"

    @asynccontextmanager
    async def _side(self, url: str, number: int) -> AsyncIterator[_Side]:
        store = from_url(url, settings=Settings(namespace=self.namespace))
        await store.open()
        session = f"side{number}"
        await store.sessions.begin(SessionCard(session, "host", 1, "test"), 120.0)
        await store.jobs.register_worker(session, [f"q{n}" for n in range(4)], ["n"], 10)
        try:
            yield _Side(store, session)
        finally:
            await store.close()


class _Model:
    """What both sides hold and when they started. Every start is checked against it."""

    def __init__(self, slots: int, gap: float) -> None:
        self.slots, self.gap = slots, gap
        self.jobs: dict[int, tuple[Use, ...]] = {}
        self.held: dict[str | int, tuple[Use, ...]] = {}
        self.last = -math.inf

    def started(self, who: str | int, uses: tuple[Use, ...], now: float) -> None:
        """Check a start, unless it is known."""
        if who in self.held:
            return
        for use in uses:
            if use.per:
                assert now - self.last >= self.gap - 1e-6, f"{who} started {now - self.last} s after the one before"
                self.last = now
            else:
                taken = sum(use in held for held in self.held.values())
                assert taken < self.slots, f"{who} is one too many: {self.held}"
        self.held[who] = uses

    def ended(self, who: str | int) -> None:
        """Forget what one held."""
        self.held.pop(who, None)


class _Side(NamedTuple):
    """One connection to the store, with its own session."""

    store: Store
    session: str
