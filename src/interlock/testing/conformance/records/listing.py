"""Reads: by ID, by status, by fields, page by page, and apart from other kinds and namespaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.testing.conformance.records.driver import KIND, RecordDriver, RecordSuite

__all__ = ["RecordListConformance"]


async def _create(b: RecordDriver, id: str, status: str = "open", **fields: Any) -> None:  # noqa: A002
    await b.written(id, None, status=status, body=json.dumps({"n": 0, **fields}))


class RecordListConformance(RecordSuite):
    """Lists are bounded and ordered by ID."""

    async def test_several_records_are_read_at_once_and_missing_ones_left_out(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in ("b", "a", "ä", "B"):  # noqa: A001
                await _create(b, id)

            found = await b.records.get(KIND, ["b", "nobody", "a", "ä", "B"], current=True)
            assert [one.id for one in found] == ["B", "a", "b", "ä"]
            assert list(await b.records.get(KIND, [])) == []

    async def test_lists_are_ordered_by_code_point_and_continue_behind_an_id(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            ids = ["A", "B", "a", "a-b", "a_b", "ab", "b", "ä", "✓"]
            for id in reversed(ids):  # noqa: A001
                await _create(b, id)

            assert await b.ids() == ids
            assert await b.ids(limit=4) == ids[:4]
            assert await b.ids(limit=4, after="a-b") == ids[4:8]
            assert await b.ids(after="a-a") == ids[3:], "behind an ID that does not exist"

    async def test_lists_by_status_and_by_prefix(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id, status in (("a%1", "open"), ("a_2", "done"), ("a13", "open"), ("b1", "open")):  # noqa: A001
                await _create(b, id, status)
            await b.written("b1", 0, status="done")

            assert await b.ids(status="open") == ["a%1", "a13"]
            assert await b.ids(status="open", after="a%1", limit=1) == ["a13"]
            assert await b.ids(status="done") == ["a_2", "b1"]
            assert await b.ids(status="none") == []
            assert await b.ids(prefix="a%") == ["a%1"]
            assert await b.ids(prefix="a_") == ["a_2"]
            assert await b.ids(prefix="b", status="done") == ["b1"]

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ({"who": "eva"}, ["a", "c"]),
            ({"who": "eva", "count": 1}, ["a"]),
            ({"count": 1}, ["a"]),
            ({"count": "1"}, ["b"]),
            ({"count": True}, ["c"]),
            ({"count": None}, ["d"]),
            ({"who": None}, []),
            ({"count": 2**62}, ["e"]),
            ({"a.b": "dotted"}, ["e"]),
            ({'"]': "odd"}, ["f"]),
            ({}, ["a", "b", "c", "d", "e", "f"]),
        ],
    )
    async def test_lists_by_fields(self, store_url: str, where: dict[str, Any], found: list[str]) -> None:
        async with self.record_driver(store_url) as b:
            await _create(b, "a", who="eva", count=1)
            await _create(b, "b", who="ann", count="1")
            await _create(b, "c", who="eva", count=True)
            await _create(b, "d", count=None)
            await _create(b, "e", "open", count=2**62, **{"a.b": "dotted"})
            await _create(b, "f", "open", **{'"]': "odd", "a": {"b": "nested", "who": "eva"}})

            assert await b.ids(where=json.dumps(where)) == found
            assert await b.ids(where=json.dumps(where), status="open") == found

    async def test_kinds_and_namespaces_are_apart(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("a", None, 2, kind="Other")
            assert await b.values("a") == {"a": (0, 1)}
            assert list(await b.records.kinds()) == [KIND, "Other"]
            if store_url != "memory://":
                async with self.record_driver(store_url, namespace="elsewhere") as other:
                    assert await other.ids() == []
                    assert list(await other.records.kinds()) == []
                    await other.written("a", None, 3)
                    await other.written("a", 0, None)
            assert await b.values("a") == {"a": (0, 1)}

    async def test_kinds_without_records_are_not_listed(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            assert list(await b.records.kinds()) == []
            await b.written("a", None, kind="b")
            await b.written("a", None, kind="a")
            await b.written("b", None, kind="a")
            await b.written("a", 0, None, kind="b")
            assert list(await b.records.kinds()) == ["a"]
