"""Edits: one editor at a time, nested edits of one task, and what happens when something fails."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from interlock.deadlocks import retry_on_deadlock
from interlock.errors import (
    DeadlockError,
    InvalidArgumentError,
    LeaseLostError,
    LockTimeoutError,
    MisuseError,
    RecordNotFoundError,
)
from interlock.ports.records import lock_key
from interlock.testing.conformance.records.apps import Intent, RecordApp, RecordAppSuite, Status

__all__ = ["EditConformance"]


def _add(intent: Intent) -> None:
    intent.count += 1


class EditConformance(RecordAppSuite):
    """The pessimistic edit."""

    async def test_an_edit_writes_when_its_block_ends(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            async with a.intents.edit("i1", by="eva") as intent:
                intent.payload["x"] = 1
                assert (await a.app.locks.get(lock_key("Intent", "i1"))).holder is not None
            assert intent.version == 1, "the object shows what was written"
            assert (await a.intents.get("i1")).payload == {"x": 1}
            assert await a.app.locks.list() == []

    async def test_an_error_in_the_block_writes_nothing_and_releases_the_record(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            with pytest.raises(ZeroDivisionError):
                async with a.intents.edit("i1") as intent:
                    intent.count = 1 // 0
            with pytest.raises(InvalidArgumentError):
                async with a.intents.edit("i1") as intent:
                    intent.count = "many"  # type: ignore[assignment]
            with pytest.raises(RecordNotFoundError):
                async with a.intents.edit("i2"):
                    pass
            assert await a.counts("i1") == [(0, 0)]
            assert await a.app.locks.list() == []
            assert len(await a.intents.history("i1")) == 1

    async def test_an_edit_waits_for_its_turn_and_no_longer_than_it_may(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1")
            async with one.intents.edit("i1") as intent:
                with pytest.raises(LockTimeoutError, match="record:Intent:i1"):
                    async with two.intents.edit("i1", wait=0.05):
                        pytest.fail("two editors")
                intent.count = 1
            async with two.intents.edit("i1", wait=0.05) as intent:
                assert intent.count == 1

    async def test_editors_take_turns_and_lose_nothing(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as apps:
            await apps[0].new("i1")
            inside = 0

            async def edit(a: RecordApp) -> None:
                nonlocal inside
                for _ in range(5):
                    async with a.intents.edit("i1", wait=30) as intent:
                        inside += 1
                        assert inside == 1
                        await asyncio.sleep(0)
                        intent.count += 1
                        inside -= 1

            await asyncio.gather(*(edit(a) for a in apps for _ in range(2)))
            assert await apps[0].counts("i1") == [(20, 20)]

    async def test_a_lost_lease_stops_the_block_and_writes_nothing(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1")

            async def take() -> None:
                await two.app.locks.force_release(lock_key("Intent", "i1"), by="eva", reason="eva wants it")
                await two.intents.update("i1", _add)

            taking: list[asyncio.Task[None]] = []
            with pytest.raises(LeaseLostError, match="eva wants it"):
                async with one.intents.edit("i1") as intent:
                    intent.count = 99
                    taking.append(asyncio.create_task(take()))
                    await asyncio.sleep(30)
            await taking[0]
            assert await one.counts("i1") == [(1, 1)]

    async def test_a_block_that_ends_after_its_lease_writes_nothing(self, store_url: str) -> None:
        """The block swallows its cancellation, or ends before it arrives."""
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1")
            with pytest.raises(LeaseLostError):
                async with one.intents.edit("i1") as intent:
                    intent.count = 99
                    key = lock_key("Intent", "i1")
                    taking = asyncio.create_task(two.app.locks.force_release(key, by="eva", reason="now"))
                    while not taking.done():
                        with suppress(asyncio.CancelledError):
                            await asyncio.wait([taking])
            assert await one.counts("i1") == [(0, 0)]

    # -- nested edits --------------------------------------------------------------------------------------------------

    async def test_nested_edits_of_one_task_commit_together(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1", "i2")
            async with one.intents.edit("i1") as first:
                async with one.intents.edit("i2") as second:
                    second.count = 2
                first.count = 1
                assert await two.counts("i1", "i2") == [(0, 0), (0, 0)], "nothing before the outermost ends"
                with pytest.raises(LockTimeoutError):
                    async with two.intents.edit("i2", wait=0):
                        pytest.fail("it is still held")
            assert await two.counts("i1", "i2") == [(1, 1), (1, 2)]

    async def test_nested_edits_write_nothing_if_the_lease_on_an_unchanged_record_was_lost(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The outer record was computed from the inner one, which another process has changed since."""
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1", "i2", count=1)
            records = one.intents._engine.store_client.store.records  # noqa: SLF001
            write = records.write_and_release

            async def take_and_write(*args: Any) -> Any:
                monkeypatch.undo()
                await two.app.locks.force_release(lock_key("Intent", "i2"), by="eva", reason="eva wants it")
                await two.intents.update("i2", _add)
                return await write(*args)

            monkeypatch.setattr(records, "write_and_release", take_and_write)
            with pytest.raises(LeaseLostError, match="'i2' was lost before the write"):
                async with one.intents.edit("i1") as first, one.intents.edit("i2") as second:
                    first.count = second.count + 10
            assert await one.counts("i1", "i2") == [(0, 1), (1, 2)]
            assert await one.app.locks.list() == []

    async def test_nested_edits_write_nothing_after_a_loss_that_the_block_ignored(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1", "i2", count=1)
            with pytest.raises(LeaseLostError, match="i2"):
                async with one.intents.edit("i1") as first, one.intents.edit("i2") as second:
                    first.count = second.count + 10
                    key = lock_key("Intent", "i2")
                    taking = asyncio.create_task(two.app.locks.force_release(key, by="eva", reason="now"))
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(30)
                    await taking
            assert await one.counts("i1", "i2") == [(0, 1), (0, 1)]

    async def test_an_error_of_the_outer_edit_discards_all(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")
            with pytest.raises(ValueError, match="no"):
                async with a.intents.edit("i1") as first:
                    async with a.intents.edit("i2") as second:
                        second.count = 2
                    first.count = 1
                    raise ValueError("no")
            assert await a.counts("i1", "i2") == [(0, 0), (0, 0)]
            assert await a.app.locks.list() == []

    async def test_an_inner_error_discards_the_inner_change_only(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")
            async with a.intents.edit("i1") as first:
                first.count = 1
                with pytest.raises(ValueError, match="no"):
                    async with a.intents.edit("i2") as second:
                        second.count = 2
                        raise ValueError("no")
                with pytest.raises(ValueError, match="no"):
                    async with a.intents.edit("i1") as again:
                        again.count = 50
                        again.payload["x"] = {"y": 1}
                        raise ValueError("no")
                assert (first.count, first.payload) == (1, {})
                first.count += 1
            assert await a.counts("i1", "i2") == [(1, 2), (0, 0)]

    async def test_an_invalid_inner_change_discards_all_at_the_end(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")
            with pytest.raises(InvalidArgumentError, match="'i2'"):
                async with a.intents.edit("i1") as first:
                    async with a.intents.edit("i2") as second:
                        second.count = "many"  # type: ignore[assignment]
                    first.count = 1
            assert await a.counts("i1", "i2") == [(0, 0), (0, 0)]

    async def test_the_same_record_in_the_same_task_is_the_same_object(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")
            async with a.intents.edit("i1") as first:
                async with a.intents.edit("i2"), a.intents.edit("i1") as again:
                    assert again is first
                    again.count = 7
                assert await a.intents.get("i1") is first
                assert await a.intents.update("i1", _add) is first
                assert (await a.intents.update("i1", lambda one: one.model_copy(update={"owner": "eva"}))) is first
                assert (first.count, first.owner) == (8, "eva")
                await a.intents.correct("i1", {"payload.x": 5}, source="kana", reason="r")
                assert (first.payload, first.status) == ({"x": 5}, Status.CORRECTED)
                await a.intents.transition("i1", Status.COMPLETED)
                assert first.status is Status.COMPLETED
            stored = await a.intents.get("i1")
            assert (stored.version, stored.count, stored.owner, stored.status) == (1, 8, "eva", Status.COMPLETED)
            again_later = await a.intents.update("i1", _add)
            assert again_later is not first

    async def test_an_illegal_step_inside_an_edit_is_refused_at_once(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            async with a.intents.edit("i1") as intent:
                with pytest.raises(Exception, match="'received' to 'completed'"):
                    await a.intents.transition("i1", Status.COMPLETED)
                await a.intents.transition("i1", Status.NORMALIZED)
                await a.intents.transition("i1", Status.COMPLETED)
            assert intent.status is Status.COMPLETED

    async def test_a_child_task_that_touches_the_record_gets_an_error(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")

            async def edit(id: str) -> None:  # noqa: A002
                async with a.intents.edit(id) as intent:
                    intent.count = 5

            async with a.intents.edit("i1"):
                calls: list[Any] = [
                    edit("i1"),
                    a.intents.get("i1"),
                    a.intents.update("i1", _add),
                    a.intents.correct("i1", {"payload.a": 1}, source="kana", reason="r"),
                    a.intents.transition("i1", Status.FAILED),
                    a.intents.delete("i1"),
                    a.intents.update_many(["i2", "i1"], _add),
                ]
                for call in calls:
                    with pytest.raises(MisuseError, match="task that started this one"):
                        await asyncio.create_task(call)
                await asyncio.create_task(edit("i2"))
                assert await a.counts("i2") == [(1, 5)], "another record, in a transaction of its own"
            await asyncio.create_task(edit("i1"))
            assert await a.counts("i1") == [(1, 5)]

    async def test_operations_that_make_no_sense_inside_the_edit_say_so(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            async with a.intents.edit("i1") as intent:
                for call in (
                    a.intents.delete("i1"),
                    a.intents.update_many(["i1"], _add),
                    a.intents.compare_and_set("i1", intent, 0),
                ):
                    with pytest.raises(MisuseError, match="inside its own edit"):
                        await call

    async def test_an_update_of_another_record_inside_an_edit_is_written_at_once(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", "i2")
            with pytest.raises(ValueError, match="no"):
                async with a.intents.edit("i1"):
                    await a.intents.update("i2", _add)
                    raise ValueError("no")
            assert await a.counts("i1", "i2") == [(0, 0), (1, 1)]

    # -- deadlocks -----------------------------------------------------------------------------------------------------

    async def test_edits_in_opposite_order_are_refused_when_the_cycle_closes_and_both_finish(
        self, store_url: str
    ) -> None:
        async with self.record_apps(store_url, 2) as apps:
            await apps[0].new("i1", "i2")
            both = asyncio.Barrier(2)
            refusals = 0

            @retry_on_deadlock()
            async def edit(a: RecordApp, first: str, second: str, meet: list[bool]) -> None:
                nonlocal refusals
                try:
                    async with a.intents.edit(first) as one:
                        if meet:
                            meet.pop()
                            await both.wait()
                        async with a.intents.edit(second) as two:
                            one.count += 1
                            two.count += 1
                except DeadlockError as error:
                    refusals += 1
                    assert len(error.cycle) == 2
                    raise

            begun = time.monotonic()
            await asyncio.gather(edit(apps[0], "i1", "i2", [True]), edit(apps[1], "i2", "i1", [True]))
            assert refusals == 1
            assert time.monotonic() - begun < 1
            assert await apps[0].counts("i1", "i2") == [(2, 2), (2, 2)]
