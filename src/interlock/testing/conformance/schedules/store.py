"""The schedules port, step by step on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.ports.journal import Action, Attribution
from interlock.ports.schedules import (
    FIRINGS_KEPT,
    Declaration,
    Edited,
    Enqueuing,
    Fired,
    Firing,
    FiringKind,
    ScheduleConflict,
    ScheduleDefinition,
    ScheduleEdit,
    ScheduleState,
    StateChange,
)
from interlock.testing.conformance.jobs.driver import near, new_job
from interlock.testing.conformance.schedules.lab import Lab, ScheduleSuite

if TYPE_CHECKING:
    from interlock.ports.schedules import StoredSchedule

__all__ = ["ScheduleStoreConformance"]

WHO = Attribution("ann", "why")
WHAT = ScheduleDefinition("n", '{"a":"ü"}', "", 60.0, "UTC", "once", 60.0, "skip", 0.5, "{}")


def _edit(b: Lab, name: str = "s", expected: int = 0, **changes: Any) -> ScheduleEdit:
    edit = ScheduleEdit(name, expected, WHAT, True, b.driver.now, b.driver.now + 60, WHO, f"{name}{b.driver.now}")
    return edit._replace(**changes)


async def _save(b: Lab, name: str = "s", expected: int = 0, **changes: Any) -> StoredSchedule:
    answer = await b.schedules.save(_edit(b, name, expected, **changes))
    assert isinstance(answer, Edited), answer
    return answer.schedule


def _firing(schedule: StoredSchedule, *jobs: int, **changes: Any) -> Firing:
    at = schedule.next_at
    assert at is not None
    made = [new_job(job, lane="schedule:s") for job in jobs]
    firing = Firing(schedule.name, schedule.version, at, at + 60, made, [at] * len(jobs), 0, skip_overlap=True)
    return firing._replace(**changes)


async def _get(b: Lab, name: str = "s") -> StoredSchedule:
    _, found = await b.schedules.get(name)
    assert found is not None
    return found


def _declaration(b: Lab, fingerprint: str, name: str = "s", every: float = 60.0) -> Declaration:
    return Declaration(name, WHAT._replace(every=every), fingerprint, b.driver.now, b.driver.now + every)


class ScheduleStoreConformance(ScheduleSuite):
    """A firing happens once, an edit replaces the version that it names, and a declaration does not flap."""

    async def test_a_schedule_is_kept_as_it_was_saved(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            saved = await _save(b)
            now, found = await b.schedules.get("s")

            assert now == near(b.driver.now)
            assert found == saved
            assert saved.definition == WHAT
            assert (saved.origin, saved.state, saved.updated_by, saved.declared_by) == ("stored", "active", "ann", 0)
            assert (saved.anchor_at, saved.next_at) == (near(b.driver.now), near(b.driver.now + 60))
            assert await b.schedules.list() == (near(b.driver.now), [saved])
            assert (await b.schedules.get("other"))[1] is None
            assert await b.journal("s") == [("schedule.save", "ann")]

    async def test_an_edit_replaces_the_version_that_it_names_and_no_other(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            first = await _save(b)
            assert await b.schedules.save(_edit(b, id="x")) == ScheduleConflict(first)
            assert await b.schedules.save(_edit(b, "other", 5)) == ScheduleConflict(None)
            second = await _save(b, expected=first.version, id="y", definition=WHAT._replace(every=90.0))
            stale = await b.schedules.save(_edit(b, expected=first.version, id="z"))

            assert stale == ScheduleConflict(second)
            assert second.version > first.version
            assert second.definition.every == 90.0
            assert await b.journal("s") == [("schedule.save", "ann")] * 2

    async def test_repeating_an_edit_changes_nothing(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            first = await _save(b)
            edit = _edit(b, expected=first.version, id="same")
            once = await b.schedules.save(edit)

            assert await b.schedules.save(edit) == once
            assert await b.journal("s") == [("schedule.save", "ann")] * 2

    async def test_of_concurrent_edits_of_one_version_one_succeeds(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            first = await _save(b)
            edits = [_edit(b, expected=first.version, id=f"e{n}") for n in range(8)]
            new = [_edit(b, "new", id=f"n{n}") for n in range(8)]
            answers = await asyncio.gather(*map(b.schedules.save, [*edits, *new]))

            won = [isinstance(answer, Edited) for answer in answers]
            assert (won[:8].count(True), won[8:].count(True)) == (1, 1)

    async def test_a_firing_moves_the_next_time_and_enqueues_in_one_step(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            await b.passes(61)
            (job,) = await b.driver.jobs.ids(1)
            firing = _firing(schedule, job)

            assert await b.schedules.fire(firing) == Fired(won=True, enqueued=True)
            assert await b.schedules.fire(firing) == Fired(won=False, enqueued=False)
            assert (await b.driver.one()).id == job
            after = await _get(b)
            assert (after.next_at, after.last_at, after.last_job) == (near(firing.next_at or 0), schedule.next_at, job)
            assert (after.fired, after.version) == (1, schedule.version)
            (kept,) = await b.schedules.firings("s")
            assert kept == (1, schedule.next_at, near(b.driver.now), "scheduled", "enqueued", job, 1)

    async def test_of_processes_that_fire_at_the_same_time_one_succeeds(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            await b.passes(61)
            ids = await b.driver.jobs.ids(8)
            answers = await asyncio.gather(*(b.schedules.fire(_firing(schedule, job)) for job in ids))

            assert [answer.won for answer in answers].count(True) == 1
            assert len(await b.driver.fetch()) == 1

    async def test_a_firing_of_a_changed_paused_or_deleted_schedule_does_nothing(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            edited = await _save(b, expected=schedule.version, id="x")
            (job,) = await b.driver.jobs.ids(1)
            assert not (await b.schedules.fire(_firing(schedule, job))).won
            pause = StateChange("s", ScheduleState.PAUSED, Action.SCHEDULE_PAUSE, WHO)
            paused = await b.schedules.set_state(pause)
            assert isinstance(paused, Edited)
            assert not (await b.schedules.fire(_firing(paused.schedule, job))).won
            assert not (await b.schedules.fire(_firing(edited, job))).won
            await b.schedules.delete("s", WHO)
            assert not (await b.schedules.fire(_firing(edited, job))).won
            assert await b.driver.fetch() == []

    async def test_an_overlap_is_skipped_and_counted(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            first, second, third, fourth = await b.driver.jobs.ids(4)
            await b.schedules.fire(_firing(schedule, first))
            schedule = await _get(b)
            assert await b.schedules.fire(_firing(schedule, second)) == Fired(won=True, enqueued=False)
            schedule = await _get(b)
            assert (schedule.fired, schedule.skipped, schedule.last_job) == (1, 1, first)
            queued = await b.schedules.fire(_firing(schedule, third, skip_overlap=False))
            assert queued.enqueued
            for expected in (first, third):
                job = await b.driver.one()
                assert job.id == expected
                await b.driver.done(job)
            schedule = await _get(b)
            assert (await b.schedules.fire(_firing(schedule, fourth))).enqueued
            outcomes = [(one.outcome, one.job) for one in await b.schedules.firings("s")]
            assert outcomes == [("enqueued", fourth), ("enqueued", third), ("overlap", None), ("enqueued", first)]

    async def test_missed_times_are_counted_without_a_job(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            answer = await b.schedules.fire(_firing(schedule, missed=7, next_at=None))
            after = await _get(b)

            assert answer == Fired(won=True, enqueued=False)
            assert (after.missed, after.next_at, after.last_at) == (7, None, None)
            assert [(one.outcome, one.times) for one in await b.schedules.firings("s")] == [("missed", 7)]

    async def test_only_the_last_firings_are_kept(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            ids = list(await b.driver.jobs.ids(FIRINGS_KEPT + 5))
            await b.schedules.fire(_firing(schedule, *ids))
            kept = await b.schedules.firings("s")

            assert [one.job for one in kept] == list(reversed(ids[5:]))
            assert (await _get(b)).fired == len(ids)
            assert len(await b.schedules.firings("s", limit=3)) == 3

    async def test_due_are_active_schedules_of_known_jobs_and_declared_names(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            start = b.driver.now
            await _save(b, "late", next_at=start + 30)
            await _save(b, "early", next_at=start + 10)
            await _save(b, "strange", definition=WHAT._replace(job="unknown"), next_at=start + 5)
            await _save(b, "paused", active=False, next_at=start + 5)
            await _save(b, "never", next_at=None)
            await b.schedules.declare("a", [_declaration(b, "f", "coded", 20)], WHO)

            nothing = await b.schedules.due(["n"], ["coded"])
            assert (nothing.now, nothing.schedules, nothing.next_at) == (near(start), [], near(start + 10))
            await b.passes(40)
            due = await b.schedules.due(["n"], ["coded"])
            assert [one.name for one in due.schedules] == ["early", "coded", "late"]
            assert due.next_at is None
            assert [one.name for one in (await b.schedules.due(["n"], [])).schedules] == ["early", "late"]
            but = await b.schedules.due(["n"], ["coded"], but=["early"], limit=1)
            assert [one.name for one in but.schedules] == ["coded"]
            assert but.next_at == near(start + 30)

    async def test_states_change_once_with_a_journal_entry(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            pause = StateChange("s", ScheduleState.PAUSED, Action.SCHEDULE_PAUSE, Attribution("bob", "maintenance"))
            paused = await b.schedules.set_state(pause)
            again = await b.schedules.set_state(pause)
            resume = StateChange("s", ScheduleState.ACTIVE, Action.SCHEDULE_RESUME, WHO, next_at=b.driver.now + 5)
            stale = await b.schedules.set_state(resume._replace(expected=schedule.version))
            resumed = await b.schedules.set_state(resume)

            assert isinstance(paused, Edited)
            assert isinstance(resumed, Edited)
            assert (paused.changed, again) == (True, Edited(paused.schedule, changed=False))
            assert (paused.schedule.state, paused.schedule.state_by) == ("paused", "bob")
            assert paused.schedule.next_at == schedule.next_at
            assert stale == ScheduleConflict(paused.schedule)
            assert resumed.schedule.next_at == near(b.driver.now + 5)
            assert await b.schedules.set_state(pause._replace(name="other")) == ScheduleConflict(None)
            assert await b.journal("s") == [
                ("schedule.save", "ann"),
                ("schedule.pause", "bob"),
                ("schedule.resume", "ann"),
            ]

    async def test_a_deleted_schedule_leaves_its_jobs_and_its_journal(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            (job,) = await b.driver.jobs.ids(1)
            await b.schedules.fire(_firing(schedule, job))
            assert await b.schedules.delete("s", WHO, expected=schedule.version + 99) == ScheduleConflict(await _get(b))
            deleted = await b.schedules.delete("s", WHO)

            assert not isinstance(deleted, ScheduleConflict)
            assert deleted.version == schedule.version
            assert await b.schedules.delete("s", WHO) == ScheduleConflict(None)
            assert await b.schedules.firings("s") == []
            assert (await b.driver.one()).id == job
            assert await b.journal("s") == [("schedule.save", "ann"), ("schedule.delete", "ann")]
            assert (await _save(b, id="new")).version > schedule.version

    async def test_jobs_enqueued_by_a_person_count_as_the_last_ones(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await _save(b)
            ids = list(await b.driver.jobs.ids(2))
            times = [b.driver.now - 120, b.driver.now - 60]
            jobs = [new_job(job) for job in ids]
            request = Enqueuing("s", FiringKind.BACKFILLED, jobs, times, WHO)
            assert await b.schedules.enqueue(request._replace(name="other")) is None
            after = await b.schedules.enqueue(request)
            again = await b.schedules.enqueue(request)

            assert after is not None
            assert again == after
            assert (after.fired, after.last_job, after.last_at) == (2, ids[1], None)
            assert sorted(await b.driver.ids()) == ids
            kept = [(one.kind, one.at, one.job) for one in await b.schedules.firings("s")]
            assert kept == [("backfilled", near(times[1]), ids[1]), ("backfilled", near(times[0]), ids[0])]
            assert await b.journal("s") == [("schedule.save", "ann"), ("schedule.backfill", "ann")]

    async def test_a_declaration_is_stored_once_and_replaced_by_a_new_one(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.schedules.declare("a", [_declaration(b, "one")], WHO)
            first = await _get(b)
            await b.passes(5)
            await b.schedules.declare("b", [_declaration(b, "one")], WHO)
            same = await _get(b)
            await b.schedules.declare("b", [_declaration(b, "two", every=30.0)], WHO)
            second = await _get(b)

            assert (first.origin, first.state, first.declaration, first.declared_by) == ("code", "active", "one", 1)
            assert same == first._replace(declared_by=2)
            assert (second.definition.every, second.declaration) == (30.0, "two")
            assert second.version > first.version
            assert await b.journal("s") == [("schedule.declare", "ann")] * 2

    async def test_old_and_new_declarations_side_by_side_do_not_flap(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.schedules.declare("a", [_declaration(b, "old")], WHO)
            await b.schedules.declare("b", [_declaration(b, "new")], WHO)
            for _ in range(3):
                await b.schedules.declare("a", [_declaration(b, "old")], WHO)
                await b.schedules.declare("c", [_declaration(b, "old")], WHO)
                await b.schedules.declare("b", [_declaration(b, "new")], WHO)
            assert (await _get(b)).declaration == "new"
            assert len(await b.journal("s")) == 2

            await b.store.sessions.end("b")  # a rollback: the last process with the new code has ended
            await b.schedules.declare("a", [_declaration(b, "old")], WHO)
            assert (await _get(b)).declaration == "old"

    async def test_a_declaration_keeps_a_pause_and_ends_being_off(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.schedules.declare("a", [_declaration(b, "one"), _declaration(b, "one", "t")], WHO)
            await b.schedules.set_state(StateChange("s", ScheduleState.PAUSED, Action.SCHEDULE_PAUSE, WHO))
            await b.schedules.set_state(StateChange("t", ScheduleState.OFF, Action.SCHEDULE_SWITCH_OFF, WHO))
            await b.schedules.declare("a", [_declaration(b, "two"), _declaration(b, "two", "t")], WHO)

            assert ((await _get(b)).state, (await _get(b, "t")).state) == ("paused", "active")

    async def test_a_saved_schedule_is_not_replaced_by_a_declaration_nor_the_reverse(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            saved = await _save(b)
            await b.schedules.declare("a", [_declaration(b, "one"), _declaration(b, "one", "t")], WHO)
            coded = await _get(b, "t")

            assert (await _get(b)) == saved._replace(declared_by=1)
            answer = await b.schedules.save(_edit(b, "t", coded.version))
            assert answer == ScheduleConflict(coded)

    async def test_declarations_count_while_their_session_lives(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            await b.schedules.declare("a", [_declaration(b, "one")], WHO)
            await b.store.sessions.end("a")

            assert (await _get(b)).declared_by == 0

    async def test_an_application_is_told_once_for_each_version(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            schedule = await _save(b)
            off = StateChange("s", ScheduleState.OFF, Action.SCHEDULE_SWITCH_OFF, WHO)
            answer = await b.schedules.set_state(off)
            assert isinstance(answer, Edited)
            await b.schedules.set_reported("s", schedule.version)
            assert not (await _get(b)).reported
            await b.schedules.set_reported("s", answer.schedule.version)
            assert (await _get(b)).reported
            await b.schedules.set_state(off._replace(state=ScheduleState.ACTIVE, action=Action.SCHEDULE_SWITCH_ON))
            assert not (await _get(b)).reported
