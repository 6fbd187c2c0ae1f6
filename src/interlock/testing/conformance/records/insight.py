"""The read side of records: searches, counts and declarations of kinds."""

from __future__ import annotations

import asyncio
from typing import Any

from interlock.ports.record_insight import MAX_DECLARATIONS, StatusCount
from interlock.testing.conformance.records.driver import KIND, RecordDriver, RecordSuite

__all__ = ["RecordInsightConformance"]


class RecordInsightConformance(RecordSuite):
    """Queries are bounded and ordered by code point."""

    async def test_searches_find_ids_that_contain_a_text_page_by_page(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in ("order-7", "Order-7", "order-17", "refund-7", "a%7", "ä7"):  # noqa: A001
                await b.written(id, None)

            assert await _found(b) == ["Order-7", "a%7", "order-17", "order-7", "refund-7", "ä7"]
            assert await _found(b, contains="order-") == ["order-17", "order-7"]
            assert await _found(b, contains="%") == ["a%7"]
            assert await _found(b, contains="_") == []
            assert await _found(b, contains="ä") == ["ä7"]
            first = await b.store.record_insight.search(KIND, contains="7", limit=4)
            assert [one.id for one in first.records] == ["Order-7", "a%7", "order-17", "order-7"]
            assert first.more == "order-7"
            rest = await b.store.record_insight.search(KIND, contains="7", limit=4, after=first.more or "")
            assert [one.id for one in rest.records] == ["refund-7", "ä7"]
            assert rest.more is None

    async def test_a_search_shows_managed_fields_and_selects_a_status(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, status="open")
            await b.written("b", None, status="done")
            await b.written("b", 0, status="done", fence=7)

            (found,) = (await b.store.record_insight.search(KIND, status="done")).records
            stored = await b.record("b")
            assert stored is not None
            assert found == ("b", 1, "done", 7, stored.created_at, stored.updated_at)
            assert await _found(b, status="done", contains="a") == []
            assert (await b.store.record_insight.search("Other")).records == []

    async def test_a_search_stops_after_a_bound_and_says_where_to_continue(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.write(*(b.change(f"{number:02}", None) for number in range(25)))
            await b.written("zebra", None)

            insight = b.store.record_insight
            first = await insight.search(KIND, contains="zebra", limit=10, scan=20)
            assert (list(first.records), first.more) == ([], "19")
            second = await insight.search(KIND, contains="zebra", limit=10, after="19", scan=20)
            assert [one.id for one in second.records] == ["zebra"]
            assert second.more is None
            some = await insight.search(KIND, status="open", contains="2", limit=10, scan=20)
            assert ([one.id for one in some.records], some.more) == (["02", "12"], "19")
            assert list(await insight.counts(bound=20)) == [StatusCount(KIND, "open", 20)]

    async def test_records_are_counted_by_kind_and_status(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            assert list(await b.store.record_insight.counts()) == []
            for id, status in (("a", "open"), ("b", "done"), ("c", "open")):  # noqa: A001
                await b.written(id, None, status=status)
            await b.written("a", None, kind="Other", status="")

            expected = [StatusCount(KIND, "done", 1), StatusCount(KIND, "open", 2), StatusCount("Other", "", 1)]
            assert list(await b.store.record_insight.counts()) == expected
            assert list(await b.store.record_insight.counts(limit=2)) == expected[:2]

    async def test_the_last_declaration_of_a_kind_is_the_newest_and_is_not_written_again(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            insight = b.store.record_insight
            await insight.declare(KIND, '{"a": 1}')
            (first,) = await insight.declarations(KIND)
            b.clock.advance(10)
            await insight.declare(KIND, '{"a": 1}')
            assert list(await insight.declarations(KIND)) == [first]

            await insight.declare(KIND, '{"a": 2}')
            await insight.declare(KIND, '{"a": 1}')
            assert await _declared(b) == ['{"a": 1}', '{"a": 2}']
            again, other = await insight.declarations(KIND)
            assert again.first_at == first.first_at
            assert again.declared_at > other.declared_at > first.declared_at

            await insight.declare("Other", "{}")
            assert [one.kind for one in await insight.declarations()] == [KIND, KIND, "Other"]

    async def test_old_declarations_are_forgotten(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for number in range(MAX_DECLARATIONS + 3):
                await b.store.record_insight.declare(KIND, str(number))

            expected = [str(number) for number in reversed(range(3, MAX_DECLARATIONS + 3))]
            assert await _declared(b) == expected

    async def test_programs_that_declare_a_kind_at_the_same_time_all_succeed(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            texts = [str(number % 7) for number in range(28)]
            await asyncio.gather(*(b.store.record_insight.declare(KIND, text) for text in texts))

            declared = await _declared(b)
            assert 1 <= len(set(declared)) == len(declared) <= 7


async def _found(b: RecordDriver, **wanted: Any) -> list[str]:
    return [one.id for one in (await b.store.record_insight.search(KIND, **wanted)).records]


async def _declared(b: RecordDriver) -> list[str]:
    return [one.text for one in await b.store.record_insight.declarations(KIND)]
