"""Several jobs of one lane at once: runs, and jobs that take the place of older ones."""

from __future__ import annotations

from collections import Counter

from interlock.ports.jobs import FetchedJob, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, slots

__all__ = ["RunConformance"]


class RunConformance(JobSuite):
    """Consecutive jobs of a lane go to one session together, or the newest of them instead of all."""

    async def test_a_run_is_the_next_jobs_of_a_lane_in_order(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(7)]
            first = await b.fetch("a", run=3)
            assert [job.id for job in first] == ids[:3]
            assert await b.fetch("b", run=3) == []
            await b.done(*first)
            second = await b.fetch("b", run=100)

            assert [job.id for job in second] == ids[3:]

    async def test_a_lane_is_given_up_when_the_last_of_a_long_run_has_ended(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(70)
            ids = await b.add_many(300, lane="l")
            run = [job for job in await b.fetch("a", 340, run=250) if job.lane]
            assert len(run) >= 250
            assert [job.id for job in run] == ids[: len(run)]
            for part in (run[:120], run[120:-1]):
                await b.done(*part)
                assert await b.fetch("b", run=250) == []
            await b.done(run[-1])

            assert await b.ids("b", 340, run=250) == ids[len(run) :]

    async def test_runs_of_several_lanes_stand_next_to_each_other(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            lanes: dict[str, list[int]] = {"x": [], "y": [], "z": []}
            for _ in range(4):
                for lane, ids in lanes.items():
                    ids.append(await b.add(lane=lane))
            await b.add()
            jobs = await b.fetch("a", run=3)

            assert len(jobs) == 10
            _next_to_each_other(jobs)
            for lane, ids in lanes.items():
                assert [job.id for job in jobs if job.lane == lane] == ids[:3]

    async def test_every_lane_gets_its_head_before_any_gets_a_run(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for lane in "xyz":
                for _ in range(10):
                    await b.add(lane=lane)
            for _ in range(3):
                await b.add()
            jobs = await b.fetch("a", 6, run=10)

            assert Counter(job.lane for job in jobs) == {"x": 1, "y": 1, "z": 1, "": 3}

    async def test_what_is_left_of_a_fetch_is_spread_evenly_over_the_lanes(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            lanes = {lane: [await b.add(lane=lane) for _ in range(10)] for lane in "xyz"}
            for _ in range(3):
                await b.add()
            jobs = await b.fetch("a", 12, run=10)

            assert Counter(job.lane for job in jobs) == {"x": 3, "y": 3, "z": 3, "": 3}
            _next_to_each_other(jobs)
            for lane, ids in lanes.items():
                assert [job.id for job in jobs if job.lane == lane] == ids[:3]

    async def test_a_run_ends_where_the_fetch_is_full(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(5)]
            jobs = await b.fetch("a", 2, run=4)
            assert [job.id for job in jobs] == ids[:2]
            await b.done(*jobs)

            assert await b.ids("b", 100, run=4) == ids[2:]

    async def test_a_run_ends_before_a_job_with_limits(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", uses=(slots(9),) if n == 2 else ()) for n in range(4)]

            await _in_runs(b, [ids[:2], ids[2:3], ids[3:]])

    async def test_a_run_ends_before_a_job_of_another_queue_or_of_a_name_that_is_not_known(
        self, store_url: str
    ) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", **change) for change in ({}, {}, {"queue": "r"}, {}, {"name": "new"})]
            run = await b.fetch("a", run=10, queues=("q", "r"))
            assert [job.id for job in run] == ids[:2]
            await b.done(*run)
            (job,) = await b.fetch("a", run=10, queues=("q", "r"))
            assert job.id == ids[2]
            await b.done(job)
            (job,) = await b.fetch("a", run=10, queues=("q", "r"))
            assert job.id == ids[3]
            await b.done(job)

            assert await b.fetch("a", run=10, queues=("q", "r")) == []

    async def test_a_run_ends_before_a_suspect_and_a_suspect_is_no_part_of_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            run = await b.fetch("a", run=3)
            await b.end(run[0], Outcome.RETURNED)
            rescued = sorted(await b.crash("a"))
            assert [(job.id, job.half is not None) for job in rescued] == [(ids[1], True), (ids[2], False)]

            await _in_runs(b, [ids[:1], ids[1:2], ids[2:]])

    async def test_a_run_ends_before_a_job_that_is_not_ready_by_itself(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l") for _ in range(4)]
            run = await b.fetch("a", run=3)
            await b.end(run[1], Outcome.PARKED, error="cannot run")
            await b.end(run[2], Outcome.RETURNED)
            await b.end(run[0], Outcome.RETURNED)
            assert await b.state(ids[1]) is JobState.PARKED
            (job,) = await b.fetch("b", run=10)
            assert job.id == ids[0]
            await b.done(job)
            assert await b.fetch("b", run=10) == []
            assert await b.jobs.retry(ids[1], Attribution("ann")) is JobState.READY

            assert await b.ids("b", run=10) == ids[1:]

    async def test_the_newest_of_consecutive_jobs_takes_the_place_of_the_others(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(lane="l", coalesce=True, arguments=str(n)) for n in range(4)]
            assert await b.states(*ids) == [JobState.READY, *[JobState.BEHIND] * 3], "nothing is decided before a fetch"
            (job,) = await b.fetch(run=10)

            assert (job.id, job.arguments, job.attempt) == (ids[3], "3", 1)
            assert await b.states(*ids) == [*[JobState.SUPERSEDED] * 3, JobState.FETCHED]
            for old in ids[:3]:
                view = await b.view(old)
                assert view.superseded_by == ids[3]
                assert view.finished_at is not None
            await b.done(job)
            assert await b.lanes() == []

    async def test_only_the_same_name_directly_behind_takes_the_place(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            kinds = [("n", True), ("n", True), ("m", True), ("n", True), ("n", False), ("n", True), ("n", True)]
            ids = [await b.add(lane="l", name=name, coalesce=coalesce) for name, coalesce in kinds]
            got = []
            while jobs := await b.fetch(names=("n", "m")):
                (job,) = jobs
                got.append(job.id)
                await b.done(job)

            assert got == [ids[1], ids[2], ids[3], ids[4], ids[6]]
            assert (await b.view(ids[5])).superseded_by == ids[6]

    async def test_what_runs_is_not_superseded(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="l", coalesce=True)
            running = await b.one()
            ids = [await b.add(lane="l", coalesce=True) for _ in range(3)]
            assert await b.fetch() == []
            assert await b.state(first) is JobState.FETCHED
            await b.done(running)

            assert await b.ids() == [ids[2]]
            assert await b.state(first) is JobState.DONE

    async def test_a_head_that_waits_to_be_retried_gives_way_to_the_newest_when_it_is_due(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="l", coalesce=True)
            await b.end(await b.one(), Outcome.RETRY, delay=10.0, error="no")
            newest = [await b.add(lane="l", coalesce=True) for _ in range(2)][-1]
            assert await b.fetch() == []
            await b.let_pass(10)
            (job,) = await b.fetch()

            assert (job.id, job.attempt) == (newest, 1)
            view = await b.view(first)
            assert (view.state, view.superseded_by) == (JobState.SUPERSEDED, newest)

    async def test_jobs_that_are_not_due_take_nobodys_place(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(lane="l", coalesce=True)
            delayed = await b.add(lane="l", coalesce=True, delay=60.0)
            (job,) = await b.fetch()

            assert job.id == first
            assert await b.state(delayed) is JobState.SCHEDULED

    async def test_without_a_lane_nothing_is_superseded(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(coalesce=True) for _ in range(3)]
            assert await b.ids(run=10) == ids

    async def test_the_newest_is_fetched_under_its_own_limits(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            await b.add(lane="l", coalesce=True)
            newest = await b.add(lane="l", coalesce=True, uses=(slots(1),))
            assert await b.fetch() == []
            await b.done(busy)

            (job,) = await b.fetch()
            assert (job.id, job.slots) == (newest, ("k",))

    async def test_the_newest_stands_in_line_where_those_stood_whose_place_it_takes(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add(uses=(slots(1),))
            busy = await b.one()
            await b.add(lane="l", coalesce=True, uses=(slots(1),))
            assert await b.fetch() == []
            behind = [await b.add(uses=(slots(1),)) for _ in range(2)]
            assert await b.fetch() == []
            newest = [await b.add(lane="l", coalesce=True, uses=(slots(1),)) for _ in range(2)][-1]
            await b.done(busy)
            got = []
            for _ in range(3):
                (job,) = await b.fetch()
                got.append(job.id)
                await b.done(job)

            assert got == [newest, *behind]

    async def test_the_newest_has_the_ticket_also_under_another_limit(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for key in "xy":
                await b.add(uses=(slots(1, key),))
            x, y = await b.fetch()
            await b.add(lane="l", coalesce=True, uses=(slots(1, "x"),))
            assert await b.fetch() == []
            behind = await b.add(uses=(slots(1, "y"),))
            assert await b.fetch() == []
            newest = await b.add(lane="l", coalesce=True, uses=(slots(1, "y"),))
            await b.done(x)
            assert await b.fetch() == []
            await b.done(y)
            got = []
            for _ in range(2):
                (job,) = await b.fetch()
                got.append(job.id)
                await b.done(job)

            assert got == [newest, behind]

    async def test_a_job_gives_way_to_one_in_another_queue(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            old, newest = [await b.add(lane="l", coalesce=True, queue=queue) for queue in ("q", "other")]
            assert await b.fetch() == [], "a job was given to who does not work on its queue"
            assert await b.states(old, newest) == [JobState.SUPERSEDED, JobState.READY]
            (job,) = await b.fetch(queues=("other",))
            assert (job.id, job.queue) == (newest, "other")
            await b.done(job)
            both = [await b.add(lane="l", coalesce=True, queue=queue) for queue in ("other", "q")]

            assert await b.ids(queues=("other", "q")) == both[1:]

    async def test_a_thousand_jobs_give_way_to_the_newest(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(1000, lane="l", coalesce=True)
            got = []
            while jobs := await b.fetch():
                got += [job.id for job in jobs]
                await b.done(*jobs)

            assert got[-1] == ids[-1]
            assert (await b.view(ids[0])).state is JobState.SUPERSEDED
            assert len(got) <= 10


async def _in_runs(b: JobDriver, expected: list[list[int]]) -> None:
    for ids in expected:
        run = await b.fetch("c", run=10)
        assert [job.id for job in run] == ids
        await b.done(*run)
    assert await b.fetch("c", run=10) == []


def _next_to_each_other(jobs: list[FetchedJob]) -> None:
    lanes = [job.lane for job in jobs if job.lane]
    changes = [lane for lane, before in zip(lanes, ["", *lanes], strict=False) if lane != before]
    assert len(changes) == len(set(changes)), f"a run is torn apart: {lanes}"
