"""Insight into records and the journal: kinds, lists, pages and every reason, on every store with records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import CapabilityError, InvalidArgumentError, NotFoundError
from interlock.insight import data
from interlock.ports.journal import Attribution, NewEntry, Verification
from interlock.ports.records import RecordChange, Written, lock_key, subject_key
from interlock.reasons import REASONS
from interlock.record_strategies import plans
from interlock.records import Machine
from interlock.records.declaration import declaration_text

if TYPE_CHECKING:
    from tests.insight.conftest import Floor, Floors

MACHINE = Machine(initial="new", transitions={"new": ["checked", "failed"], "checked": ["done", "failed"]})
NEWER = Machine(initial="new", transitions={"new": ["done"]})


async def _declare(floor: Floor, machine: Machine | None = MACHINE, **strategies: str) -> None:
    text = declaration_text("Intent", machine, plans(strategies))
    await floor.store.record_insight.declare("Intent", text)


async def _write(
    floor: Floor, name: str, expected: int | None, fields: dict[str, Any] | None, status: str = "new", **more: Any
) -> None:
    """Write a version; ``fields=None`` deletes the record. ``notes`` go into the journal entry."""
    action = "create" if expected is None else "delete" if fields is None else more.get("action", "update")
    to_version = None if fields is None else 0 if expected is None else expected + 1
    after = None if fields is None else json.dumps({"status": status, **fields, **more.get("notes", {})})
    before = json.dumps({"status": "new", "n": 0, "payload": {"kept": 1, "gone": 2}}) if expected is not None else None
    entry = NewEntry(
        Attribution("eva", "because", None, more.get("job")),
        f"record.{action}",
        "record",
        subject_key("Intent", name),
        before,
        after,
        expected,
        to_version,
    )
    body = None if fields is None else json.dumps({**fields, **more.get("kept", {})})
    change = RecordChange("Intent", name, f"uid-{name}", expected, status, body, None, more.get("fence"), entry)
    (answer,) = await floor.store.records.write([change])
    assert isinstance(answer, Written), answer


async def _told(floor: Floor, name: str) -> tuple[str, str]:
    """Reason and short text, which the page, the list and an explanation agree about."""
    page = await floor.insight.record(f"Intent/{name}")
    explained = await floor.insight.explain("record", f"Intent:{name}")
    assert (page.reason, page.why, page.explanation.lines) == (str(explained.reason), explained.why, explained.lines)
    assert explained.subject == ("record", f"Intent:{name}")
    assert "record" in REASONS[explained.reason].subjects
    assert data(page)["why"] == page.why
    return page.reason, page.why


async def test_kinds_have_counts_by_status_in_the_order_of_the_machine(floor: Floors) -> None:
    async with floor() as f:
        assert not await f.insight.record_kinds()
        await _declare(f)
        (row,) = await f.insight.record_kinds()
        assert (row.kind, row.model, row.records) == ("Intent", "Intent", 0)
        for name, status in (("a", "new"), ("b", "done"), ("c", "new"), ("d", "odd")):
            await _write(f, name, None, {"n": 1}, status)
        (row,) = await f.insight.record_kinds()
        assert list(row.statuses.items()) == [("new", 2), ("checked", 0), ("failed", 0), ("done", 1), ("odd", 1)]
        assert row.records == 4


async def test_a_list_selects_by_status_and_a_part_of_the_id(floor: Floors) -> None:
    async with floor() as f:
        await _declare(f)
        for number in range(5):
            await _write(f, f"order-{number}", None, {"n": number}, "new" if number % 2 else "done")

        first = await f.insight.records("Intent", contains="order", limit=3)
        assert [row.record.id for row in first] == ["order-0", "order-1", "order-2"]
        assert [row.reason for row in first] == ["final", "free", "final"]
        rest = await f.insight.records("Intent", contains="order", limit=3, after=first.more)
        assert [row.record.id for row in rest] == ["order-3", "order-4"]
        assert rest.more is None
        assert [row.record.id for row in await f.insight.records("Intent", status="new")] == ["order-1", "order-3"]
        assert not await f.insight.records("Other")


async def test_a_list_names_the_editor(floor: Floors) -> None:
    async with floor() as f:
        for name in ("a", "b", "c"):
            await _write(f, name, None, {})
        await f.granted("a1", lock_key("Intent", "a"))
        await f.granted("b1", lock_key("Intent", "b"))
        await f.granted("c1", lock_key("Other", "c"))

        rows = await f.insight.records("Intent", limit=2, after="a")
        assert [(row.record.id, row.reason) for row in rows] == [("b", "edited"), ("c", "free")]


async def test_a_page_has_fields_versions_as_differences_and_the_machine(floor: Floors) -> None:
    async with floor() as f:
        await _declare(f, update="none:2")
        await _write(f, "a", None, {"n": 0})
        f.clock.advance(1)
        fields = {"n": 1, "payload": {"kept": 1, "new": [3]}}
        corrections = {"count": 1, "last": [["c1", "digest", f.clock.now(), "kana", "wrong"]]}
        await _write(
            f,
            "a",
            0,
            fields,
            "checked",
            fence=7,
            job=5,
            notes={"_retries": 2},
            kept={"_interlock": {"corrections": corrections}},
        )

        page = await f.insight.record("Intent/a")
        assert page.record is not None
        assert (page.record.version, page.record.status, page.record.fence) == (1, "checked", 7)
        assert page.fields == fields
        assert (page.correction_count, page.corrections[0].source) == (1, "kana")
        newest, oldest = page.versions
        assert [(one.path, one.before, one.after) for one in newest.changes] == [
            ("status", '"new"', '"checked"'),
            ("n", "0", "1"),
            ("payload.gone", "2", None),
            ("payload.new", None, "[3]"),
        ]
        assert (newest.entry.cause_job, newest.notes) == (5, {"_retries": 2})
        assert oldest.entry.action == "record.create"
        assert page.next_statuses == ("done", "failed")
        assert page.declared is not None
        assert page.declared.machine is not None
        assert page.declared.machine.diagram == MACHINE.diagram()
        assert page.declared.strategies["update"] == ("none", 2.0)
        told = data(page)
        assert told["versions"][0]["changes"][0]["after"] == "checked"
        assert told["corrections"][0]["at"].startswith("20")


async def test_versions_continue_page_by_page(floor: Floors) -> None:
    async with floor() as f:
        await _write(f, "a", None, {"n": 0})
        for version in range(30):
            f.clock.advance(1)
            await _write(f, "a", version, {"n": version})

        seen: list[int | None] = []
        more = None
        for _ in range(4):
            page = await f.insight.record("Intent/a", limit=9, before=more)
            seen += [version.entry.to_version for version in page.versions]
            more = page.more
        assert seen == list(reversed(range(31)))
        assert more is None


async def test_reasons(floor: Floors) -> None:
    async with floor() as f:
        with pytest.raises(NotFoundError, match="no program declared"):
            await f.insight.record("Intent/a")
        assert (await f.insight.explain("record", "Intent/a")).reason == "missing"
        await _declare(f)
        assert await _told(f, "a") == ("missing", "does not exist")
        await _write(f, "a", None, {"n": 0})
        assert await _told(f, "a") == ("free", "is free")
        key = lock_key("Intent", "a")
        await f.granted("a1", key)
        f.clock.advance(2)
        assert await _told(f, "a") == ("edited", "has been edited by a1 for 2.0 s")
        await f.waiting("b1", key)
        assert await _told(f, "a") == ("edited", "has been edited by a1 for 2.0 s; 1 waits")
        page = await f.insight.record("Intent/a")
        assert page.explanation.remedy == "To end the edit: interlock locks release record:Intent:a --reason …"
        assert page.lock is not None
        assert [waiter.who.caller for waiter in page.lock.waiters] == ["b1"]
        await f.leave("a1")
        assert (await _told(f, "a"))[0] == "passing"
        await f.granted("b1", key)
        await f.leave("b1")
        await _write(f, "a", 0, {"n": 1}, "done")
        assert await _told(f, "a") == ("final", "has a final status")
        await _write(f, "a", 1, {"n": 1}, "odd")
        assert (await _told(f, "a"))[0] == "unknown-status"
        await _write(f, "a", 2, None)
        assert (
            (await f.insight.explain("record", "Intent/a")).lines[0].startswith("Intent 'a' was deleted by eva at 20")
        )
        assert (await _told(f, "a"))[0] == "missing"


async def test_a_record_whose_writes_lose_is_contended_for_a_while(floor: Floors) -> None:
    async with floor() as f:
        await _write(f, "a", None, {"n": 0})
        for version in range(3):
            assert (await _told(f, "a"))[0] == "free"
            await _write(f, "a", version, {"n": version}, notes={"_retries": 1, "_starvation": True})
        assert await _told(f, "a") == ("contended", "is free; 3 of its last 4 writes lost first")
        f.clock.advance(601)
        assert (await _told(f, "a"))[0] == "free"


async def test_the_newest_declaration_is_shown_and_the_others_are_mentioned(floor: Floors) -> None:
    async with floor() as f:
        await _declare(f, MACHINE)
        await _declare(f, NEWER)
        kind = await f.insight.record_kind("Intent")
        assert kind.machine is not None
        assert (kind.machine.final, kind.others) == (("done",), ("machine",))
        await _declare(f, MACHINE, update="none")
        assert (await f.insight.record_kind("Intent")).others == ("machine", "strategies")
        with pytest.raises(NotFoundError):
            await f.insight.record_kind("Other")


@pytest.mark.parametrize("ref", ["", "Intent", "Intent/", "/a", "In tent/a", "Intent/" + "x" * 600, 7])
async def test_what_names_no_record_is_refused(ref: Any, floor: Floors) -> None:
    async with floor() as f:
        with pytest.raises(InvalidArgumentError):
            await f.insight.explain("record", ref)
        with pytest.raises(InvalidArgumentError):
            await f.insight.record(ref)


async def test_the_journal_is_explained(floor: Floors) -> None:
    async with floor() as f:
        journal = f.store.journal
        assert (await f.insight.explain("journal")).reason == "sealed"
        await _write(f, "a", None, {"n": 0})
        explained = await f.insight.explain("journal")
        assert (explained.reason, explained.why) == ("unsealed", "has 1 entries that are not sealed yet")
        f.clock.advance(601)
        explained = await f.insight.explain("journal")
        assert explained.reason == "sealing-late"
        assert "interlock journal seal" in explained.remedy
        await journal.verified(Verification(0, 1, 1, 2, "Entry 1 was changed.", b""))
        explained = await f.insight.explain("journal")
        assert explained.reason == "tampered"
        assert any("2 problems, the first: Entry 1 was changed." in line for line in explained.lines)
        assert explained.data["problems"] == 2


async def test_a_store_without_records_says_so() -> None:
    from interlock.backends import from_url
    from interlock.insight import Insight
    from interlock.settings import Settings

    insight = Insight(from_url("redis://localhost:1", settings=Settings()))
    for question in (insight.record_kinds(), insight.records("a"), insight.record("a/b"), insight.explain("journal")):
        with pytest.raises(CapabilityError):
            await question
