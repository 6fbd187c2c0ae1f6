"""Corrections: applied once, by content or by key, with a bounded history."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from interlock.errors import CorrectionRefusedError, InvalidTransitionError, RecordNotFoundError
from interlock.records.corrections import MAX_HISTORY
from interlock.testing.conformance.records.apps import RecordApp, RecordAppSuite, Status

__all__ = ["CorrectionConformance"]


async def _correct(a: RecordApp, diff: Any, key: str | None = None, **options: Any) -> Any:
    return await a.intents.correct("i1", diff, **({"source": "kana", "reason": "because", "key": key} | options))


class CorrectionConformance(RecordAppSuite):
    """``correct``."""

    async def test_a_correction_merges_its_values_and_moves_the_record_to_corrected(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", payload={"a": {"b": 1, "c": 2}, "d": [1]})
            done = await _correct(a, {"payload": {"a": {"b": 9}, "d": [2, 3]}})
            intent = await a.intents.get("i1")

            assert intent.payload == {"a": {"b": 9, "c": 2}, "d": [2, 3]}
            assert (intent.status, intent.version) == (Status.CORRECTED, 1), "from any status that is not final"
            assert (done.id, done.already_applied, done.correction_count) == ("i1", False, 1)
            assert (done.status, done.version) == ("corrected", 1)
            assert intent.updated_at is not None
            assert abs((done.applied_at - intent.updated_at).total_seconds()) < 5

    async def test_the_same_correction_again_changes_nothing_and_tells_the_original_time(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as (one, two):
            await one.new("i1")
            first = await _correct(one, {"payload": {"a": {"b": 1}}})
            again = await _correct(two, {"payload.a.b": 1}, source="yuno", reason="other words")

            assert again.already_applied
            assert again[1:2] + again[3:] == first[1:2] + first[3:], "also its time"
            assert (await one.intents.get("i1")).version == 1
            assert len(await one.intents.history("i1")) == 2

    async def test_a_key_lets_a_correction_be_applied_again(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            await _correct(a, {"payload.a": "A"}, "1")
            await _correct(a, {"payload.a": "B"}, "2")
            back = await _correct(a, {"payload.a": "A"}, "3")
            repeated = await _correct(a, {"payload.a": "A"}, "1")

            assert (back.already_applied, repeated.already_applied) == (False, True)
            assert (await a.intents.get("i1")).payload == {"a": "A"}
            with pytest.raises(CorrectionRefusedError, match="another diff") as refused:
                await _correct(a, {"payload.a": "C"}, "1")
            assert refused.value.reason == "key-reused"

    async def test_what_a_record_does_not_allow_is_refused(self, store_url: str) -> None:
        async with self.record_app(store_url, sources=["kana", "yuno"]) as a:
            with pytest.raises(RecordNotFoundError):
                await _correct(a, {"payload.a": 1})
            await a.new("i1")
            for diff, options, reason in (
                ({"count": 1}, {}, "field-not-allowed"),
                ({"status": "failed"}, {}, "field-not-allowed"),
                ({"payload": 5}, {}, "invalid-value"),
                ({"payload.a": 1}, {"source": "eva"}, "source-not-allowed"),
                ({"payload.a": 1}, {"source": ""}, "invalid-source"),
                ({"payload.a": 1}, {"reason": " "}, "invalid-reason"),
                ({"payload.a": 1}, {"reason": "x" * 1001}, "invalid-reason"),
                ({"payload.$inc": 1}, {}, "operator"),
            ):
                with pytest.raises(CorrectionRefusedError) as refused:
                    await _correct(a, diff, **options)
                assert refused.value.reason == reason
            await a.intents.transition("i1", Status.FAILED)
            with pytest.raises(InvalidTransitionError, match="final"):
                await _correct(a, {"payload.a": 1})
            assert len(await a.intents.history("i1")) == 2

    async def test_the_journal_has_everything_about_a_correction(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1", payload={"a": 1})
            done = await _correct(a, {"payload.a": 2}, "k", reason="x" * 1000, metadata={"ticket": 7})
            entry = (await a.intents.history("i1"))[0]
            after = json.loads(entry.after or "")

            assert (entry.actor, entry.action, entry.reason) == ("kana", "record.correct", "x" * 1000)
            assert (entry.from_version, entry.to_version) == (0, 1)
            assert json.loads(entry.before or "") == {"status": "received", "payload": {"a": 1}}
            notes = after["_correction"]
            assert (notes["correction_id"], notes["key"], notes["metadata"]) == (done.correction_id, "k", {"ticket": 7})

    async def test_the_history_in_the_record_is_bounded_and_the_journal_remembers(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            first = await _correct(a, {"payload.n": 0})
            for number in range(1, MAX_HISTORY + 5):
                await _correct(a, {"payload.n": number})
            stored = (await a.app._durable.store.records.get("Intent", ["i1"]))[0]  # noqa: SLF001
            kept = json.loads(stored.body)["_interlock"]["corrections"]
            again = await _correct(a, {"payload.n": 0})

            assert (len(kept["last"]), kept["count"]) == (MAX_HISTORY, MAX_HISTORY + 5)
            assert (again.already_applied, again.applied_at) == (True, first.applied_at)
            assert again.correction_count == MAX_HISTORY + 5

    async def test_fifty_concurrent_corrections_are_all_applied(self, store_url: str) -> None:
        async with self.record_apps(store_url, 2) as apps:
            await apps[0].new("i1")
            results = await asyncio.gather(
                *(_correct(apps[n % 2], {f"payload.n{n}": n}, wait=30) for n in range(50)),
                *(_correct(apps[n % 2], {f"payload.n{n}": n}, wait=30) for n in range(50)),
            )
            intent = await apps[0].intents.get("i1")

            assert intent.payload == {f"n{n}": n for n in range(50)}
            assert intent.version == 50
            assert sum(not one.already_applied for one in results) == 50
            assert len(await apps[0].intents.history("i1")) == 51

    async def test_corrections_inside_an_edit_are_written_with_it(self, store_url: str) -> None:
        async with self.record_app(store_url) as a:
            await a.new("i1")
            async with a.intents.edit("i1"):
                one = await _correct(a, {"payload.a": 1})
                two = await _correct(a, {"payload.a": 1})
                assert (one.already_applied, two.already_applied) == (False, True)
                with pytest.raises(ValueError, match="no"):
                    async with a.intents.edit("i1"):
                        await _correct(a, {"payload.b": 1})
                        raise ValueError("no")
            intent = await a.intents.get("i1")
            assert (intent.version, intent.payload) == (1, {"a": 1})
            assert (await _correct(a, {"payload.a": 1})).already_applied
            assert not (await _correct(a, {"payload.b": 1})).already_applied
