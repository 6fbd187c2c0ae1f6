"""Accepting: an event with all of its jobs, or nothing, and once per delivery, however often it is tried."""

from __future__ import annotations

import json

import pytest

from interlock.errors import InterlockError
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState, OnFailure
from interlock.testing.clock import until
from interlock.testing.conformance.events.driver import KEEP, EventSuite
from interlock.testing.conformance.jobs.driver import near, new_job, pace, slots

__all__ = ["EventAcceptingConformance"]


class EventAcceptingConformance(EventSuite):
    """One delivery, one unit of work."""

    async def test_an_event_is_kept_and_its_jobs_can_be_claimed(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            event = await b.accepted(jobs=2, payload='{"title":"ü\\n\\u2028 \\"quoted\\""}', actor="bot[bot]")
            view = await b.kept(event)
            jobs = await b.fetch()

            assert view is not None
            assert view._replace(received_at=0, seen_at=0) == (
                *(
                    event.id,
                    "src",
                    "d",
                    "issues.opened",
                    "bot[bot]",
                    '{"title":"ü\\n\\u2028 \\"quoted\\""}',
                    0,
                    None,
                    "",
                ),
                tuple(job.id for job in event.jobs),
                0,
            )
            assert (view.received_at, view.seen_at) == (near(b.now), near(b.now))
            assert [job.id for job in jobs] == [job.id for job in event.jobs]
            assert all(json.loads(job.arguments) == {"event": event.id} for job in jobs)

    async def test_a_delivery_that_is_kept_changes_nothing_and_says_under_which_id_it_is(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            first = await b.accepted(jobs=2, payload='{"n":1}')
            again = await b.event(jobs=3, payload='{"n":2}', type="other")

            assert list(await b.events.accept([again])) == [first.id]
            assert await b.kept(again) is None
            kept = await b.kept(first)
            assert kept is not None
            assert (kept.payload, kept.type, len(kept.jobs)) == ('{"n":1}', "issues.opened", 2)
            assert await b.work_all() == [job.id for job in first.jobs]
            assert await b.listed() == [first.id]

    async def test_a_delivery_is_known_by_its_source_too(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            ours = await b.accepted("d", source="one")
            theirs = await b.accepted("d", source="two")

            assert sorted(await b.work_all()) == sorted(job.id for event in (ours, theirs) for job in event.jobs)

    async def test_of_one_delivery_twice_in_a_call_the_first_is_accepted(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            x, y, x2, x3 = [await b.event(delivery) for delivery in ("x", "y", "x", "x")]

            assert list(await b.events.accept([x, y, x2, x3])) == [x.id, y.id, x.id, x.id]
            assert await b.work_all() == [job.id for event in (x, y) for job in event.jobs]
            assert sorted(await b.listed()) == sorted((x.id, y.id))

    async def test_a_call_may_hold_what_is_new_and_what_is_not(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            known = {delivery: await b.accepted(delivery) for delivery in "bd"}
            await b.work_all()
            events = [await b.event(delivery, jobs=2) for delivery in "edcba"]
            kept = list(await b.events.accept(events))

            assert kept == [known[event.delivery].id if event.delivery in known else event.id for event in events]
            fresh = [event for event in events if event.delivery not in known]
            assert await b.work_all() == [job.id for event in fresh for job in event.jobs]

    async def test_nothing_is_accepted_if_there_is_nothing_to_accept(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            assert list(await b.events.accept([])) == []
            assert await b.listed() == []

    async def test_an_event_without_jobs_is_kept_too(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            quiet, loud = await b.event("x", jobs=0), await b.event("y")
            assert list(await b.events.accept([quiet])) == [quiet.id]
            assert list(await b.events.accept([quiet, loud])) == [quiet.id, loud.id]
            view = await b.kept(quiet)

            assert view is not None
            assert view.jobs == ()
            assert await b.work_all() == [job.id for job in loud.jobs]

    # -- lost replies --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("done", [False, True])
    async def test_a_call_whose_answer_was_lost_can_be_repeated(self, store_url: str, done: bool) -> None:
        async with self.event_driver(store_url) as b:
            event = await b.accepted(jobs=2, job={"lane": "l"})
            if done:
                await b.work_all()
            for _ in range(2):
                assert list(await b.events.accept([event])) == [event.id]

            ran = await b.work_all()
            assert ran == ([] if done else [job.id for job in event.jobs])
            assert await b.lanes() == []

    async def test_a_first_try_that_comes_late_does_nothing(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            event = await b.accepted(jobs=2, job={"lane": "l"})  # this was the second try
            await b.work_all()
            await b.let_pass(600)
            while await b.jobs.prune(10):
                pass

            assert list(await b.events.accept([event])) == [event.id]
            assert await b.work_all() == []
            assert list(await b.list_jobs(JobFilter())) == []

    async def test_a_late_try_of_another_process_is_a_duplicate(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            late, event = await b.event("d"), await b.event("d")
            assert list(await b.events.accept([event])) == [event.id]
            await b.work_all()

            assert list(await b.events.accept([late])) == [event.id]
            assert await b.work_all() == []

    async def test_an_event_is_stored_with_all_of_its_jobs_or_not_at_all(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            used = await b.add()
            event, other = await b.event("d"), await b.event("e")
            broken = event._replace(jobs=(*event.jobs, new_job(used)))
            with pytest.raises(InterlockError):
                await b.events.accept([other, broken])

            assert await b.listed() == []
            assert await b.work_all() == [used]
            assert list(await b.events.accept([event])) == [event.id]

    async def test_an_id_stands_for_one_event(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            event = await b.accepted("d")
            with pytest.raises(InterlockError):
                await b.events.accept([event._replace(delivery="e", jobs=())])

            assert await b.listed() == [event.id]

    # -- its jobs --------------------------------------------------------------------------------------------------

    async def test_jobs_are_treated_as_if_they_had_been_enqueued(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            full = await b.add(uses=(slots(1),))
            await b.one()
            laned = {
                "lane": "l",
                "priority": 70,
                "on_failure": OnFailure.PARK,
                "coalesce": True,
                "options": '{"timeout":3}',
            }
            later = await b.accepted("later", job={"delay": 60.0})
            limited = await b.accepted("limited", job={"uses": (slots(1), pace(2, 60, "p"))})
            first = await b.accepted("first", job=laned)
            second = await b.accepted("second", job=laned | {"coalesce": False})
            (job,) = await b.fetch()

            states = [await b.state(event.jobs[0].id) for event in (later, limited, first, second)]
            assert states == [JobState.SCHEDULED, JobState.WAITING, JobState.FETCHED, JobState.BEHIND]
            assert (job.id, job.priority, job.options, job.lane) == (first.jobs[0].id, 70, '{"timeout":3}', "l")
            assert (await b.view(limited.jobs[0].id)).uses == tuple(sorted((slots(1), pace(2, 60, "p"))))
            assert await b.state(full) is JobState.FETCHED

    async def test_jobs_of_events_and_others_keep_their_order_in_a_lane(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            order: list[int] = []
            for number in range(4):
                # Delivery names in no order: only the order of the calls counts.
                event = await b.accepted(f"{'dbca'[number]}", jobs=2, job={"lane": "l"})
                order += [*(job.id for job in event.jobs), await b.add(lane="l")]

            assert await b.work_all() == order

    async def test_events_of_one_call_take_their_positions_in_its_order(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            events = [await b.event(delivery, jobs=2, job={"lane": "l"}) for delivery in "mzaxbq"]
            await b.events.accept(events)

            assert await b.work_all() == [job.id for event in events for job in event.jobs]

    async def test_five_hundred_events_in_a_call(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            numbers = iter(await b.jobs.ids(1000))
            template = await b.event()
            events = [
                template._replace(id=next(numbers), delivery=f"d{n}", jobs=(new_job(next(numbers), lane=f"l{n % 7}"),))
                for n in range(500)
            ]
            first = list(await b.events.accept(events))
            second = list(await b.events.accept(events))

            assert first == second == [event.id for event in events]
            assert sorted(await b.work_all()) == sorted(job.id for event in events for job in event.jobs)

    @pytest.mark.parametrize("lane", ["", "l"])
    async def test_whoever_works_on_a_queue_is_told(self, store_url: str, lane: str) -> None:
        async with self.event_drivers(store_url, 2) as (mine, theirs):
            news: list[None] = []
            await theirs.store.messages.listen("b", lambda _: None, lambda *_: None)
            theirs.store.messages.watch(waiting=True)
            theirs.jobs.on_ready(("q",), lambda: news.append(None))
            assert await theirs.fetch("b") == []
            for number in range(3):
                before = len(news)
                event = await mine.accepted(f"d{number}", job={"lane": lane})
                await until(lambda before=before: len(news) > before, what=f"news of event {number}")  # type: ignore[misc]
                (job,) = await theirs.fetch("b")
                assert job.id == event.jobs[0].id
                await theirs.done(job)

    async def test_what_was_accepted_here_can_be_claimed_here_at_once(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            for number in range(20):
                event = await b.accepted(f"d{number}")
                assert await b.work_all() == [job.id for job in event.jobs]

    async def test_namespaces_are_kept_apart(self, store_url: str) -> None:
        async with (
            self.event_driver(store_url, namespace=f"{self.namespace}-one") as one,
            self.event_driver(store_url, namespace=f"{self.namespace}-two") as two,
        ):
            mine, theirs = await one.accepted("d"), await two.accepted("d")

            assert await one.listed() == [mine.id]
            assert await two.listed() == [theirs.id]
            assert await one.work_all() == [job.id for job in mine.jobs]
            if one.store.name != "memory":  # which is one store for each
                assert await two.kept(mine) is None
                assert list(await two.events.get_many([mine.id, theirs.id])) == [await two.kept(theirs)]
                assert await two.listed(before=mine.id) == []
            one.clock.advance(2 * KEEP)
            two.clock.advance(2 * KEEP)
            assert await one.events.prune() == 1
            assert await two.listed() == [theirs.id]
