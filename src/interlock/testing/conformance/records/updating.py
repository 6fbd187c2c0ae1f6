"""Create, read, update, compare and set, transition, update many, delete, explain."""

from __future__ import annotations

import asyncio
import json
from contextvars import Context

import pytest

from interlock.errors import (
    ConcurrencyConflictError,
    InvalidArgumentError,
    InvalidTransitionError,
    LockTimeoutError,
    RecordExistsError,
    RecordNotFoundError,
    StaleFenceError,
)
from interlock.ports.records import lock_key
from interlock.testing.clock import until
from interlock.testing.conformance.records.apps import Intent, RecordApp, RecordAppSuite, Status

__all__ = ["UpdateConformance"]


def _add(intent: Intent) -> None:
    intent.count += 1


class UpdateConformance(RecordAppSuite):
    """Every operation but edits and corrections."""

    async def test_a_record_is_created_read_changed_and_deleted(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            created = await a.intents.create(Intent(id="i1", payload={"x": [1, {"y": None}]}), by="eva", reason="new")
            assert (created.version, created.status, created.fence) == (0, Status.RECEIVED, None)
            assert created.created_at is not None
            assert created.created_at == created.updated_at
            assert await a.intents.get("i1") == created

            changed = await a.intents.update("i1", _add, by="ann", reason="more")
            assert (changed.version, changed.count, changed.payload) == (1, 1, {"x": [1, {"y": None}]})
            assert (await a.intents.get("i1")) == changed

            await a.intents.delete("i1", by="eva")
            with pytest.raises(RecordNotFoundError, match="Intent 'i1'"):
                await a.intents.get("i1")
            with pytest.raises(RecordNotFoundError):
                await a.intents.update("i1", _add)
            with pytest.raises(RecordNotFoundError):
                await a.intents.delete("i1")

    async def test_the_journal_tells_the_whole_life_of_a_record(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.intents.create(Intent(id="i1"), by="eva", reason="new")
            await a.intents.update("i1", {"count": 5, "owner": "ann"}, by="ann")
            await a.intents.transition("i1", Status.PROCESSED, by="kana")
            async with a.intents.edit("i1", by="yuno") as intent:
                intent.count = 6
            await a.intents.delete("i1", by="eva")
            entries = list(await a.intents.history("i1"))[::-1]

            assert [(e.actor, e.action, e.from_version, e.to_version) for e in entries] == [
                ("eva", "record.create", None, 0),
                ("ann", "record.update", 0, 1),
                ("kana", "record.transition", 1, 2),
                ("yuno", "record.edit", 2, 3),
                ("eva", "record.delete", 3, None),
            ]
            before, after = json.loads(entries[1].before or ""), json.loads(entries[1].after or "")
            assert before == {"count": 0, "owner": None}, "only what changed"
            assert {name: after[name] for name in ("count", "owner")} == {"count": 5, "owner": "ann"}
            assert json.loads(entries[2].before or "") == {"status": "received"}

    async def test_what_changes_nothing_writes_nothing(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            assert (await a.intents.update("i1", lambda _: None)).version == 0
            assert (await a.intents.transition("i1", "received")).version == 0, "a status may be set to itself"
            async with a.intents.edit("i1"):
                pass
            assert len(await a.intents.history("i1")) == 1

    async def test_an_id_is_taken_once(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", count=1)
            with pytest.raises(RecordExistsError):
                await a.new("i1", count=2)
            assert await a.counts("i1") == [(0, 1)]

    async def test_invalid_values_are_refused_and_nothing_is_written(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            for change in (
                {"count": "many"},
                {"payload": {"x": "a\0b"}},
                {"payload": {"x": "a" * 2**21}},
                {"payload": {"x": "\ud800"}},
                {"payload": {"x": object()}},
                {"status": "unheard-of"},
                {"id": "i2"},
                {"nothing": 1},
                lambda _: "text",
            ):
                with pytest.raises((InvalidArgumentError, InvalidTransitionError)):
                    await a.intents.update("i1", change)  # type: ignore[arg-type]
            assert await a.counts("i1") == [(0, 0)]
            assert len(await a.intents.history("i1")) == 1

    # -- the machine ---------------------------------------------------------------------------------------------------

    async def test_the_machine_is_checked_on_every_write(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            with pytest.raises(InvalidTransitionError, match="cannot be created"):
                await a.new("i0", status=Status.COMPLETED)
            await a.new("i1")
            record = await a.intents.get("i1")
            with pytest.raises(InvalidTransitionError, match="'received' to 'completed'"):
                await a.intents.transition("i1", Status.COMPLETED)
            with pytest.raises(InvalidTransitionError):
                await a.intents.update("i1", {"status": Status.COMPLETED})
            with pytest.raises(InvalidTransitionError):
                await a.intents.compare_and_set("i1", record.model_copy(update={"status": Status.CORRECTED}), 0)
            with pytest.raises(InvalidTransitionError):
                async with a.intents.edit("i1") as intent:
                    intent.status = Status.CORRECTED
            with pytest.raises(InvalidTransitionError):
                await a.intents.update_many(["i1"], {"status": Status.CORRECTED})
            assert len(await a.intents.history("i1")) == 1

            await a.intents.transition("i1", Status.FAILED)
            with pytest.raises(InvalidTransitionError, match="final"):
                await a.intents.transition("i1", Status.RECEIVED)
            assert (await a.intents.update("i1", {"count": 1})).status is Status.FAILED

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def test_lists_by_status_and_fields_page_by_page(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            for number in range(5):
                await a.new(f"i{number}", owner="eva" if number % 2 else None)
            await a.intents.transition("i3", Status.FAILED)

            assert [one.id for one in await a.intents.list()] == ["i0", "i1", "i2", "i3", "i4"]
            assert [one.id for one in await a.intents.list(limit=2, after="i1")] == ["i2", "i3"]
            assert [one.id for one in await a.intents.list(where={"owner": "eva"})] == ["i1", "i3"]
            assert [one.id for one in await a.intents.list(where={"owner": None}, limit=2)] == ["i0", "i2"]
            assert [one.id for one in await a.intents.list(status=Status.FAILED)] == ["i3"]
            with pytest.raises(InvalidArgumentError, match="no field"):
                await a.intents.list(where={"status": "failed"})

    # -- conflicts -----------------------------------------------------------------------------------------------------

    async def test_compare_and_set_replaces_only_the_version_that_was_read(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            read = await a.intents.get("i1")
            await a.intents.update("i1", _add)

            read.count = 9
            assert await a.intents.compare_and_set("i1", read, 0) is False
            assert await a.counts("i1") == [(1, 1)]
            assert await a.intents.compare_and_set("i1", read, 1) is True
            assert await a.counts("i1") == [(2, 9)]
            with pytest.raises(RecordNotFoundError):
                await a.intents.compare_and_set("i2", Intent(id="i2"), 0)

    async def test_compare_and_set_does_not_reach_a_record_that_was_created_again(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            read = await a.intents.get("i1")
            await a.intents.delete("i1")
            await a.new("i1", count=7)

            assert await a.intents.compare_and_set("i1", read, 0) is False
            assert await a.counts("i1") == [(0, 7)]

    async def test_a_loser_queues_and_computes_again(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1")
            calls = 0

            async def slowly(intent: Intent) -> None:
                nonlocal calls
                calls += 1
                if calls == 1:
                    await two.intents.update("i1", {"owner": "two"})
                intent.count += 1

            changed = await one.intents.update("i1", slowly)
            assert (calls, changed.version, changed.count, changed.owner) == (2, 2, 1, "two")
            entry = (await one.intents.history("i1"))[0]
            after = json.loads(entry.after or "")
            assert (after["_retries"], after["_starvation"]) == (1, True), "the fallback is journaled"

    async def test_without_a_strategy_a_conflict_is_raised(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2, strategies={"update": "none"}) as (one, two):
            await one.new("i1")

            async def meet(intent: Intent) -> None:
                await two.intents.update("i1", _add)
                intent.count = 50

            with pytest.raises(ConcurrencyConflictError):
                await one.intents.update("i1", meet)
            async with two.intents.edit("i1"):
                with pytest.raises(LockTimeoutError, match="being edited"):
                    await one.intents.update("i1", _add)
            assert await one.counts("i1") == [(1, 1)]

    async def test_every_writer_queues_behind_a_live_edit(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1", "i2", "i3", "i4", "i5")
            read = await two.intents.get("i3")
            held = [one.intents.edit(f"i{number}") for number in range(1, 6)]
            for edit in held:
                (await edit.__aenter__()).count = 10
            waiting = [
                asyncio.create_task(two.intents.update("i1", _add)),
                asyncio.create_task(two.intents.transition("i2", Status.NORMALIZED)),
                asyncio.create_task(two.intents.compare_and_set("i3", read, 0)),
                asyncio.create_task(two.intents.correct("i4", {"payload.a": 1}, source="kana", reason="r")),
                asyncio.create_task(two.intents.delete("i5")),
            ]
            keys = [lock_key("Intent", f"i{number}") for number in range(1, 6)]
            await _until_waiting(one, keys)
            for edit in reversed(held):
                await edit.__aexit__(None, None, None)
            results = await asyncio.gather(*waiting)

            assert await one.counts("i1", "i2", "i3", "i4") == [(2, 11), (2, 10), (1, 10), (2, 10)]
            assert results[2] is False, "the edit came first"
            with pytest.raises(RecordNotFoundError):
                await one.intents.get("i5")

    async def test_a_stale_fence_is_refused_also_from_a_lock_elsewhere(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            assert (await a.intents.update("i1", _add, fence=10)).fence == 10
            with pytest.raises(StaleFenceError, match="fence 10"):
                await a.intents.update("i1", _add, fence=9)
            with pytest.raises(StaleFenceError):
                async with a.intents.edit("i1", fence=9) as intent:
                    intent.count = 99
            with pytest.raises(StaleFenceError):
                await a.intents.delete("i1", fence=9)
            async with a.intents.edit("i1") as intent:
                intent.count = 5
            assert (await a.intents.update("i1", _add, fence=10)).count == 6, "an edit's lease raises no fence"

    # -- several records -----------------------------------------------------------------------------------------------

    async def test_many_are_updated_together_or_not_at_all(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i3", "i1", "i2")
            changed = await a.intents.update_many(["i3", "i1", "i2", "i1"], _add)
            assert [(one.id, one.version, one.count) for one in changed] == [("i1", 1, 1), ("i2", 1, 1), ("i3", 1, 1)]

            def fail_on_last(intent: Intent) -> None:
                intent.count = 50
                if intent.id == "i3":
                    raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await a.intents.update_many(["i1", "i2", "i3"], fail_on_last)
            with pytest.raises(RecordNotFoundError, match="'i9'"):
                await a.intents.update_many(["i1", "i9"], _add)
            assert await a.counts("i1", "i2", "i3") == [(1, 1)] * 3

    async def test_updates_of_many_in_any_order_never_lose_one(self, store_url: str) -> None:
        async with self.record_apps(store_url, 3) as apps:
            await apps[0].new("i1", "i2", "i3")
            orders = (["i1", "i2", "i3"], ["i3", "i2", "i1"], ["i2", "i3"])
            await asyncio.gather(
                *(a.intents.update_many(ids, _add) for a, ids in zip(apps, orders, strict=True) for _ in range(5))
            )
            assert await apps[0].counts("i1", "i2", "i3") == [(10, 10), (15, 15), (15, 15)]

    async def test_concurrent_updates_of_one_record_all_count(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as apps:
            await apps[0].new("i1")
            await asyncio.gather(*(a.intents.update("i1", _add) for a in apps for _ in range(15)))
            assert await apps[0].counts("i1") == [(30, 30)]
            versions = [entry.to_version for entry in await apps[0].intents.history("i1")]
            assert versions == list(range(30, -1, -1))

    # -- explain -------------------------------------------------------------------------------------------------------

    async def test_explain_names_the_editor_and_the_waiters(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            assert (await a.intents.explain("i1")).reason == "missing"
            await a.new("i1")
            free = await a.intents.explain("i1")
            assert (free.reason, free.data["next_statuses"]) == ("free", ["normalized", "processed", "failed"])
            async with a.intents.edit("i1"):
                other = a.intents.transition("i1", Status.FAILED)
                waiting = asyncio.create_task(other, context=Context())  # not a child of this task
                await _until_waiting(a, [lock_key("Intent", "i1")])
                edited = await a.intents.explain("i1")
                assert (edited.reason, edited.data["waiting"]) == ("edited", 1)
                assert "interlock locks release record:Intent:i1" in edited.remedy
                assert "is being edited: held by" in str(edited)
            await waiting
            assert (await a.intents.explain("i1")).reason == "final"


async def _until_waiting(a: RecordApp, keys: list[str]) -> None:
    async def all_wait() -> bool:
        views = await a.app.locks.list()
        return {view.key for view in views if view.waiters} >= set(keys)

    await until(all_wait, what="all of them wait")
