"""Jobs that must not get in each other's way: lanes, limits, holds, several workers, and workers that die."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import DeadlockError, JobCancelledError, JobFailedError
from interlock.jobs import JobState, Outcome, Retry, current_job
from interlock.limits import Rate, Slots
from interlock.ports.jobs import FetchRequest, FetchResult
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.testing.clock import until
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.jobs.apps import AppSuite

if TYPE_CHECKING:
    from interlock.app import App

__all__ = ["TogetherConformance"]


class TogetherConformance(AppSuite):
    """Order and limits hold across all workers, and what people say is done."""

    async def test_jobs_of_a_lane_run_in_order_and_one_at_a_time(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            await self._lanes_hold([app])

    @needs(Capability.PROCESSES)
    async def test_lanes_hold_across_processes(self, store_url: str) -> None:
        async with AsyncExitStack() as stack:
            await self._lanes_hold([await stack.enter_async_context(self.app(store_url)) for _ in range(3)])

    async def _lanes_hold(self, apps: list[App]) -> None:
        order: dict[str, list[int]] = {}
        inside: set[str] = set()
        overlaps: list[str] = []

        async def work(lane: str, number: int) -> None:
            if lane in inside:
                overlaps.append(lane)
            inside.add(lane)
            await asyncio.sleep(0.001 if number % 5 == 0 else 0)
            if number % 7 == 3 and current_job().attempt == 1:
                inside.remove(lane)
                raise RuntimeError("again")
            order.setdefault(lane, []).append(number)
            inside.remove(lane)

        jobs = [app.job(lane="{lane}", retry=Retry(attempts=2, delay=0.001))(work) for app in apps]
        handles = await apps[0].jobs.enqueue_many(
            [jobs[0].call(lane, number) for number in range(25) for lane in ("x", "y", "z")]
        )
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.worker(concurrency=8))
            for handle in handles:
                await handle.result(wait=30)

        assert overlaps == []
        assert order == {lane: list(range(25)) for lane in "xyz"}

    async def test_no_more_run_at_once_than_there_are_slots(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            await self._slots_hold([app])

    @needs(Capability.PROCESSES)
    async def test_slots_hold_across_processes(self, store_url: str) -> None:
        async with AsyncExitStack() as stack:
            await self._slots_hold([await stack.enter_async_context(self.app(store_url)) for _ in range(3)])

    async def _slots_hold(self, apps: list[App]) -> None:
        inside: Counter[str] = Counter()
        largest: Counter[str] = Counter()

        async def work(account: str) -> None:
            for key in (account, "all"):
                inside[key] += 1
                largest[key] = max(largest[key], inside[key])
            await asyncio.sleep(0.002)
            inside.subtract((account, "all"))

        limits = [Slots("all", 3), Slots("account", 2, key="{account}")]
        jobs = [app.job(limits=limits)(work) for app in apps]
        handles = await apps[0].jobs.enqueue_many([jobs[0].call(account) for _ in range(15) for account in "ab"])
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.worker(concurrency=8))
            for handle in handles:
                await handle.result(wait=30)

        assert (largest["all"], largest["a"] <= 2, largest["b"] <= 2) == (3, True, True)

    async def test_starts_are_as_far_apart_as_a_rate_says(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(limits=[Rate("api", 2, per=0.15)])
            async def call() -> None: ...

            handles = await app.jobs.enqueue_many([call.call() for _ in range(6)])
            async with app.worker():
                for handle in handles:
                    await handle.result(wait=20)
            views = [await app.jobs.get(handle) for handle in handles]

            starts = sorted(view.fetched_at for view in views if view.fetched_at)
            assert len(starts) == 6
            assert all((starts[n + 2] - starts[n]).total_seconds() >= 0.149 for n in range(4))

    async def test_other_jobs_go_on_while_a_limit_is_used_up(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            go_on = asyncio.Event()

            @app.job(limits=[Slots("one", 1)])
            async def narrow() -> None:
                await go_on.wait()

            @app.job()
            async def free() -> str:
                return "done"

            async with app.worker(concurrency=2):
                slow = await app.jobs.enqueue_many([narrow.call() for _ in range(20)])
                assert await (await free.enqueue()).result(wait=10) == "done"
                go_on.set()
                for handle in slow:
                    await handle.result(wait=20)

    async def test_older_jobs_of_a_lane_give_way_and_their_handles_follow_the_newest(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            seen: list[int] = []

            @app.job(lane="{page}", coalesce=True)
            async def render(page: str, version: int) -> int:
                seen.append(version)
                return version

            handles = await app.jobs.enqueue_many([render.call("home", version) for version in range(5)])
            await app.drain()

            assert seen == [4]
            assert [await handle.result(wait=5) for handle in handles] == [4] * 5
            assert {(await handle.status()).id for handle in handles} == {handles[-1].id}

    async def test_a_running_job_is_stopped_by_cancelling_it(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            began = asyncio.Event()

            @app.job(lane="l", retry=Retry(attempts=5, delay=0.001))
            async def hang() -> None:
                began.set()
                await asyncio.sleep(60)

            first, second = await hang.enqueue(), await hang.enqueue()
            async with app.worker():
                await asyncio.wait_for(began.wait(), 10)
                assert await app.jobs.cancel(second, reason="not wanted", by="ann") is JobState.CANCELLED
                await app.jobs.cancel(first, reason="hangs", by="ann")
                with pytest.raises(JobCancelledError, match="hangs"):
                    await first.result(wait=10)
                with pytest.raises(JobCancelledError, match="not wanted"):
                    await second.result(wait=10)

    async def test_nothing_of_a_held_lane_starts_until_it_is_released(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            began, go_on = asyncio.Event(), asyncio.Event()
            seen: list[int] = []

            @app.job(lane="l")
            async def step(number: int) -> None:
                seen.append(number)
                began.set()
                await go_on.wait()

            @app.job()
            async def other() -> str:
                return "done"

            handles = await app.jobs.enqueue_many([step.call(number) for number in range(4)])
            async with app.worker():
                await asyncio.wait_for(began.wait(), 10)
                await app.lanes.hold("l", reason="deploying", by="ann")
                go_on.set()
                await handles[0].result(wait=10)
                await self.becomes(handles[1], JobState.HELD)
                assert await (await other.enqueue()).result(wait=10) == "done"
                assert seen == [0]
                assert await app.lanes.release("l", by="ann")
                for handle in handles:
                    await handle.result(wait=10)
            assert seen == [0, 1, 2, 3]

    async def test_a_lane_is_parked_after_a_failure_until_it_is_released(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(lane="l", on_failure="park", retry=Retry.NEVER)
            async def step(number: int) -> int:
                if number == 0:
                    raise ValueError("broken")
                return number

            bad, good = await app.jobs.enqueue_many([step.call(0), step.call(1)])
            assert await app.drain() == {Outcome.FAILED: 1}
            assert ((await bad.status()).state, (await good.status()).state) == (JobState.FAILED, JobState.HELD)
            assert await app.lanes.release("l", by="ann")
            await app.drain()
            assert await good.result(wait=5) == 1

    async def test_draining_runs_what_can_run_now_and_leaves_the_rest(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(lane="{number}", retry=Retry.NEVER)
            async def step(number: int) -> None:
                if number < 2:
                    raise ValueError("no")
                if number < 6:
                    await step.enqueue(number + 100)

            await app.jobs.enqueue_many([step.call(number) for number in range(8)])
            later = await step.options(delay=3600).enqueue(9)

            assert await app.drain() == {Outcome.DONE: 10, Outcome.FAILED: 2}
            assert await app.drain() == {}
            assert (await later.status()).state is JobState.SCHEDULED

    async def test_a_worker_that_finishes_gives_back_what_has_not_started(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            began, go_on = asyncio.Event(), asyncio.Event()

            @app.job()
            async def slow() -> int:
                began.set()
                await go_on.wait()
                return 1

            handles = await app.jobs.enqueue_many([slow.call() for _ in range(5)])
            async with app.worker(concurrency=2) as worker:
                await asyncio.wait_for(began.wait(), 10)
                finishing = asyncio.create_task(worker.finish())
                go_on.set()
                await finishing
            states = Counter([(await handle.status()).state for handle in handles])
            assert states[JobState.FETCHED] == states[JobState.RUNNING] == 0
            assert states[JobState.DONE] >= 1
            await app.drain()

            assert [await handle.result(wait=5) for handle in handles] == [1] * 5
            views = [await app.jobs.get(handle) for handle in handles]
            assert {(view.attempt, view.crashes) for view in views} == {(1, 0)}

    async def test_a_worker_that_is_stopped_costs_its_jobs_no_attempt(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            began, calm = asyncio.Event(), asyncio.Event()

            @app.job(retry=Retry.NEVER)
            async def slow() -> int:
                began.set()
                await asyncio.sleep(0 if calm.is_set() else 60)
                return current_job().attempt

            handle = await slow.enqueue()
            async with app.worker() as worker:
                await asyncio.wait_for(began.wait(), 10)
                await worker.stop()
            calm.set()
            await app.drain()
            assert await handle.result(wait=5) == 1

    @needs(Capability.PROCESSES)
    async def test_the_jobs_of_a_worker_that_died_are_rescued_and_those_that_kill_are_quarantined(
        self, store_url: str
    ) -> None:
        async with self.app(store_url) as app, self.port(store_url) as port:

            @app.job()
            async def echo(number: int) -> int:
                return number

            @app.job()
            async def kill() -> None: ...

            once, killer = await echo.enqueue(7), await kill.enqueue()
            await self.die(port, "v1", once)
            for number in range(2):
                await self.die(port, f"k{number}", killer)
                await port.jobs.rescue()
            await self.die(port, "k2", killer)
            async with app.worker():
                assert await once.result(wait=20) == 7
                with pytest.raises(JobFailedError, match="quarantined"):
                    await killer.result(wait=20)
            status = await killer.status()
            assert (status.state, status.crashes) == (JobState.QUARANTINED, 3)

    @needs(Capability.PROCESSES)
    async def test_what_a_dead_worker_had_runs_again_in_two_halves_each_side_by_side(self, store_url: str) -> None:
        """The second half starts when the first has ended, at once: polling would take a minute."""
        async with self.app(store_url) as app, self.port(store_url) as port:
            begun: list[int] = []
            ended: list[int] = []
            seen: list[tuple[int, int]] = []
            halves = [asyncio.Event(), asyncio.Event()]

            @app.job()
            async def build(number: int) -> int:
                half = halves[len(begun) // 4]
                seen.append((len(begun), len(ended)))
                begun.append(number)
                if len(begun) % 4 == 0:
                    half.set()
                await half.wait()
                ended.append(number)
                return number

            handles = await app.jobs.enqueue_many([build.call(number) for number in range(8)])
            await port.sessions.begin(SessionCard("dead", "elsewhere", 7, "test"), 60.0)
            batch = await port.jobs.fetch(FetchRequest("dead", ("default",), ("build",), 8, 8, 1))
            assert isinstance(batch, FetchResult)
            assert len(batch.jobs) == 8
            await port.sessions.end("dead")
            assert len(await port.jobs.rescue()) == 8
            async with app.worker(concurrency=50):
                assert [await handle.result(wait=30) for handle in handles] == list(range(8))

            assert [before for before, _ in seen] == list(range(8))
            assert {after for _, after in seen[:4]} == {0}
            assert {after for _, after in seen[4:]} == {4}, "the halves ran side by side in one process"

    @needs(Capability.PROCESSES)
    async def test_results_are_heard_of_in_other_processes(self, store_url: str) -> None:
        async with self.app(store_url) as mine, self.app(store_url) as theirs:

            async def echo(number: int) -> int:
                return number

            handle = await mine.job()(echo).enqueue(7)
            theirs.job()(echo)
            waiting: asyncio.Task[Any] = asyncio.create_task(handle.result(wait=10))
            await asyncio.sleep(0)
            async with theirs.worker():
                assert await waiting == 7
                assert await mine.jobs.handle(handle.id).result(wait=5) == 7

    async def test_a_handler_cannot_wait_for_what_waits_for_it(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            refused: list[str] = []

            @app.job(lane="{lane}", limits=[Slots("one", 1)])
            async def wait_for(lane: str, other: int) -> None:
                try:
                    await app.jobs.handle(other).result(wait=30)
                except DeadlockError as error:
                    refused.append(str(error))

            @app.job(lane="{lane}")
            async def behind(lane: str) -> None: ...

            @app.job(limits=[Slots("one", 1)])
            async def narrow() -> None: ...

            for other in (await behind.options(delay=0.5).enqueue("l"), await narrow.options(delay=0.5).enqueue()):
                await wait_for.enqueue("l", other.id)
            async with app.worker():
                await until(lambda: len(refused) == 2, what="both are refused")
