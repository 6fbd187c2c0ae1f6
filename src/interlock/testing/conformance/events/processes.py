"""Real processes that receive deliveries, some of which are killed meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

from interlock.app import App
from interlock.events import Event, GitHub, ReceiptStatus
from interlock.jobs.listing import list_jobs
from interlock.ports.events import EventFilter
from interlock.ports.job_views import JobFilter
from interlock.ports.store import Capability
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.events.apps import SECRET, EventAppSuite, delivery, issue
from interlock.testing.processes import Worker, receive_async, report

__all__ = ["EventProcessConformance"]

_HERE = __name__
_LANES = 5


def _door(url: str, namespace: str) -> App:
    """An app with two handlers for each issue."""
    app = App(url, namespace=namespace, session_ttl=30.0, stuck_work="report")
    app.source(GitHub(SECRET))

    @app.on("github.issues.*", name="first", lane="{issue.number}")
    async def first(event: Event) -> None: ...

    @app.on("github.issues.*", name="second")
    async def second(event: Event) -> None: ...

    assert (first.name, second.name) == ("first", "second")
    return app


async def take_deliveries(url: str, namespace: str, count: int, at_once: int) -> None:
    """In a worker: on a message, receive deliveries g0, g1, …, several at once, and report each answer."""
    async with _door(url, namespace) as app:
        report("open")
        await receive_async("go")
        places = asyncio.Semaphore(at_once)

        async def take(number: int) -> None:
            async with places:
                receipt = await app.events.receive("github", *delivery(issue(number % _LANES), f"g{number}"))
                report("answered", guid=f"g{number}", status=receipt.status)

        await asyncio.gather(*(take(number) for number in range(count)))
        report("done")
        await receive_async("end")


class EventProcessConformance(EventAppSuite):
    """Once, across processes and kills."""

    @needs(Capability.PROCESSES)
    async def test_deliveries_at_several_processes_are_accepted_once(self, store_url: str) -> None:
        async with AsyncExitStack() as stack:
            doors = [
                await stack.enter_async_context(
                    Worker.spawn(f"{_HERE}:take_deliveries", (store_url, self.namespace, 60, 20))
                )
                for _ in range(2)
            ]
            for door in doors:
                await door.wait_for("open", timeout=30)
            for door in doors:
                door.send("go")
            verdicts: Counter[tuple[str, str]] = Counter()
            for door in doors:
                for _ in range(60):
                    answer = await door.wait_for("answered", timeout=30)
                    verdicts[answer["guid"], answer["status"]] += 1

            assert verdicts == {
                (f"g{number}", verdict): 1
                for number in range(60)
                for verdict in (ReceiptStatus.ACCEPTED, ReceiptStatus.DUPLICATE)
            }
            await self._everything_once(store_url, {f"g{number}" for number in range(60)})

    @needs(Capability.PROCESSES)
    async def test_a_kill_between_loses_nothing_that_was_answered_and_doubles_nothing(self, store_url: str) -> None:
        answered: set[str] = set()
        for after in (1, 40, 90):
            async with Worker.spawn(f"{_HERE}:take_deliveries", (store_url, self.namespace, 400, 25)) as door:
                await door.wait_for("open", timeout=30)
                door.send("go")
                for _ in range(after):
                    answered.add((await door.wait_for("answered", timeout=30))["guid"])
                door.kill()
        async with self.port(store_url) as store:
            kept = {view.delivery for view in await store.events.list(EventFilter(), limit=1000)}

        assert answered <= kept, "an answer was given for a delivery that is not kept"
        await self._everything_once(store_url, kept)
        async with _door(store_url, self.namespace) as app:
            for guid in sorted(kept):
                again = await app.events.receive("github", *delivery(issue(), guid))
                assert again.status is ReceiptStatus.DUPLICATE

    async def _everything_once(self, url: str, expected: set[str]) -> None:
        """Check that each delivery is one event with exactly its jobs, in order within lanes."""
        async with self.port(url) as store:
            events = await store.events.list(EventFilter(), limit=1000)
            jobs = {view.id: view for view in await list_jobs(store.insight, JobFilter(), 10_000)}

        assert Counter(view.delivery for view in events) == Counter(expected)
        assert sorted(job for view in events for job in view.jobs) == sorted(jobs)
        assert all([jobs[job].name for job in view.jobs] == ["first", "second"] for view in events)
