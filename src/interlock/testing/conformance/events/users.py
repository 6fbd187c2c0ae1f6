"""The public API of ``app.events`` with workers and the whole engine, in real time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from interlock.errors import EventRefusedError, JobFailedError, NotFoundError, SignatureError
from interlock.events import Event, Receipt, ReceiptStatus
from interlock.jobs import JobState, Retry, current_job
from interlock.jobs.jobs import engine_of
from interlock.limits import Slots
from interlock.ports.store import Capability
from interlock.testing.clock import until
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.events.apps import delivery, issue
from interlock.testing.conformance.events.processes import EventProcessConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.app import App
    from interlock.ports.events import EventView

__all__ = ["EventsConformance"]


class EventsConformance(EventProcessConformance):
    """The promises of ``app.events``."""

    # -- from a delivery to its handlers ---------------------------------------------------------------------------

    async def test_a_delivery_reaches_its_handler_with_all_that_is_known_of_it(self, store_url: str) -> None:
        seen: list[Event] = []
        async with self.hearing(store_url) as app:

            @app.on("github.issues.*", lane="{repository.full_name}#{issue.number}")
            async def triage(event: Event) -> str:
                seen.append(event)
                return f"{current_job().lane} {current_job().attempt}"

            receipt = await self.send(app, "g1")
            async with app.worker():
                result = await app.jobs.handle(*receipt.jobs).result()

            (event,) = seen
            assert receipt == Receipt(ReceiptStatus.ACCEPTED, event.id, receipt.jobs)
            assert (event.name, event.delivery, event.actor) == ("github.issues.opened", "g1", "ann")
            assert (event.payload, event.replay_of) == (issue(), None)
            assert event == (await app.events.get(event.id)).event
            assert result == "acme/api#7 1"
            assert triage.name == "triage"

    async def test_a_plain_function_hears_events_too_in_a_thread(self, store_url: str) -> None:
        seen: list[tuple[str, bool]] = []
        async with self.hearing(store_url) as app:

            @app.on("github.**")
            def note(event: Event) -> int:
                seen.append((event.name, threading.current_thread() is threading.main_thread()))
                return event.id

            receipt = await self.send(app, "g1")
            async with app.worker():
                assert await app.jobs.handle(*receipt.jobs).result() == receipt.event

            assert seen == [("github.issues.opened", False)]
            assert note.name == "note"

    async def test_each_handler_that_hears_an_event_has_a_job_and_a_payload_of_its_own(self, store_url: str) -> None:
        seen: list[tuple[str, object]] = []

        def handler(name: str) -> Callable[[Event], None]:
            def hear(event: Event) -> None:
                seen.append((name, event.payload.pop("action")))

            return hear

        async with self.hearing(store_url) as app:
            for name, pattern in (("one", "github.issues.opened"), ("two", "**"), ("three", "github.push")):
                app.on(pattern, name=name)(handler(name))
            receipt = await self.send(app, "g1")
            await app.drain()

            assert sorted(seen) == [("one", "opened"), ("two", "opened")]
            assert len(receipt.jobs) == 2

    async def test_events_of_one_subject_are_handled_in_order_and_those_without_at_once(self, store_url: str) -> None:
        order: list[object] = []
        hold, begun = asyncio.Event(), asyncio.Event()
        async with self.hearing(store_url) as app:

            @app.on("github.issues.*", lane="{repository.full_name}#{issue.number}")
            async def triage(event: Event) -> None:
                order.append(event.delivery)
                if event.delivery == "g0":
                    begun.set()
                    await hold.wait()

            for n in range(4):
                await self.send(app, f"g{n}")
            alone = await app.events.receive("github", *delivery({"action": "pinned"}, "alone", "issues"))
            other = await self.send(app, "other", number=8)
            async with app.worker():
                await begun.wait()
                await app.jobs.handle(*alone.jobs).result()
                await app.jobs.handle(*other.jobs).result()
                assert order[0] == "g0"
                assert sorted(map(str, order[1:])) == ["alone", "other"]
                hold.set()
                await until(lambda: len(order) == 6)

            assert [guid for guid in order if guid not in ("alone", "other")] == ["g0", "g1", "g2", "g3"]
            view = await app.jobs.get(alone.jobs[0])
            assert view is not None
            assert view.lane == ""

    async def test_a_lane_may_be_a_function_and_other_options_are_those_of_jobs(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on(
                "github.*.opened",
                lane=lambda event: event.actor or None,
                limits=[Slots("repo", 2, key="{repository.full_name}")],
                priority=80,
                queue="slow",
                name="first-look",
            )
            async def look(event: Event) -> None: ...

            with_actor = await self.send(app, "g1")
            without = await self.send(app, "g2", sender=None)
            views = [await app.jobs.get(*receipt.jobs) for receipt in (with_actor, without)]

            assert [(view.name, view.lane, view.queue, view.priority) for view in views] == [
                ("first-look", "ann", "slow", 80),
                ("first-look", "", "slow", 80),
            ]
            assert [view.uses[0].key for view in views] == ["slots:repo:acme/api"] * 2
            assert look.name == "first-look"

    async def test_a_handler_that_fails_is_tried_again_with_the_same_event(self, store_url: str) -> None:
        seen: list[tuple[int, int]] = []
        async with self.hearing(store_url) as app:

            @app.on("github.**", retry=Retry(attempts=3, delay=0.001))
            async def flaky(event: Event) -> str:
                seen.append((event.id, current_job().attempt))
                if current_job().attempt < 3:
                    raise RuntimeError("not yet")
                return "at last"

            receipt = await self.send(app, "g1")
            async with app.worker():
                assert await app.jobs.handle(*receipt.jobs).result() == "at last"

            assert seen == [(receipt.event, attempt) for attempt in (1, 2, 3)]
            assert flaky.name == "flaky"

    # -- once ------------------------------------------------------------------------------------------------------

    async def test_fifty_deliveries_of_one_id_at_several_doors_are_handled_once(self, store_url: str) -> None:
        handled: Counter[str] = Counter()
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(self.hearing(store_url))
            shared = Capability.PROCESSES in engine_of(first.events.jobs).store_client.store.capabilities
            apps = [first]
            if shared:
                apps += [await stack.enter_async_context(self.hearing(store_url)) for _ in range(2)]
            for app in apps:

                @app.on("github.**", lane="{issue.number}")
                async def handle(event: Event) -> None:
                    handled[event.delivery] += 1

            receipts = await asyncio.gather(
                *(self.send(apps[n % len(apps)], f"g{n % 3}", number=n % 3) for n in range(150))
            )
            for app in apps:
                await app.drain()

            assert handled == {"g0": 1, "g1": 1, "g2": 1}
            verdicts = Counter((receipt.status, receipt.event) for receipt in receipts)
            accepted = {event for verdict, event in verdicts if verdict is ReceiptStatus.ACCEPTED}
            assert len(accepted) == 3
            assert {event for verdict, event in verdicts if verdict is ReceiptStatus.DUPLICATE} == accepted
            assert sum(count for (verdict, _), count in verdicts.items() if verdict is ReceiptStatus.ACCEPTED) == 3

    async def test_a_delivery_again_is_a_duplicate_whatever_became_of_the_first(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.**", retry=Retry.NEVER)
            async def fail(event: Event) -> None:
                raise RuntimeError("no")

            first = await self.send(app, "g1")
            await app.drain()
            again = await self.send(app, "g1")

            assert again == Receipt(ReceiptStatus.DUPLICATE, first.event, (), again.cause)
            assert str(first.event) in again.cause
            assert await app.drain() == {}
            assert fail.name == "fail"

    # -- events without a handler ----------------------------------------------------------------------------------

    async def test_what_nobody_wants_to_hear_is_ignored_and_not_stored(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.issues.*", ignore=("dependabot[bot]",))
            async def one(event: Event) -> None: ...

            @app.on("github.issues.*", ignore=lambda event: event.payload["issue"]["number"] > 100)
            async def two(event: Event) -> None: ...

            @app.on("github.**", include_own=True, ignore=lambda event: not event.type.startswith("agent"))
            async def own(event: Event) -> None: ...

            nobody = await self.send(app, "g1", "push", action=None, number=200)
            ping = await self.send(app, "g2", "ping", action=None)
            ourselves = await self.send(app, "g3", sender={"login": "MyBot[bot]"})
            both = await self.send(app, "g4", number=101, sender={"login": "Dependabot[bot]"})
            assert {receipt.status for receipt in (nobody, ping, ourselves, both)} == {ReceiptStatus.IGNORED}
            assert all(receipt.event is None and not receipt.jobs for receipt in (nobody, ping, ourselves, both))
            assert await app.events.list() == []
            assert await app.jobs.list() == []

            one_of_them = await self.send(app, "g5", number=101)
            to_itself = await self.send(app, "g6", "agent", sender={"login": "mybot[bot]"})
            names = [[(await app.jobs.get(job)).name for job in receipt.jobs] for receipt in (one_of_them, to_itself)]
            assert names == [["one"], ["own"]]
            assert (one.name, two.name, own.name) == ("one", "two", "own")

    async def test_a_rule_that_fails_refuses_the_event_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.issues.opened", name="lane", lane=lambda event: event.payload["nowhere"])
            async def lane(event: Event) -> None: ...

            @app.on("github.push", name="ignore", ignore=lambda event: event.payload["nowhere"])
            async def ignore(event: Event) -> None: ...

            @app.on("github.fork", name="limit", limits=[Slots("x", 1, key="{nowhere}")])
            async def limit(event: Event) -> None: ...

            @app.on("github.**", name="good")
            async def good(event: Event) -> None: ...

            for kind, action, guilty in (
                ("issues", "opened", "lane"),
                ("push", None, "ignore"),
                ("fork", None, "limit"),
            ):
                with pytest.raises(EventRefusedError, match=f"'{guilty}'"):
                    await self.send(app, "g1", kind, action=action)

            assert await app.events.list() == []
            assert await app.jobs.list() == []
            assert app.events.metrics.refusals == {("github", "refused"): 3}
            assert all(job.name for job in (lane, ignore, limit, good))

    async def test_nothing_unsigned_gets_anywhere(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.**", ignore=lambda event: 1 / 0 > 0)
            async def never(event: Event) -> None: ...

            headers, body = delivery(issue(), "g1", secret="guessed")
            with pytest.raises(SignatureError):
                await app.events.receive("github", headers, body)
            with pytest.raises(NotFoundError):
                await app.events.receive("gitlab", headers, body)

            assert await app.events.list() == []
            assert never.name == "never"

    # -- replay and manual enqueue ---------------------------------------------------------------------------------

    async def test_a_replay_is_a_new_event_for_the_handlers_of_today(self, store_url: str) -> None:
        seen: list[tuple[str, int, int | None]] = []
        async with self.hearing(store_url) as app:

            @app.on("github.**", name="old")
            async def old(event: Event) -> None:
                seen.append(("old", event.payload["issue"]["number"], event.replay_of))

            first = await self.send(app, "g1")
            await app.drain()

            @app.on("github.issues.*", name="new")
            async def new(event: Event) -> None:
                seen.append(("new", event.payload["issue"]["number"], event.replay_of))

            assert first.event is not None
            again = await app.events.replay(first.event, by="eva", reason="the handler was fixed")
            await app.drain()
            view = await app.events.get(again.event or 0)

            assert (again.status, len(again.jobs)) == (ReceiptStatus.ACCEPTED, 2)
            assert again.event != first.event
            assert set(seen) == {("new", 7, first.event), ("old", 7, None), ("old", 7, first.event)}
            assert len(seen) == 3
            assert view is not None
            assert (view.by, view.replay_of, view.type, view.actor) == ("eva", first.event, "issues.opened", "ann")
            with pytest.raises(NotFoundError):
                await app.events.replay(10**9, by="eva")
            assert (old.name, new.name) == ("old", "new")

    async def test_all_events_that_match_are_replayed_once(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.issues.*", name="hears")
            async def hears(event: Event) -> None: ...

            first, second = [(await self.send(app, name)).event or 0 for name in ("g1", "g2")]
            assert await app.events.matching(source="github", type="issues.opened") == [first, second]

            replayed = await app.events.replay_all(source="github", by="eva", reason="the handler was fixed")
            nothing = await app.events.replay_all(source="gitlab", by="eva")
            new = [view for view in await app.events.list() if view.replay_of]

            assert replayed == ((first, second), ())
            assert nothing.matched == 0
            assert [(view.replay_of, view.by) for view in new] == [(second, "eva"), (first, "eva")]
            entries = await app.insight.journal()
            assert [entry.reason for entry in entries] == ["the handler was fixed"] * 2
            assert hears.name == "hears"

    async def test_a_kept_event_can_be_handed_to_a_handler(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.**", name="hears")
            async def hears(event: Event) -> None: ...

            @app.on("nothing.at.all", lane="{issue.number}")
            async def by_hand(event: Event) -> int:
                number: int = event.payload["issue"]["number"]
                return number

            receipt = await self.send(app, "g1")
            event = (await app.events.get(receipt.event or 0)).event
            handle = await by_hand.enqueue(event)
            await app.drain()

            assert await handle.result() == 7
            view = await app.jobs.get(handle)
            assert view is not None
            assert (view.lane, view.arguments) == ("7", f'{{"event":{event.id}}}')
            assert hears.name == "hears"

    # -- loading ---------------------------------------------------------------------------------------------------

    async def test_events_of_jobs_that_start_together_come_in_few_answers(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:
            seen: list[int] = []

            @app.on("github.**")
            async def hear(event: Event) -> None:
                seen.append(event.id)

            receipts = await asyncio.gather(*(self.send(app, f"g{n}", number=n) for n in range(100)))
            asked = self._count_loads(app)
            await app.drain()

            assert sorted(seen) == sorted(receipt.event or 0 for receipt in receipts)
            assert sum(asked) == 100
            assert len(asked) <= 25, asked
            assert hear.name == "hear"

    def _count_loads(self, app: App) -> list[int]:
        asked: list[int] = []
        events = engine_of(app.events.jobs).store_client.store.events
        get_many = events.get_many

        async def counted(ids: Sequence[int]) -> Sequence[EventView]:
            asked.append(len(ids))
            return await get_many(ids)

        events.get_many = counted  # type: ignore[method-assign]
        return asked

    async def test_a_job_whose_event_is_gone_fails_and_says_so(self, store_url: str) -> None:
        async with self.hearing(store_url, keep_events=1.0) as app:
            ran: list[int] = []

            @app.on("github.**", lane="one", retry=Retry(attempts=5))
            async def hear(event: Event) -> None:
                ran.append(event.id)

            receipt = await self.send(app, "g1")
            event = (await app.events.get(receipt.event or 0)).event
            await app.drain()
            store = engine_of(app.events.jobs).store_client.store
            await until(store.events.prune, what="the event goes")
            handle = await hear.enqueue(event)
            after = await self.send(app, "g2")
            await app.drain()

            assert (await handle.status()).state is JobState.FAILED
            with pytest.raises(JobFailedError, match=f"Event {event.id} is no longer kept"):
                await handle.result()
            assert ran == [receipt.event, after.event], "its lane goes on"

    async def test_what_came_of_an_event_is_explained(self, store_url: str) -> None:
        async with self.hearing(store_url) as app:

            @app.on("github.**", retry=Retry.NEVER, lane="l")
            async def hear(event: Event) -> None:
                if event.payload["issue"]["number"] == 13:
                    raise RuntimeError("unlucky")

            good, bad = await self.send(app, "g1"), await self.send(app, "g2", number=13)
            assert (await app.events.explain(good.event or 0)).reason == "waiting"
            await app.drain()
            explained = [await app.events.explain(receipt.event or 0) for receipt in (good, bad)]

            assert [explanation.reason for explanation in explained] == ["handled", "failed"]
            assert explained[1].remedy == f"fix the cause, then: interlock jobs retry {bad.jobs[0]}"
            assert "RuntimeError: unlucky" in explained[1].lines[1]
            assert hear.name == "hear"

    @needs(Capability.PROCESSES)
    async def test_workers_elsewhere_are_woken_by_a_delivery(self, store_url: str) -> None:
        seen: list[str] = []
        async with self.hearing(store_url) as door, self.hearing(store_url) as works:
            for app in (door, works):

                @app.on("github.**")
                async def hear(event: Event) -> None:
                    seen.append(event.delivery)

            async with works.worker():
                await until(lambda: self._attended(works))
                for n in range(3):
                    await self.send(door, f"g{n}")
                    await until(lambda n=n: seen == [f"g{i}" for i in range(n + 1)], what="the worker hears")  # type: ignore[misc]

    async def _attended(self, app: App) -> bool:
        return any(queue.workers for queue in await app.queues.list()) or not await app.queues.list()
