"""Retention and lookup of events."""

from __future__ import annotations

from interlock.ports.events import EventFilter
from interlock.ports.jobs import Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.events.driver import KEEP, EventSuite

__all__ = ["EventKeepingConformance"]


class EventKeepingConformance(EventSuite):
    """Events can be found, and are removed when they are old and all of their jobs have ended."""

    # -- finding ---------------------------------------------------------------------------------------------------

    async def test_events_are_found_by_their_ids(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            events = [await b.accepted(f"d{n}") for n in range(5)]
            found = {view.id: view for view in await b.events.get_many([event.id for event in events[1:]] + [10**9])}

            assert found.keys() == {event.id for event in events[1:]}
            assert all(found[event.id].payload == event.payload for event in events[1:])
            assert list(await b.events.get_many([])) == []
            assert await b.kept(10**9) is None

    async def test_lists_begin_with_the_newest_and_hold_no_payloads(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            late_number = await b.event("late")
            events = [await b.accepted(f"d{n}") for n in range(4)]
            b.clock.advance(0.001)
            await b.events.accept([late_number])  # it has the smallest ID, and came last
            views = await b.events.list(EventFilter())

            assert [view.id for view in views] == [late_number.id, *(event.id for event in reversed(events))]
            assert {view.payload for view in views} == {None}
            assert [view.jobs for view in views[1:]] == [tuple(j.id for j in e.jobs) for e in reversed(events)]

    async def test_lists_go_on_where_they_were_cut(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            early = await b.event("late")
            for n in range(6):
                await b.accepted(f"d{n}")
            same_moment = [await b.event(f"s{n}") for n in range(3)]
            await b.events.accept([*same_moment, early])
            everything = await b.listed()
            pages: list[int] = []
            while page := await b.listed(limit=3, before=pages[-1] if pages else None):
                pages += page

            assert pages == everything
            assert len(everything) == 10

    async def test_lists_are_chosen_by_source_type_actor_and_delivery(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            a = await b.accepted("d1", source="github", type="push", actor="ann")
            c = await b.accepted("d1", source="shop", type="push", actor="bob")
            d = await b.accepted("d2", source="github", type="issues.opened", actor="bob")
            e = await b.accepted("d3", source="github", type="push", actor="bob")

            assert await b.listed(source="github") == [e.id, d.id, a.id]
            assert await b.listed(type="push") == [e.id, c.id, a.id]
            assert await b.listed(actor="bob") == [e.id, d.id, c.id]
            assert await b.listed(delivery="d1") == [c.id, a.id]
            assert await b.listed(source="github", type="push", actor="bob") == [e.id]
            assert await b.listed(source="github", delivery="d1") == [a.id]
            assert await b.listed(type="issues") == []
            assert await b.listed(actor="bob", before=e.id, limit=1) == [d.id]

    async def test_a_replay_names_what_it_repeats_and_who_wanted_it(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            first = await b.accepted("d")
            again = await b.accepted("d-again", replay_of=first.id, attribution=Attribution("eva", "again"))
            view = await b.kept(again)

            assert view is not None
            assert (view.replay_of, view.by) == (first.id, "eva")

    # -- pruning ---------------------------------------------------------------------------------------------------

    async def test_an_event_is_kept_for_its_time_and_then_goes(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            short, long = await b.accepted("short", keep=100.0), await b.accepted("long", keep=200.0)
            await b.work_all()
            b.clock.advance(99)
            assert await b.events.prune() == 0
            b.clock.advance(2)

            assert await b.events.prune() == 1
            assert await b.listed() == [long.id]
            assert await b.events.prune() == 0
            again = await b.event("short")
            assert list(await b.events.accept([again])) == [again.id], "what is gone is new again"
            assert await b.kept(short) is None

    async def test_an_event_stays_while_one_of_its_jobs_is_unfinished(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            waiting = await b.accepted("waiting", jobs=2, job={"delay": 20 * KEEP})
            parked = await b.accepted("parked")
            running = await b.accepted("running")
            (park, run) = await b.fetch()
            await b.end(park, Outcome.PARKED, error="a person has to look")
            done = await b.accepted("done")
            await b.work_all()
            for _ in range(3):
                await b.let_pass(KEEP + 1)
                await b.events.prune()

            assert await b.listed() == [running.id, parked.id, waiting.id]
            assert await b.kept(done) is None
            await b.done(run)
            await b.jobs.cancel(parked.jobs[0].id, Attribution("ann", "not wanted"))
            await b.jobs.cancel(waiting.jobs[0].id, Attribution("ann", "not wanted"))
            await b.let_pass(2 * KEEP)
            assert await b.events.prune() == 2
            assert await b.listed() == [waiting.id], "one of its two jobs is still to come"

    async def test_those_that_have_to_stay_do_not_keep_others_from_going(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            stuck = [await b.accepted(f"stuck{n}", job={"delay": 20 * KEEP}) for n in range(5)]
            for n in range(5):
                await b.accepted(f"done{n}")
            await b.work_all()
            await b.let_pass(2 * KEEP)
            removed = [await b.events.prune(limit=4) for _ in range(4)]

            assert sum(removed) == 5
            assert await b.listed() == [event.id for event in reversed(stuck)]

    async def test_a_bounded_number_goes_at_once_the_oldest_first(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            events = [await b.accepted(f"d{n}") for n in range(7)]
            await b.work_all()
            b.clock.advance(2 * KEEP)

            assert await b.events.prune(limit=5) == 5
            assert await b.listed() == [events[6].id, events[5].id]
            assert await b.events.prune(limit=5) == 2
