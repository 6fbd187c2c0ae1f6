"""Versions, conflicts, fences, deletes, and writes of several records."""

from __future__ import annotations

import pytest

from interlock.ports.records import Conflict, Skipped, StaleFence, Written
from interlock.testing.conformance.records.driver import KIND, MISS, RecordSuite

__all__ = ["RecordWritingConformance"]


class RecordWritingConformance(RecordSuite):
    """A change replaces exactly the version that it names, together with its journal entry."""

    async def test_a_created_record_has_version_zero_and_all_that_was_written(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            body = '{"n": 1,  "text": "größer ✓ \\u0001", "big": 123456789012345678901234567890}'
            written = await b.written("a", None, body=body, status="open")
            record = await b.record("a")

            assert record is not None
            assert written == Written(0, record.updated_at)
            assert record[:7] == (KIND, "a", "uid-a", 0, "open", body, None)
            assert record.created_at == record.updated_at == pytest.approx(b.clock.now(), abs=0.01)

    async def test_every_write_raises_the_version_by_one(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            created = await b.written("a", None, 1)
            b.clock.advance(5)
            assert (await b.written("a", 0, 2, status="done")).version == 1
            second = await b.written("a", 1, 3, status="done")
            record = await b.record("a")

            assert second.version == 2
            assert record is not None
            assert (record.version, record.status, record.body) == (2, "done", '{"n": 3}')
            assert record.created_at == created.updated_at
            assert record.updated_at == second.updated_at == pytest.approx(created.updated_at + 5, abs=0.01)

    async def test_a_change_of_another_version_is_refused_with_the_current_one(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None)
            await b.written("a", 0, 7)

            assert await b.refused("a", 0, 8) == Conflict(1)
            assert await b.refused("a", 2, 8) == Conflict(1)
            assert await b.refused("a", None, 8) == Conflict(1), "it exists already"
            assert await b.refused("b", 0, 8) == Conflict(None), "it does not exist"
            assert await b.values("a", "b") == {"a": (1, 7)}

    async def test_a_change_of_a_deleted_record_does_not_reach_its_successor(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, uid="first")
            await b.written("a", 0, None, uid="first")
            await b.written("a", None, 5, uid="second")

            assert await b.refused("a", 0, 6, uid="first") == Conflict(0)
            assert await b.refused("a", 0, None, uid="first") == Conflict(0)
            assert await b.values("a") == {"a": (0, 5)}

    async def test_a_deleted_record_is_gone(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None)
            await b.written("a", 0, 1)
            assert (await b.written("a", 1, None)).version == 1

            assert await b.record("a") is None
            assert await b.ids() == []
            assert await b.refused("a", 1, None) == Conflict(None)

    async def test_the_time_of_a_write_never_goes_back(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            created = await b.written("a", None)
            b.clock.set_back(3)

            assert (await b.written("a", 0)).updated_at == created.updated_at

    # -- fences --------------------------------------------------------------------------------------------------------

    async def test_a_record_keeps_the_largest_fence_and_refuses_smaller_ones(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, fence=5)
            await b.written("a", 0, fence=5)
            await b.written("a", 1, fence=9)
            await b.written("a", 2)
            record = await b.record("a")

            assert record is not None
            assert record.fence == 9, "a change without a fence leaves it"
            assert await b.refused("a", 3, fence=8) == StaleFence(9)
            assert await b.refused("a", MISS, fence=8) == StaleFence(9), "the fence is checked before the version"
            assert (await b.written("a", 3, fence=2**53)).version == 4

    async def test_a_delete_checks_the_fence_too(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, fence=5)

            assert await b.refused("a", 0, None, fence=4) == StaleFence(5)
            await b.written("a", 0, None, fence=5)

    # -- several at once -----------------------------------------------------------------------------------------------

    async def test_several_changes_are_made_together(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("c", None, 1)
            await b.written("a", None, 1)
            answers = await b.write(b.change("c", 0, 2), b.change("b", None, 2), b.change("a", 0, None))

            assert [answer.version for answer in answers] == [1, 0, 0]
            assert await b.values("a", "b", "c") == {"b": (0, 2), "c": (1, 2)}

    async def test_one_refusal_refuses_all_and_every_refused_change_is_named(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in "abcd":  # noqa: A001
                await b.written(id, None, 1, fence=3)
            before = await b.entries()
            answers = await b.write(
                b.change("d", 0, 2), b.change("b", 7, 2), b.change("a", 0, None), b.change("c", 0, 2, fence=2)
            )

            assert answers == [Skipped(), Conflict(0), Skipped(), StaleFence(3)]
            assert await b.values(*"abcd") == dict.fromkeys("abcd", (0, 1))
            assert await b.entries() == before

    async def test_writing_nothing_answers_nothing(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            assert await b.write() == []

    # -- the journal ---------------------------------------------------------------------------------------------------

    async def test_every_change_has_its_entry_with_versions_and_cause(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            b.clock.advance(1)
            await b.written("a", 0, 2)
            b.clock.advance(1)
            await b.written("a", 1, None)
            entries = await b.entries()

            assert [(e.action, e.from_version, e.to_version, e.after) for e in entries] == [
                ("record.create", None, 0, '{"n": 1}'),
                ("record.update", 0, 1, '{"n": 2}'),
                ("record.delete", 1, None, None),
            ]
            assert {(e.subject_kind, e.subject_key) for e in entries} == {("record", f"{KIND}:a")}
            assert {(e.actor, e.reason, e.cause_event, e.cause_job, e.cause_fence) for e in entries} == {
                ("eva", "because", 4, 7, 11)
            }
            assert [e.at - entries[0].at for e in entries] == pytest.approx([0, 1, 2], abs=0.01)

    async def test_a_refused_change_has_no_entry(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1, fence=3)
            await b.refused("a", 5)
            await b.refused("a", 0, fence=2)
            await b.lease("a1", "a")
            await b.refused("a", 0)
            await b.refused("a", 0, owner="b1")

            assert [e.action for e in await b.entries()] == ["record.create"]
