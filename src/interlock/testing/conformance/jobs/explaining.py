"""Why a job waits, where it runs, how it ended: the answer in every state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import NotFoundError
from interlock.jobs import Discard, JobState, Reason, Retry, Snooze
from interlock.limits import Cooldown, Slots
from interlock.ports.store import Capability
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.jobs.apps import AppSuite

if TYPE_CHECKING:
    from interlock.app import App
    from interlock.jobs import Handle

__all__ = ["TellingConformance"]


async def _reason(app: App, handle: Handle[Any]) -> Reason:
    explanation = await app.jobs.explain(handle)
    assert explanation.lines
    assert str(handle.id) in explanation.lines[0]
    return explanation.reason


class TellingConformance(AppSuite):
    """Status, explanations and lists."""

    async def test_it_is_told_why_a_job_does_not_run(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            began, go_on = asyncio.Event(), asyncio.Event()

            @app.job(lane="{lane}", limits=[Slots("one", 1)])
            async def slow(lane: str) -> None:
                began.set()
                await go_on.wait()

            @app.job(limits=[Cooldown("gap", 3600)])
            async def seldom() -> None: ...

            @app.job(queue="other")
            async def elsewhere() -> None: ...

            running, behind, limited = [await slow.enqueue(lane) for lane in ("x", "x", "y")]
            assert await _reason(app, running) is Reason.NO_WORKER
            delayed = await elsewhere.options(delay=3600).enqueue()
            unattended = await elsewhere.enqueue()
            await app.lanes.hold("z", reason="deploying", by="ann")
            held = await slow.enqueue("z")
            async with app.worker():
                await asyncio.wait_for(began.wait(), 30)
                await (await seldom.enqueue()).result(wait=30)
                second = await seldom.enqueue()
                await self.becomes(second, JobState.WAITING)
                await self.becomes(limited, JobState.WAITING)
                await self.becomes(running, JobState.RUNNING)
                handles = (running, behind, limited, delayed, unattended, held, second)
                assert [await _reason(app, handle) for handle in handles] == [
                    Reason.RUNNING, Reason.BEHIND, Reason.LIMIT, Reason.DELAYED, Reason.NO_WORKER, Reason.LANE_HELD,
                    Reason.PACE,
                ]  # fmt: skip
                assert "ann" in str(await app.jobs.explain(held))
                assert str(running.id) in str(await app.jobs.explain(behind))
                assert [(await app.lanes.explain(lane)).reason for lane in "xyz"] == [
                    Reason.RUNNING, Reason.LIMIT, Reason.LANE_HELD
                ]  # fmt: skip
                go_on.set()
                await limited.result(wait=10)
            assert (await app.lanes.explain("x")).reason in (Reason.IDLE, Reason.NO_WORKER)
            with pytest.raises(NotFoundError):
                await app.jobs.explain(2**40)

    async def test_it_is_told_how_a_job_ended_or_what_it_waits_for_after_a_try(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(retry=Retry(attempts=2, delay=3600), lane="{lane}", on_failure="park", coalesce=True)
            async def end(lane: str, how: str) -> None:
                if how == "snooze":
                    raise Snooze(3600)
                if how == "discard":
                    raise Discard("nothing to do")
                if how == "retry":
                    raise ConnectionError("busy")
                if how == "fail":
                    raise TypeError("broken")

            hows = ("snooze", "discard", "retry", "fail", "done")
            handles = {how: await end.enqueue(how, how) for how in hows}
            behind_parked = await end.options(coalesce=False).enqueue("fail", "done")
            older, newer = await end.enqueue("new", "done"), await end.enqueue("new", "done")
            cancelled = await end.options(delay=3600).enqueue("gone", "done")
            await app.jobs.cancel(cancelled, reason="not wanted", by="ann")
            await app.drain()
            reasons = {how: await _reason(app, handle) for how, handle in handles.items()}

            assert reasons == {
                "snooze": Reason.SNOOZED, "discard": Reason.DISCARDED, "retry": Reason.TO_BE_RETRIED,
                "fail": Reason.FAILED, "done": Reason.DONE,
            }  # fmt: skip
            assert await _reason(app, behind_parked) is Reason.LANE_PARKED
            assert (await app.lanes.explain("fail")).reason is Reason.LANE_PARKED
            assert await _reason(app, cancelled) is Reason.CANCELLED
            assert [await _reason(app, handle) for handle in (older, newer)] == [Reason.SUPERSEDED, Reason.DONE]

    @needs(Capability.PROCESSES)
    async def test_it_is_told_that_nobody_knows_a_job_and_that_its_arguments_no_longer_fit(
        self, store_url: str
    ) -> None:
        async with self.app(store_url) as new, self.app(store_url) as old:

            @new.job(name="report")
            async def newer(account: str) -> None: ...

            @new.job()
            async def unheard_of() -> None: ...

            @old.job(name="report")
            async def older(account: int) -> None: ...

            strange, misfit = await unheard_of.enqueue(), await newer.enqueue("a1")
            async with old.worker():
                await self.becomes(misfit, JobState.PARKED)
                assert await _reason(new, misfit) is Reason.PARKED
                assert await _reason(new, strange) is Reason.UNKNOWN_NAME
            await new.drain()
            await misfit.result(wait=5)

    @needs(Capability.PROCESSES)
    async def test_it_is_told_that_a_job_killed_too_many_workers(self, store_url: str) -> None:
        async with self.app(store_url) as app, self.port(store_url) as port:

            @app.job()
            async def kill() -> None: ...

            killer = await kill.enqueue()
            for number in range(3):
                await self.die(port, f"k{number}", killer)
                await port.jobs.rescue()

            assert await _reason(app, killer) is Reason.QUARANTINED
            await app.jobs.retry(killer, by="ann")
            await app.drain()
            assert await _reason(app, killer) is Reason.DONE

    async def test_queues_and_lanes_are_listed(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(queue="mail", lane="{to}")
            async def send(to: str) -> None: ...

            for to in ("ann", "ann", "bob"):
                await send.enqueue(to)
            (queue,) = await app.queues.list()
            assert (queue.queue, queue.ready, queue.behind) == ("mail", 2, 1)
            lanes = {lane.lane: lane.depth for lane in await app.lanes.list()}
            assert sorted(lanes.values()) == [1, 2]
            assert {view.lane for view in await app.jobs.list(JobState.READY, queue="mail")} == set(lanes)
