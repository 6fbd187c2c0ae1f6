"""Queues as their users see them: paused and resumed, and with a concurrency of their own."""

from __future__ import annotations

import asyncio

from interlock.jobs import JobState, Outcome
from interlock.reasons import Reason
from interlock.testing.clock import until
from interlock.testing.conformance.jobs.apps import AppSuite

__all__ = ["QueueUserConformance"]


class QueueUserConformance(AppSuite):
    """What ``app.queues`` and ``app.worker(queues=…)`` promise."""

    async def test_a_paused_queue_finishes_what_runs_and_starts_nothing(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            started: list[int] = []
            go = asyncio.Event()

            @app.job(name="send", queue="mail")
            async def send(number: int) -> None:
                started.append(number)
                await go.wait()

            @app.job(name="work")
            async def work() -> None: ...

            handles = await app.jobs.enqueue_many([send.call(number=number) for number in range(6)])
            async with app.worker(queues=["mail", "default"], concurrency=2):
                await until(lambda: len(started) == 2)
                await app.queues.pause("mail", by="ann", reason="provider is down")
                for handle in handles[2:]:
                    await self.becomes(handle, JobState.READY)
                why = await app.queues.explain("mail")
                assert why.reason is Reason.QUEUE_PAUSED
                assert "by ann: provider is down" in str(why)
                assert (await app.jobs.explain(handles[5].id)).reason is Reason.QUEUE_PAUSED
                go.set()
                for handle in handles[:2]:
                    await handle.result(wait=10)
                await (await work.enqueue()).result(wait=10)
                last = await send.enqueue(number=6)
                assert len(started) == 2

                view = await app.queues.get("mail")
                assert (view.paused_by, view.paused_reason, view.ready) == ("ann", "provider is down", 5)
                assert await app.queues.resume("mail", by="ann")
                for handle in [*handles, last]:
                    await handle.result(wait=10)
            assert not await app.queues.resume("mail", by="ann")
            assert sorted(started) == list(range(7))

    async def test_a_drain_leaves_paused_queues_alone(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(name="send", queue="mail")
            async def send() -> None: ...

            handle = await send.enqueue()
            await app.queues.pause("mail", by="ann", reason="later")
            assert await app.drain() == {}
            assert (await handle.status()).state is JobState.READY
            await app.queues.resume("mail", by="ann")
            assert await app.drain() == {Outcome.DONE: 1}

    async def test_a_queue_runs_no_more_than_its_own_number_and_starves_no_other(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            inside = {"mail": 0, "default": 0}
            largest = {"mail": 0, "default": 0}
            go = asyncio.Event()

            async def enter(queue: str) -> None:
                inside[queue] += 1
                largest[queue] = max(largest[queue], inside[queue])
                await (go.wait() if queue == "mail" else asyncio.sleep(0.001))
                inside[queue] -= 1

            @app.job(name="send", queue="mail")
            async def send() -> None:
                await enter("mail")

            @app.job(name="work")
            async def work() -> None:
                await enter("default")

            mails = await app.jobs.enqueue_many([send.call() for _ in range(40)])
            async with app.worker(queues={"mail": 2, "default": 5}) as worker:
                await until(lambda: inside["mail"] == 2)
                for handle in await app.jobs.enqueue_many([work.call() for _ in range(60)]):
                    await handle.result(wait=10)
                status = worker.status()
                assert (status.concurrency, dict(status.queue_concurrency)) == (7, {"mail": 2, "default": 5})
                (found,) = await app.insight.workers()
                assert (found.runners, dict(found.queue_runners)) == (7, {"mail": 2, "default": 5})
                assert (await app.queues.get("mail")).runners == 2
                go.set()
                for handle in mails:
                    await handle.result(wait=10)
                await worker.wait_until_idle()
                assert worker.counts[Outcome.DONE] == 100
            assert largest == {"mail": 2, "default": 5}
            assert worker.status().state == "closed"

    async def test_queues_without_a_number_share_the_concurrency(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            order: list[str] = []

            @app.job(name="first", queue="mail")
            async def first() -> None:
                order.append("first")
                await second.enqueue()

            @app.job(name="second", queue="slow")
            async def second() -> None:
                order.append("second")
                if len(order) < 6:
                    await first.enqueue()

            await first.enqueue()
            async with app.worker(queues={"mail": 1, "slow": None, "default": None}, concurrency=3) as worker:
                await worker.wait_until_idle()
                assert worker.status().queue_concurrency == {"mail": 1, "slow": 3, "default": 3}
            assert order == ["first", "second"] * 3
