"""Schedules as programs use them, in several processes, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import ConcurrencyConflictError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.jobs.current import CurrentJob
from interlock.ports.journal import Attribution
from interlock.ports.schedules import Edited, FiringOutcome, ScheduleConflict, ScheduleEdit, ScheduleState, StateChange
from interlock.schedules.scheduler import MAX_CATCH_UP
from interlock.testing.conformance.jobs.driver import near
from interlock.testing.conformance.schedules.lab import Lab, Process, ScheduleSuite

if TYPE_CHECKING:
    from interlock.schedules.views import Schedule

__all__ = ["SchedulesConformance"]

BERLIN = "Europe/Berlin"


def _at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


async def _save(process: Process, name: str = "s", **how: Any) -> Schedule:
    if "cron" not in how:
        how.setdefault("every", 60)
    return await process.schedules.save(name, job="report", by="ann", **how)


class SchedulesConformance(ScheduleSuite):
    """The promises of ``app.schedules``."""

    # -- firing ----------------------------------------------------------------------------------------------------

    async def test_each_firing_happens_once_however_many_processes_fire(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            processes = [b.process(session).open() for session in "abc"]
            await _save(processes[0], overlap="queue")
            for _ in range(10):
                await b.passes(60)
                await asyncio.gather(*(process.fire() for process in processes))

            schedule = await processes[0].schedules.get("s")
            assert len(await b.enqueued("report")) == 10
            assert (schedule.fired, schedule.missed, schedule.skipped) == (10, 0, 0)

    async def test_an_interval_lies_on_a_grid_and_does_not_drift(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process, start = b.process().open(), b.driver.now
            await _save(process, every=10.1, overlap="queue")
            for late in (0.05, 3.0, 0.7, 9.0):
                await b.passes(10.1 + late)
                wait = await process.fire()
                assert 0 < wait <= 10.1
                await b.passes(wait)
                await process.fire()

            times = [firing.at.timestamp() for firing in reversed(await process.schedules.firings("s"))]
            assert times == [near(start + 10.1 * n) for n in range(1, 9)]

    async def test_a_firing_is_prompt_and_the_wait_until_the_next_is_known(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await b.set_time(_at(2027, 1, 15, 12, 1))
            await _save(process, cron="*/5 * * * *")
            assert await process.fire() == near(240)
            await b.passes(240)
            assert await process.fire() == near(300)
            assert len(await b.enqueued("report")) == 1

    async def test_a_schedule_enqueues_with_the_arguments_and_options_of_its_job(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process()

            @process.jobs.job(queue="mail", priority=80, lane="{account}")
            async def send(account: str, count: int = 2) -> None:
                """Do nothing."""

            process.open()
            await process.schedules.save("s", job=send, every=60, arguments={"account": "a1"}, by="ann")
            await b.passes(60)
            await process.fire()

            job = await b.driver.one(queues=("mail",), names=("send",))
            assert (json.loads(job.arguments), job.lane, job.queue) == ({"account": "a1"}, "a1", "mail")
            assert (await b.driver.view(job.id)).priority == 80
            current = CurrentJob(job)
            assert current.cause is not None
            assert (current.cause.kind, current.cause.ref) == ("schedule", "s")
            assert current.scheduled_for is not None
            assert current.scheduled_for.timestamp() == near(b.driver.now)

    async def test_a_key_of_the_job_does_not_swallow_a_firing(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process()

            @process.jobs.job(key="{account}", expires=30)
            async def send(account: str) -> None:
                """Do nothing."""

            process.open()
            await process.schedules.save(
                "s", job=send, every=60, arguments={"account": "a1"}, overlap="queue", by="ann"
            )
            for _ in range(2):
                await b.passes(60)
                await process.fire()
            await process.schedules.trigger("s", by="ann")
            await Process(b.driver, "b").open().schedules.trigger("s", by="ann")

            assert (await process.schedules.get("s")).fired == 4
            assert len(await b.enqueued("send")) == 4

    async def test_jobs_of_one_schedule_run_one_at_a_time(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, overlap="queue")
            for _ in range(3):
                await b.passes(60)
                await process.fire()

            (job,) = await b.driver.fetch(queues=("default",), names=("report",))
            assert job.lane == "schedule:s"
            await b.driver.done(job)
            assert len(await b.driver.fetch(queues=("default",), names=("report",))) == 1

    async def test_an_overlap_is_skipped_counted_and_shown(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process)
            for _ in range(3):
                await b.passes(60)
                await process.fire()
            schedule = await process.schedules.get("s")
            assert (schedule.fired, schedule.skipped) == (1, 2)
            outcomes = [firing.outcome for firing in await process.schedules.firings("s")]
            assert outcomes == [FiringOutcome.OVERLAP, FiringOutcome.OVERLAP, FiringOutcome.ENQUEUED]

            assert await b.finish() == 1
            await b.passes(60)
            await process.fire()
            assert (await process.schedules.get("s")).fired == 2

    async def test_jitter_delays_a_job_and_not_the_grid(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, every=60, jitter=30)
            await b.passes(60)
            assert await process.fire() == near(60)
            (job,) = await b.enqueued("report")
            view = await b.driver.view(job)
            assert 0 <= view.due_at - b.driver.now <= 30

    # -- daylight saving time --------------------------------------------------------------------------------------

    async def test_a_daily_time_is_kept_across_both_changes_of_daylight_saving(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await b.set_time(_at(2027, 3, 27, 12))
            await _save(process, cron="30 2 * * *", timezone=BERLIN, overlap="queue")
            for _ in range(3):
                await b.passes(await process.fire())
            await process.fire()
            # 02:30 does not exist on March 28: the job runs when the clocks show 03:00.
            times = [firing.at for firing in reversed(await process.schedules.firings("s"))]
            assert times == [
                datetime(2027, 3, 28, 1, 0, tzinfo=UTC),
                datetime(2027, 3, 29, 0, 30, tzinfo=UTC),
                datetime(2027, 3, 30, 0, 30, tzinfo=UTC),
            ]
            await b.set_time(_at(2027, 10, 30, 12))
            await process.fire()
            for _ in range(2):
                await b.passes(await process.fire())
            await process.fire()
            # 02:30 exists twice on October 31: the job runs the first time.
            times = [firing.at for firing in await process.schedules.firings("s", limit=2)]
            assert times == [datetime(2027, 11, 1, 1, 30, tzinfo=UTC), datetime(2027, 10, 31, 0, 30, tzinfo=UTC)]

    # -- after a downtime ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("misfire", "late", "fired", "missed"),
        [("once", 0, 1, 9), ("once", 30, 1, 9), ("skip", 0, 1, 9), ("skip", 25, 0, 10), ("catch_up", 30, 10, 0)],
    )
    async def test_times_that_passed_are_handled_as_the_schedule_says(
        self, store_url: str, misfire: str, late: float, fired: int, missed: int
    ) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, misfire=misfire, grace=20)
            await b.passes(600 + late)
            assert await process.fire() == near(60 - late)

            schedule = await process.schedules.get("s")
            assert (schedule.fired, schedule.missed) == (fired, missed)
            assert len(await b.enqueued("report")) == fired

    async def test_catching_up_is_bounded_in_each_step_and_complete(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, every=10, misfire="catch_up")
            await b.passes(10 * (MAX_CATCH_UP + 5))
            await process.fire()

            schedule = await process.schedules.get("s")
            assert (schedule.fired, schedule.missed) == (MAX_CATCH_UP + 5, 0)
            assert len(await b.enqueued("report")) == MAX_CATCH_UP + 5

    async def test_a_year_of_downtime_of_a_minutely_schedule_is_one_step(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await b.set_time(_at(2028, 1, 1))
            await _save(process, cron="* * * * *", timezone=BERLIN)
            await b.set_time(_at(2029, 1, 1) + 30)
            assert await process.fire() == near(30)

            (firing, missed) = await process.schedules.firings("s")
            assert firing.at == datetime(2029, 1, 1, tzinfo=UTC)
            assert missed.count >= MAX_CATCH_UP

    # -- edits -----------------------------------------------------------------------------------------------------

    async def test_of_two_concurrent_edits_one_is_refused(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            one, two = b.process("a").open(), b.process("b").open()
            read = await _save(one)
            edited = await _save(two, every=90, version=read.version)
            with pytest.raises(ConcurrencyConflictError, match=f"version {edited.version}, by ann"):
                await _save(one, every=30, version=read.version)
            with pytest.raises(ConcurrencyConflictError):
                await _save(one, every=30)
            assert await _save(one, every=90) == edited, "saving the same again changes nothing"
            assert (await one.schedules.get("s")).every == 90

    async def test_an_edit_keeps_the_grid_unless_the_interval_changes(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            first = await _save(process)
            await b.passes(20)
            second = await _save(process, grace=5, version=first.version)
            third = await _save(process, every=90, version=second.version)

            assert second.next_at == first.next_at
            assert third.next_at is not None
            assert third.next_at.timestamp() == near(b.driver.now + 90)

    async def test_an_edit_that_leaves_the_times_does_not_lose_one_that_is_due(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            first = await _save(process)
            await b.passes(60)
            await _save(process, arguments={"count": 2}, version=first.version)
            await process.fire()

            assert [firing.at for firing in await process.schedules.firings("s")] == [first.next_at]

    async def test_a_firing_during_an_edit_that_leaves_the_times_is_not_repeated(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.lab(store_url) as b:
            process, save = b.process().open(), b.schedules.save
            first = await _save(process, overlap="queue")
            await b.passes(59)

            async def fire_first(edit: ScheduleEdit) -> Edited | ScheduleConflict:
                await b.passes(2)
                await process.fire()
                return await save(edit)

            monkeypatch.setattr(b.schedules, "save", fire_first)
            await _save(process, overlap="queue", arguments={"count": 2}, version=first.version)
            await process.fire()

            assert [firing.at for firing in await process.schedules.firings("s")] == [first.next_at]

    async def test_a_firing_during_an_edit_of_the_times_is_not_repeated(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.lab(store_url) as b:
            process, save = b.process().open(), b.schedules.save
            await b.set_time(_at(2027, 1, 15, 12, 9) + 59)
            first = await _save(process, cron="*/5 * * * *", overlap="queue")

            async def fire_first(edit: ScheduleEdit) -> Edited | ScheduleConflict:
                await b.passes(2)
                await process.fire()
                return await save(edit)

            monkeypatch.setattr(b.schedules, "save", fire_first)
            await _save(process, cron="*/10 * * * *", overlap="queue", version=first.version)
            await process.fire()
            assert [firing.at for firing in await process.schedules.firings("s")] == [first.next_at]

            await b.passes(600)
            await process.fire()
            assert (await process.schedules.get("s")).fired == 2

    async def test_an_invalid_schedule_is_refused_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            invalid: list[dict[str, Any]] = [
                {"cron": "* * * * *", "every": 60},
                {"cron": None, "every": None},
                {"cron": "61 * * * *"},
                {"cron": "* " * 500},
                {"every": 9.9},
                {"every": timedelta(days=31)},
                {"cron": "* * * * *", "timezone": "Mars/Olympus"},
                {"every": 60, "arguments": {"nobody": 1}},
                {"every": 60, "arguments": {"count": "many"}},
                {"every": 60, "job": "unknown"},
                {"every": 60, "misfire": "never"},
                {"every": 60, "overlap": "both"},
                {"every": 60, "misfire": "catch_up", "overlap": "skip"},
                {"every": 60, "grace": -1},
                {"every": 60, "jitter": 61},
                {"every": 60, "name": "a b"},
                {"every": 60, "active": False, "timezone": ""},
            ]
            for how in invalid:
                given = {"name": "s", "job": "report", "by": "ann"} | how
                with pytest.raises(InvalidArgumentError):
                    await process.schedules.save(given.pop("name"), **given)
            assert await process.schedules.list() == []

    async def test_a_paused_schedule_does_not_fire_nor_make_up_for_it(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process)
            paused = await process.schedules.pause("s", by="bob", reason="maintenance")
            assert (paused.state, paused.next_at, paused.state_by) == (ScheduleState.PAUSED, None, "bob")
            await b.passes(300)
            await process.fire()
            resumed = await process.schedules.resume("s", by="bob")
            await process.fire()

            assert await b.enqueued("report") == []
            assert resumed.next_at is not None
            assert resumed.next_at.timestamp() == near(b.driver.now + 60)
            assert (await process.schedules.get("s")).missed == 0

    async def test_an_edit_leaves_a_paused_schedule_paused(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process)
            paused = await process.schedules.pause("s", by="bob", reason="maintenance")
            same = await _save(process)
            edited = await _save(process, every=3600, version=same.version)
            started = await _save(process, every=3600, active=True, version=edited.version)

            assert same.version == paused.version
            assert (edited.state, edited.state_by, edited.every) == (ScheduleState.PAUSED, "bob", 3600)
            assert started.active

    async def test_a_schedule_that_is_edited_while_it_is_resumed_fires_by_its_new_times(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.lab(store_url) as b:
            process, set_state = b.process().open(), b.schedules.set_state
            await _save(process)
            paused = await process.schedules.pause("s", by="ann", reason="x")

            async def edit_first(change: StateChange) -> Edited | ScheduleConflict:
                monkeypatch.setattr(b.schedules, "set_state", set_state)
                await _save(process, every=3600, active=False, version=paused.version)
                return await set_state(change)

            monkeypatch.setattr(b.schedules, "set_state", edit_first)
            resumed = await process.schedules.resume("s", by="ann")

            assert resumed.active
            assert resumed.next_at is not None
            assert resumed.next_at.timestamp() == near(b.driver.now + 3600)

    async def test_trigger_enqueues_now_and_leaves_the_next_time(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process, console = b.process().open(), Process(b.driver, "b").open()
            schedule = await _save(process, arguments={"account": "a1"})
            first = await process.schedules.trigger("s", by="ann")
            second = await console.schedules.trigger("s", by="ann")  # it does not define the job

            assert await b.enqueued("report") == [first.id, second.id]
            views = [await b.driver.view(handle.id) for handle in (first, second)]
            assert [view.arguments for view in views] == ['{"account":"a1"}'] * 2
            assert [view.lane for view in views] == ["schedule:s"] * 2
            assert (await process.schedules.get("s")).next_at == schedule.next_at
            assert [action for action, _ in await b.journal("s")][1:] == ["schedule.trigger"] * 2

    async def test_backfill_enqueues_a_job_for_each_time_of_a_range(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, cron="0 * * * *")
            start = datetime(2027, 1, 1, tzinfo=UTC)
            handles = await process.schedules.backfill(
                "s", start, start + timedelta(hours=5), by="ann", reason="lost reports"
            )
            assert await b.enqueued("report") == [handle.id for handle in handles]
            times = [firing.at for firing in reversed(await process.schedules.firings("s"))]
            assert times == [start + timedelta(hours=n) for n in range(5)]
            with pytest.raises(InvalidArgumentError, match="more than 3 times"):
                await process.schedules.backfill("s", start, start + timedelta(hours=5), by="a", reason="b", limit=3)
            with pytest.raises(InvalidArgumentError, match="Invalid start"):
                await process.schedules.backfill("s", datetime(2027, 1, 1), start, by="a", reason="b")  # noqa: DTZ001

    async def test_every_operation_has_an_actor_and_is_journaled(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process)
            with pytest.raises(InvalidArgumentError):
                await process.schedules.pause("s", by="", reason="x")
            await process.schedules.pause("s", by="bob", reason="x")
            await process.schedules.resume("s", by="cid")
            await process.schedules.delete("s", by="dan", reason="y")
            with pytest.raises(NotFoundError, match="does not exist"):
                await process.schedules.get("s")
            assert await b.journal("s") == [
                ("schedule.save", "ann"),
                ("schedule.pause", "bob"),
                ("schedule.resume", "cid"),
                ("schedule.delete", "dan"),
            ]

    async def test_a_preview_says_the_next_times_in_plain_words(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await b.set_time(_at(2027, 11, 15, 17, 2))
            await _save(process, cron="*/5 * * * *", timezone=BERLIN)
            preview = await process.schedules.preview("s")
            assert len(preview.times) == 5
            assert str(preview).startswith(
                "every 5 minutes (Europe/Berlin); next: Mon 15 Nov 18:05 CET (in 3 minutes), Mon 15 Nov 18:10 CET (in 8"
            )
            unsaved = await process.schedules.preview(every=90, count=1)
            assert str(unsaved) == "every 90 seconds; next: Mon 15 Nov 17:03:30 UTC (in a minute)"

    # -- in code ---------------------------------------------------------------------------------------------------

    async def test_a_schedule_in_code_is_stored_and_fires(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process()

            @process.schedules.every(30, queue="ticks")
            async def tick(count: int = 3) -> None:
                """Do nothing."""

            process.open()
            await process.scheduler.declare()
            await b.passes(30)
            await process.fire()
            assert len(await b.driver.fetch(queues=("ticks",), names=("tick",))) == 1
            assert (await process.schedules.get("tick")).origin == "code"
            with pytest.raises(MisuseError, match="declared in code"):
                await process.schedules.save("tick", job=tick, every=60, by="ann")
            with pytest.raises(MisuseError, match="live process"):
                await process.schedules.delete("tick", by="ann", reason="x")

    async def test_a_handler_on_a_schedule_needs_no_arguments(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process()
            with pytest.raises(MisuseError, match="cannot run on a schedule"):

                @process.schedules.cron("* * * * *")
                async def wrong(account: str) -> None:
                    """Do nothing."""

    async def test_old_and_new_code_side_by_side_fire_once_by_the_new_expression(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            old, new, restarted = Process(b.driver, "a"), Process(b.driver, "b"), Process(b.driver, "c")
            for process, interval in ((old, 60), (new, 30), (restarted, 60)):

                @process.schedules.every(interval, overlap="queue")
                async def tick() -> None:
                    """Do nothing."""

                await process.open().scheduler.declare()
            for _ in range(10):
                await b.passes(30)
                await asyncio.gather(old.fire(), new.fire(), restarted.fire())

            assert (await old.schedules.get("tick")).every == 30
            assert len(await b.enqueued("tick")) == 10

    async def test_a_deploy_that_leaves_the_times_does_not_lose_those_that_passed_meanwhile(
        self, store_url: str
    ) -> None:
        async with self.lab(store_url) as b:
            old, new = Process(b.driver, "a"), Process(b.driver, "b")
            for process, priority in ((old, 0), (new, 5)):

                @process.schedules.every(30, misfire="catch_up", priority=priority)
                async def tick() -> None:
                    """Do nothing."""

                process.open()
            await old.scheduler.declare()
            await b.passes(65)
            await new.scheduler.declare()
            await new.fire()

            schedule = await new.schedules.get("tick")
            assert (schedule.fired, len(await b.enqueued("tick"))) == (2, 2)

    async def test_a_schedule_that_was_removed_from_the_code_stays_listed_and_does_not_fire(
        self, store_url: str
    ) -> None:
        async with self.lab(store_url) as b:
            before, after = Process(b.driver, "a"), Process(b.driver, "b")

            @before.schedules.every(30)
            async def tick() -> None:
                """Do nothing."""

            after.jobs.job()(tick.definition.function)
            await before.open().scheduler.declare()
            await after.open().scheduler.declare()
            await b.store.sessions.end("a")
            await b.driver.let_pass(60, "b", "c")
            await after.fire()

            schedule = await after.schedules.get("tick")
            assert (schedule.orphaned, schedule.active, schedule.fired) == (True, False, 0)
            await after.schedules.delete("tick", by="ann", reason="not needed any more")
            assert await after.schedules.list() == []

    # -- bad rows --------------------------------------------------------------------------------------------------

    async def test_at_start_a_bad_row_is_switched_off_and_the_others_fire(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await _save(process, "good")
            bad: dict[str, dict[str, Any]] = {
                "expression": {"cron": "61 * * * *", "every": 0.0},
                "zone": {"timezone": "Nowhere"},
                "both": {"cron": "* * * * *"},
                "unknown": {"job": "gone"},
                "arguments": {"arguments": '{"nobody":1}'},
                "policy": {"misfire": "sometimes"},
            }
            for name, wrong in bad.items():
                await self._corrupt(b, process, name, wrong)
            told: list[Schedule] = []
            process.schedules.on_switched_off(told.append)
            off = await process.scheduler.check()
            await b.passes(60)
            await process.fire()

            assert len(off) == 6
            assert len(await b.enqueued("report")) == 1
            assert {one.name: one.state for one in told} == dict.fromkeys((one.name for one in off), ScheduleState.OFF)
            reasons = {one.name: one.state_reason for one in told}
            assert reasons["unknown"] == "The job 'gone' does not exist."
            assert "61 * * * *" in reasons["expression"]
            assert "Nowhere" in reasons["zone"]
            assert (await b.journal("zone"))[-1] == ("schedule.switch_off", "interlock")
            await process.scheduler.check()
            assert len(told) == 6, "an application is notified once"

    async def test_a_row_that_goes_bad_while_it_is_used_is_switched_off(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await self._corrupt(b, process, "bad", {"timezone": "Nowhere"})
            await _save(process, "good")
            await b.passes(60)
            await process.fire()

            assert len(await b.enqueued("report")) == 1
            assert (await process.schedules.get("bad")).state is ScheduleState.OFF

    async def test_an_application_is_told_again_if_its_hook_failed(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process = b.process().open()
            await self._corrupt(b, process, "bad", {"timezone": "Nowhere"})
            told: list[str] = []

            @process.schedules.on_switched_off
            async def tell(schedule: Schedule) -> None:
                told.append(schedule.state_reason)
                if len(told) == 1:
                    raise RuntimeError("the table is locked")

            for _ in range(3):
                await process.scheduler.check()
            assert len(told) == 2

    async def test_a_schedule_of_a_job_that_other_live_workers_have_is_left_alone(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            process, stranger = b.process().open(), Process(b.driver, "b").open()
            await _save(process)
            await b.store.jobs.register_worker("a", ["default"], ["report"], 1)
            await stranger.scheduler.check()
            assert (await process.schedules.get("s")).state is ScheduleState.ACTIVE

            await b.store.sessions.end("a")
            await stranger.scheduler.check()
            assert (await process.schedules.get("s")).state is ScheduleState.OFF

            await process.scheduler.check()  # a program that has the job starts again
            assert (await process.schedules.get("s")).state is ScheduleState.ACTIVE

    async def test_arguments_that_only_another_version_takes_are_left_to_it(self, store_url: str) -> None:
        async with self.lab(store_url) as b:
            old, new = Process(b.driver, "a"), Process(b.driver, "b")

            @old.jobs.job(name="send")
            async def send(account: str) -> None:
                """Do nothing."""

            @new.jobs.job(name="send")
            async def send_many(account: str, count: int) -> None:
                """Do nothing."""

            old.open()
            new.open()
            await new.schedules.save("s", job="send", every=60, arguments={"account": "a", "count": 2}, by="ann")
            await b.store.jobs.register_worker("b", ["default"], ["send"], 1)
            await b.passes(60)
            await old.fire()
            assert (await new.schedules.get("s")).state is ScheduleState.ACTIVE
            await new.fire()
            assert (await new.schedules.get("s")).fired == 1

            await b.store.sessions.end("b")
            await b.driver.let_pass(60, "a", "c")
            await old.fire()
            assert (await old.schedules.get("s")).state is ScheduleState.OFF

    async def _corrupt(self, b: Lab, process: Process, name: str, wrong: dict[str, Any]) -> None:
        """Store a schedule that the API refuses, as an edit by SQL would."""
        await _save(process, name, active=False)
        _, row = await b.schedules.get(name)
        assert row is not None
        definition = row.definition._replace(**wrong)
        edit = ScheduleEdit(
            name, row.version, definition, True, row.anchor_at, b.driver.now + 1, Attribution("ann"), f"by hand {name}"
        )
        assert isinstance(await b.schedules.save(edit), Edited)
