"""Jobs as their users see them: enqueued, run, retried, and their results."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from interlock.errors import (
    InvalidArgumentError,
    JobCancelledError,
    JobFailedError,
    JobTimeoutError,
    ResultGoneError,
)
from interlock.jobs import Discard, JobState, Outcome, Retry, RetryLater, Snooze, current_job
from interlock.ports.journal import JournalFilter
from interlock.testing.clock import until
from interlock.testing.conformance.jobs.apps import AppSuite

__all__ = ["RunningConformance"]

_SOON = Retry(attempts=3, delay=0.001, max_delay=0.002)


@dataclasses.dataclass
class Order:
    """Arguments and results of handlers."""

    number: int
    at: datetime
    lines: list[str]


class RunningConformance(AppSuite):
    """A job that was accepted is run, and its result comes back as the type that was declared."""

    async def test_a_job_is_run_by_a_worker_and_gives_its_result(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            at = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)

            @app.job()
            async def enlarge(order: Order, line: str = "Zoë 🦀") -> Order:
                assert isinstance(order.at, datetime)
                return Order(order.number + 1, order.at + timedelta(days=1), [*order.lines, line])

            async with app.worker(concurrency=4):
                first = await enlarge.enqueue(Order(1, at, ["a"]))
                second = await enlarge.enqueue(order=Order(7, at, []), line="b")
                assert await first.result(wait=10) == Order(2, at + timedelta(days=1), ["a", "Zoë 🦀"])
                assert await second.result(wait=10) == Order(8, at + timedelta(days=1), ["b"])

            status = await first.status()
            assert (status.state, status.attempt, status.name) == (JobState.DONE, 1, "enlarge")

    async def test_every_dead_letter_that_matches_is_retried_oldest_first(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            broken = True
            order: list[int] = []

            @app.job(name="publish", retry=Retry(attempts=1), lane="l")
            async def publish(number: int) -> None:
                if broken:
                    raise ValueError(number)
                order.append(number)

            @app.job(name="other", retry=Retry(attempts=1))
            async def other() -> None:
                raise ValueError("other")

            handles = await app.jobs.enqueue_many([publish.call(number=number) for number in range(5)])
            await other.enqueue()
            await app.drain()
            assert await app.jobs.matching(JobState.FAILED, name="publish") == [handle.id for handle in handles]
            broken = False
            retried = await app.jobs.retry_all(JobState.FAILED, name="publish", by="ann")
            assert retried == (tuple(handle.id for handle in handles), ())
            await app.drain()

            assert order == list(range(5))
            assert len(await app.jobs.matching(JobState.FAILED)) == 1
            with pytest.raises(InvalidArgumentError, match="state"):
                await app.jobs.retry_all(by="ann")

    async def test_all_lanes_that_match_are_held_and_released(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(name="build", lane="{lane}")
            async def build(lane: str) -> None: ...

            for lane in ("a/", "a/1", "a/2", "b/1"):
                await build.enqueue(lane=lane)
            await app.lanes.hold("a/2", by="bob", reason="mine")
            assert await app.lanes.matching(prefix="a/") == ["a/", "a/1", "a/2"]

            held = await app.lanes.hold_all(prefix="a/", by="ann", reason="deploying")
            assert held == (("a/", "a/1"), ())
            assert (await app.lanes.get("a/2")).held_by == "bob", "a lane that is held already is left alone"
            assert await app.lanes.matching(show="held") == ["a/", "a/1", "a/2"]
            await app.drain()
            assert await app.lanes.matching() == ["a/", "a/1", "a/2"], "the lane without a hold is empty"

            released = await app.lanes.release_all(prefix="a/", by="ann", reason="deployed")
            assert released == (("a/", "a/1", "a/2"), ())
            entries = await app.insight.journal(JournalFilter(actor="ann"))
            assert [(entry.action, entry.subject_key, entry.reason) for entry in entries][::-1] == [
                ("lane.hold", "a/", "deploying"),
                ("lane.hold", "a/1", "deploying"),
                ("lane.release", "a/", "deployed"),
                ("lane.release", "a/1", "deployed"),
                ("lane.release", "a/2", "deployed"),
            ]
            with pytest.raises(InvalidArgumentError):
                await app.lanes.matching(show="nonsense")

    async def test_all_jobs_that_match_are_cancelled(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(name="build")
            async def build() -> None: ...

            @app.job(name="other")
            async def other() -> None: ...

            handles = [await build.enqueue() for _ in range(3)]
            await other.enqueue()
            cancelled = await app.jobs.cancel_all(JobState.READY, name="build", by="ann", reason="not needed")
            assert cancelled == (tuple(handle.id for handle in handles), ())
            assert len(await app.jobs.matching(JobState.READY)) == 1
            entries = await app.insight.journal()
            assert [(entry.action, entry.actor, entry.reason) for entry in entries] == [
                ("job.cancel", "ann", "not needed")
            ] * 3

    async def test_a_plain_function_hands_what_is_awaited_to_the_apps_loop(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            loop = asyncio.get_running_loop()

            @app.job(retry=Retry(attempts=1))
            async def after(number: int) -> int:
                return number

            @app.job(retry=Retry(attempts=1))
            def alone() -> None:
                asyncio.run(after.enqueue(number=1))

            @app.job(retry=Retry(attempts=1))
            def locking() -> None:
                async def take() -> None:
                    async with app.locks.acquire("key"):
                        pass

                asyncio.run(take())

            @app.job(retry=Retry(attempts=1))
            def handed() -> int:
                return asyncio.run_coroutine_threadsafe(after.enqueue(number=2), loop).result().id

            async with app.worker(concurrency=4):
                for job in (alone, locking):
                    with pytest.raises(JobFailedError, match="opened on another event loop"):
                        await (await job.enqueue()).result(wait=10)
                number = await (await handed.enqueue()).result(wait=10)
                assert await app.jobs.result_of(number, wait=10) == 2

    async def test_plain_functions_run_in_threads_side_by_side(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            both = threading.Barrier(2, timeout=10)

            @app.job()
            def meet(number: int) -> int:
                both.wait()
                assert threading.current_thread() is not threading.main_thread()
                return number * current_job().attempt

            async with app.worker(concurrency=2):
                handles = await app.jobs.enqueue_many([meet.call(number) for number in (3, 4)])
                assert [await handle.result(wait=10) for handle in handles] == [3, 4]

    async def test_many_jobs_are_all_run_once(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            seen: list[int] = []

            @app.job()
            async def note(number: int) -> None:
                seen.append(number)

            await app.jobs.enqueue_many([note.call(number) for number in range(500)])
            counts = await app.drain(wait=30)

            assert sorted(seen) == list(range(500))
            assert counts == {Outcome.DONE: 500}

    async def test_idle_workers_are_told_of_new_jobs(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job()
            async def echo(number: int) -> int:
                return number

            async with app.worker():
                await (await echo.enqueue(0)).result(wait=10)
                began = time.monotonic()
                for number in range(10):
                    assert await (await echo.enqueue(number)).result(wait=10) == number
                assert time.monotonic() - began < 40, "they were not told"

    async def test_failures_are_tried_again_by_their_class(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            tries: dict[str, int] = {}
            policy = dataclasses.replace(_SOON, transient=(KeyError,), permanent=(lambda error: "never" in str(error),))
            errors = {
                "transient": KeyError("again"),
                "unknown": RuntimeError("again"),
                "permanent": RuntimeError("never"),
                "built in": TypeError("no"),
            }

            @app.job(retry=policy)
            async def fail(kind: str) -> None:
                tries[kind] = current_job().attempt
                raise errors[kind]

            @app.job(retry=policy)
            async def recover() -> int:
                if current_job().attempt < 3:
                    raise ConnectionError
                return current_job().attempt

            handles = {kind: await fail.enqueue(kind) for kind in errors}
            good = await recover.enqueue()
            async with app.worker():
                assert await good.result(wait=10) == 3
                for kind, handle in handles.items():
                    with pytest.raises(JobFailedError) as failed:
                        await handle.result(wait=10)
                    assert failed.value.error.startswith(type(errors[kind]).__name__)
                    assert "in fail" in failed.value.trace

            assert tries == {"transient": 3, "unknown": 3, "permanent": 1, "built in": 1}
            view = await app.jobs.get(handles["unknown"])
            assert view is not None
            assert [(one.number, one.outcome) for one in view.attempts] == [(1, "retry"), (2, "retry"), (3, "failed")]

    async def test_handlers_say_what_becomes_of_their_jobs(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            calls: list[str] = []

            @app.job(retry=Retry(attempts=2, delay=60.0))
            async def later() -> int:
                calls.append("later")
                if len(calls) == 1:
                    raise RetryLater(0.001, "busy")
                return current_job().attempt

            @app.job(retry=Retry(attempts=2))
            async def too_late() -> None:
                raise RetryLater(0.001, "still busy")

            @app.job(retry=Retry.NEVER)
            async def snooze() -> int:
                if calls.count("snooze") < 3:
                    calls.append("snooze")
                    raise Snooze(0.001)
                return current_job().attempt

            @app.job()
            async def discard() -> None:
                raise Discard("closed already")

            async with app.worker():
                assert await (await later.enqueue()).result(wait=10) == 2, "a RetryLater is an attempt"
                assert await (await snooze.enqueue()).result(wait=10) == 1, "a Snooze is none"
                with pytest.raises(JobFailedError, match="still busy"):
                    await (await too_late.enqueue()).result(wait=10)
                with pytest.raises(JobCancelledError, match="closed already"):
                    await (await discard.enqueue()).result(wait=10)

    async def test_a_handler_that_takes_too_long_is_stopped_and_tried_again(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            stopped: list[int] = []

            @app.job(timeout=0.03, retry=_SOON)
            async def hang() -> None:
                try:
                    await asyncio.sleep(60)
                finally:
                    stopped.append(current_job().attempt)

            handle = await hang.options(retry=Retry(attempts=2, delay=0.001)).enqueue()
            async with app.worker():
                with pytest.raises(JobFailedError, match=r"0\.03"):
                    await handle.result(wait=10)

            assert stopped == [1, 2]

    async def test_a_dead_letter_is_kept_and_can_be_retried(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            mended = False

            @app.job(retry=Retry.NEVER)
            async def deliver(address: str) -> str:
                if not mended:
                    raise ValueError("no such street")
                return address

            handle = await deliver.enqueue("Elm Street")
            async with app.worker():
                with pytest.raises(JobFailedError, match="no such street"):
                    await handle.result(wait=10)
                (dead,) = await app.jobs.list(JobState.FAILED)
                assert (dead.id, dead.error) == (handle.id, "ValueError: no such street")
                mended = True
                await app.jobs.retry(handle, by="ann")
                assert await handle.result(wait=10) == "Elm Street"

            view = await app.jobs.get(handle)
            assert view is not None
            assert (view.state, view.attempt) == (JobState.DONE, 1)

    async def test_delayed_jobs_run_when_they_are_due(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job()
            async def now() -> datetime:
                return datetime.now(UTC)

            enqueued = datetime.now(UTC)
            soon = await now.options(delay=0.1).enqueue()
            then = await now.options(at=enqueued + timedelta(seconds=0.1)).enqueue()
            never = await now.options(delay=3600).enqueue()
            async with app.worker():
                for handle in (soon, then):
                    assert await handle.result(wait=10) >= enqueued + timedelta(seconds=0.099)
            assert (await never.status()).state is JobState.SCHEDULED

    async def test_waiting_for_a_result_ends_in_time(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(keep_result=0.01)
            async def give() -> int:
                return 7

            handle = await give.enqueue()
            with pytest.raises(JobTimeoutError, match="has not ended"):
                await handle.result(wait=0.05)
            await app.drain()

            async def gone() -> bool:
                try:
                    assert await handle.result(wait=0) == 7
                except ResultGoneError:
                    return True
                return False

            await until(gone, what="the result is no longer kept")

    async def test_wrong_arguments_are_refused_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(lane="{order.number}")
            async def take(order: Order, rate: float = 1.0) -> None: ...

            good = Order(1, datetime.now(UTC), [])
            bad = (
                lambda: take.call("order"),  # type: ignore[arg-type]
                lambda: take.call(),  # type: ignore[call-arg]
                lambda: take.call(good, 1.0, 2),  # type: ignore[call-arg]
                lambda: take.call(good, rate=float("nan")),
                lambda: take.call(dataclasses.replace(good, at=datetime(2026, 1, 1))),  # noqa: DTZ001
                lambda: take.call(dataclasses.replace(good, lines=["x" * 1024 * 1024])),
                lambda: take.options(priority=101),
                lambda: take.options(delay=-1),
                lambda: take.options(at=datetime(2026, 1, 1)),  # noqa: DTZ001
            )
            for wrong in bad:
                with pytest.raises(InvalidArgumentError):
                    wrong()

            assert list(await app.jobs.list()) == []
            assert list(await app.queues.list()) == []
