"""Views of jobs, lanes and queues."""

from __future__ import annotations

from interlock.ports.job_views import JobFilter, WorkerView
from interlock.ports.jobs import JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near, pace, slots

__all__ = ["JobViewConformance"]


class JobViewConformance(JobSuite):
    """Every view tells the truth, in every state."""

    async def test_a_fetched_job_is_running_once_its_worker_has_reported_that_it_started(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(3)
            first, second, _ = await b.fetch()
            assert await b.states(*ids) == [JobState.FETCHED] * 3
            await b.started(first)
            assert await b.states(*ids) == [JobState.RUNNING, JobState.FETCHED, JobState.FETCHED]
            await b.started(second)
            await b.started(second)

            states = [JobState.RUNNING, JobState.RUNNING, JobState.FETCHED]
            assert await b.states(*ids) == states, "a report adds to earlier ones"
            assert [await b.state(job_id) for job_id in ids] == states
            assert [(await b.situation(job_id)).job.state for job_id in ids] == states
            for state in (JobState.FETCHED, JobState.RUNNING):
                listed = await b.list_jobs(JobFilter((state,)))
                assert sorted(view.id for view in listed) == [ids[n] for n in range(3) if states[n] is state]
            queue = await b.queue()
            assert (queue.fetched, queue.running) == (1, 2)

    async def test_a_report_of_a_start_says_nothing_about_another_fetch(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            first = await b.one("a")
            await b.started(first)
            await b.end(first, Outcome.SNOOZED)
            assert await b.state(job_id) is JobState.READY
            second = await b.one("a")
            assert await b.state(job_id) is JobState.FETCHED
            await b.jobs.report_started("a", [(job_id, first.fence)])
            await b.jobs.report_started("b", [(job_id, second.fence)])
            await b.jobs.report_started("unknown", [(job_id, second.fence)])
            await b.jobs.report_started("a", [(2**40, second.fence)])
            await b.jobs.report_started("a", [])
            assert await b.state(job_id) is JobState.FETCHED
            await b.started(second)

            assert await b.state(job_id) is JobState.RUNNING
            await b.done(second)
            assert await b.state(job_id) is JobState.DONE

    async def test_of_a_run_only_the_job_that_started_is_running(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(3)]
            run = await b.fetch(run=2)
            lane = await b.lane()
            assert (lane.state, lane.head, lane.worker and lane.worker.session) == (JobState.FETCHED, ids[0], "a")
            await b.started(run[0])

            assert await b.states(*ids) == [JobState.RUNNING, JobState.FETCHED, JobState.BEHIND]
            lane = await b.lane()
            assert (lane.state, lane.head, lane.worker and lane.worker.session) == (JobState.RUNNING, ids[0], "a")
            situation = await b.situation(ids[1])
            assert (situation.lane_head, situation.lane_head_state) == (ids[0], JobState.RUNNING)

    async def test_what_a_dead_worker_had_started_is_running_until_it_is_rescued(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(2)
            await b.started((await b.fetch("a"))[0])
            await b.let_pass(SESSION + 1, "b")
            while await b.store.sessions.sweep():
                pass
            assert await b.states(*ids) == [JobState.RUNNING, JobState.FETCHED]
            await b.jobs.rescue()

            assert await b.states(*ids) == [JobState.READY] * 2
            await b.every("b")
            assert JobState.RUNNING not in await b.states(*ids)

    async def test_a_fetched_job_is_told_with_who_has_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            b.clock.advance(2)
            job = await b.one("b")
            fetched_at = b.now
            b.clock.advance(3)
            view = await b.view(job_id)

            assert (view.state, view.attempt, view.fence) == (JobState.FETCHED, 1, job.fence)
            assert view.fetched_at == near(fetched_at)
            assert view.worker == WorkerView("b", "host-b", 7, "test")
            assert view.seen_at == near(b.now)

    async def test_who_ran_a_job_last_is_told_also_long_after_its_session_ended(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.done(await b.one("a"))
            await b.store.sessions.end("a")
            await b.let_pass(100_000, "b")
            while await b.store.sessions.sweep():
                pass

            assert (await b.view(job_id)).worker == WorkerView("a", "host-a", 7, "test")

    async def test_jobs_are_listed_newest_first_as_asked_for(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            done = await b.add(name="x", arguments='{"a":1}')
            job = await b.one(names=("x",))
            await b.end(job, Outcome.DONE, result="1")
            ready = await b.add(queue="other")
            later = await b.add(lane="l", delay=50.0)
            first, second = await b.add(lane="l"), await b.add(lane="l")
            everything = await b.list_jobs(JobFilter())

            assert [view.id for view in everything] == [second, first, later, ready, done]
            assert {(view.arguments, view.result, view.attempts) for view in everything} == {("", None, ())}

            async def found(**wanted: object) -> list[int]:
                return [view.id for view in await b.list_jobs(JobFilter(**wanted))]  # type: ignore[arg-type]

            assert await found(states=(JobState.DONE,)) == [done]
            assert await found(states=(JobState.READY, JobState.SCHEDULED)) == [first, later, ready]
            assert await found(states=(JobState.BEHIND,)) == [second]
            assert await found(name="x") == [done]
            assert await found(queue="other") == [ready]
            assert await found(lane="l") == [second, first, later]
            assert await found(lane="l", states=(JobState.SCHEDULED,)) == [later]
            assert await found(name="never") == []
            assert [view.id for view in await b.list_jobs(JobFilter(), limit=2)] == [second, first]

    async def test_a_look_and_a_find_agree_in_every_state(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for outcome in Outcome:
                await b.add()
                await b.end(await b.one(), outcome, delay=60.0, error="why")
            await b.jobs.hold("held", Attribution("ann", "deploying"))
            for lane in ("", "x", "x", "held", "held"):
                await b.add(lane=lane)
            for _ in range(2):
                await b.add(uses=(slots(1),), priority=100)
            await b.add(expires=0.5, delay=9.0)
            b.clock.advance(1.0)
            await b.started(await b.one())
            await b.fetch(limit=2)
            await b.add(after=(await b.add(),), lane="x")

            looked = await b.list_jobs(JobFilter())
            assert len(looked) == len(Outcome) + 10
            for view in looked:
                found = await b.view(view.id)
                assert found._replace(arguments="", options="", result=None, attempts=()) == view._replace(options="")
            states = {view.state for view in looked}
            assert states == set(JobState) - {JobState.SUPERSEDED, JobState.QUARANTINED}
            for state in states:
                assert {view.id for view in await b.list_jobs(JobFilter(states=(state,)))} == {
                    view.id for view in looked if view.state is state
                }

    async def test_it_is_told_how_many_ready_jobs_come_first(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.register_worker("a", ["q"], ["n"], 5)
            await b.add(queue="other")
            ids = [await b.add(), await b.add(lane="l"), await b.add(lane="l"), await b.add(), await b.add()]
            await b.add(delay=10.0)
            await b.add(priority=90)

            assert [(await b.situation(ids[n])).ahead for n in (0, 1, 3, 4)] == [1, 2, 3, 4]
            situation = await b.situation(ids[0])
            assert (situation.job.id, situation.job.state) == (ids[0], JobState.READY)
            assert (situation.lane_head, situation.lane_head_state, situation.waits_for) == (None, None, "")
            assert (situation.held_by, situation.held_since, situation.holders, situation.room_at) == (
                "",
                None,
                (),
                None,
            )

    async def test_it_is_told_who_is_before_a_job_in_its_lane(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            situation = await b.situation(ids[3])
            assert (situation.job.state, situation.ahead) == (JobState.BEHIND, 3)
            assert (situation.lane_head, situation.lane_head_state) == (ids[0], JobState.READY)
            job = await b.one()
            situation = await b.situation(ids[3])
            assert (situation.ahead, situation.lane_head, situation.lane_head_state) == (3, ids[0], JobState.FETCHED)
            await b.end(job, Outcome.RETRY, delay=60.0)
            situation = await b.situation(ids[2])
            assert (situation.ahead, situation.lane_head, situation.lane_head_state) == (2, ids[0], JobState.SCHEDULED)
            await b.jobs.cancel(ids[0], Attribution("ann", "no"))
            situation = await b.situation(ids[3])

            assert (situation.ahead, situation.lane_head, situation.lane_head_state) == (2, ids[1], JobState.READY)

    async def test_it_is_told_what_limit_a_job_waits_for_and_who_holds_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            holders = [await b.add(uses=(slots(2, "s"),)) for _ in range(2)]
            await b.fetch()
            waiting = [await b.add(uses=(slots(9, "a"), slots(2, "s"))) for _ in range(3)]
            assert await b.fetch() == []
            situation = await b.situation(waiting[2])

            assert (situation.job.state, situation.waits_for, situation.ahead) == (JobState.WAITING, "s", 2)
            assert sorted(situation.holders) == holders
            assert situation.room_at is None
            assert (await b.situation(waiting[0])).ahead == 0

    async def test_of_very_many_holders_some_are_told(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            holders = await b.add_many(25, uses=(slots(25),))
            await b.fetch()
            waiting = await b.add(uses=(slots(25),))
            assert await b.fetch() == []
            told = (await b.situation(waiting)).holders

            assert len(told) == len(set(told)) == 20
            assert set(told) <= set(holders)

    async def test_it_is_told_when_a_pace_lets_the_next_one_start(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for _ in range(2):
                await b.add(uses=(pace(1, 30.0),))
            await b.one()
            began = b.now
            waiting = await b.add(uses=(pace(1, 30.0),))
            assert await b.fetch() == []
            b.clock.advance(3)
            situation = await b.situation(waiting)

            assert (situation.waits_for, situation.room_at, situation.ahead) == ("k", near(began + 30, 0.001), 1)
            b.clock.advance(30)
            assert (await b.situation(waiting)).room_at is None, "it has passed"
            (short,) = await b.store.insight.situations([waiting])
            assert short.room_at is None

    async def test_it_is_told_who_works_on_a_queue_and_knows_the_name(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id, strange = await b.add(), await b.add(name="new")
            situation = await b.situation(job_id)
            assert (situation.workers, situation.workers_of_queue) == (0, 0)
            await b.jobs.register_worker("a", ["q", "mail"], ["n"], 5)
            await b.jobs.register_worker("b", ["q"], ["n", "m"], 7)
            await b.jobs.register_worker("c", ["mail"], ["n", "new"], 9)
            situation, other = await b.situation(job_id), await b.situation(strange)
            assert (situation.workers, situation.workers_of_queue) == (2, 2)
            assert (other.workers, other.workers_of_queue) == (0, 2)
            assert ((await b.queue()).workers, (await b.queue()).runners) == (2, 12)
            assert ((await b.queue("mail")).workers, (await b.queue("mail")).runners) == (2, 14)
            await b.store.sessions.end("a")
            assert (await b.situation(job_id)).workers == 1
            await b.jobs.register_worker("b", ["q"], ["m"], 3)
            assert ((await b.situation(job_id)).workers, (await b.queue()).runners) == (0, 3)
            await b.let_pass(SESSION, "c")
            situation = await b.situation(job_id)
            assert (situation.workers, situation.workers_of_queue) == (0, 0)

            assert (await b.queue()).runners == 0

    async def test_lanes_are_told_with_their_heads(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            assert await b.store.insight.lane("l") is None
            ids = [await b.add(lane="l", name=name) for name in ("n", "m", "n")]
            due = b.now - 0.002
            lane = await b.lane()
            assert (lane.state, lane.head, lane.name, lane.depth) == (JobState.READY, ids[0], "n", 3)
            assert (lane.worker, lane.held_by, lane.held_reason, lane.held_since) == (None, "", "", None)
            assert lane.since == near(due)
            job = await b.one("b")
            lane = await b.lane()
            assert (lane.state, lane.head, lane.depth) == (JobState.FETCHED, ids[0], 3)
            assert lane.worker == WorkerView("b", "host-b", 7, "test")
            await b.done(job)
            lane = await b.lane()
            assert (lane.state, lane.head, lane.name, lane.depth) == (JobState.READY, ids[1], "m", 2)
            await b.end(await b.one(names=("m",)), Outcome.RETRY, delay=10.0)
            assert (await b.lane()).state is JobState.SCHEDULED
            other = await b.add(lane="k")
            assert {view.lane: view.head for view in await b.lanes()} == {"k": other, "l": ids[1]}
            assert len(await b.lanes(limit=1)) == 1
            assert (await b.lane()).seen_at == near(b.now)

    async def test_queues_are_told_with_what_is_in_them(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            assert await b.queues() == []
            oldest = b.now + 0.001
            await b.add()
            for lane in "xxxyy":
                await b.add(lane=lane)
            queue = await b.queue()
            assert (queue.ready, queue.behind, queue.scheduled, queue.waiting) == (3, 3, 0, 0)
            assert queue.oldest_ready_at == near(oldest)
            jobs = await b.fetch(run=2)
            assert (await b.queue()).fetched == 5
            await b.end(jobs[0], Outcome.PARKED, error="why")
            await b.add(delay=5.0)
            due = b.now + 5.0
            await b.jobs.hold("held", Attribution("ann", "deploying"))
            await b.add(lane="held")
            for _ in range(3):
                await b.add(uses=(slots(1),))
            await b.fetch()
            await b.add(queue="other")
            queues = {queue.queue: queue for queue in await b.queues()}

            queue = queues["q"]
            assert (queue.ready, queue.behind, queue.scheduled, queue.waiting) == (0, 1, 1, 2)
            assert (queue.fetched, queue.held, queue.parked, queue.oldest_ready_at) == (5, 1, 1, None)
            assert queue.next_due_at == near(due)
            assert queues["other"].ready == 1
            assert set(queues) == {"q", "other"}
