"""The pages of records, and the same as JSON: kinds, lists, one record with its machine, and links both ways."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from interlock import App
from interlock.records import Machine
from tests.web.pages.asking import Asker, links_in
from tests.web.pages.furniture import HOSTILE, PRINTABLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.records import Records

MACHINE = Machine(
    initial="new",
    transitions={"new": ["checked", "failed"], "checked": ["new", "done", "failed"], PRINTABLE[:60]: ["done"]},
    corrected="checked",
)


class Order(BaseModel):
    id: str
    status: str = "new"
    payload: dict[str, Any] = Field(default_factory=dict)


class Note(BaseModel):
    id: str


class Floor:
    def __init__(self, app: App, orders: Records[Order]) -> None:
        self.app = app
        self.orders = orders
        self.asker = Asker(app)


@pytest.fixture
async def floor() -> AsyncIterator[Floor]:
    app = App("memory://")
    orders = app.records(Order, machine=MACHINE, correctable=["payload"])
    async with app:
        for name in ("order-1", "order-2", "refund-1"):
            await orders.create(Order(id=name, payload={"to": "ann"}), by="eva", reason="new <b>one</b>")
        yield Floor(app, orders)


async def test_kinds_are_listed_and_lead_to_their_records(floor: Floor) -> None:
    single = await floor.asker.get("/records")
    notes = floor.app.records(Note)
    await notes.create(Note(id="1"))
    kinds = await floor.asker.get("/records")
    data = (await floor.asker.get("/api/records")).json

    assert "order-1" in single.text, "a single kind needs no choice"
    assert "/records?kind=Note" in kinds.text
    assert "/records?kind=Order&amp;status=new" in kinds.text
    assert [(row["kind"], row["records"]) for row in data["rows"]] == [("Note", 1), ("Order", 3)]


async def test_a_list_is_filtered_by_status_and_a_part_of_the_id(floor: Floor) -> None:
    await floor.orders.transition("order-2", "checked")
    page = await floor.asker.get("/records?kind=Order&status=new&id=order")
    data = (await floor.asker.get("/api/records?kind=Order&id=-1&limit=1")).json
    rest = (await floor.asker.get(f"/api/records?kind=Order&id=-1&limit=1&after={data['more']}")).json
    none = await floor.asker.get("/records?kind=Order&id=nothing")
    other = await floor.asker.get("/records?kind=Nothing")

    assert "order-1" in page.text
    assert "order-2" not in page.text
    assert [row["record"]["id"] for row in (*data["rows"], *rest["rows"])] == ["order-1", "refund-1"]
    assert "No matching records" in none.text
    assert "No records of this kind" in other.text


async def test_a_record_shows_its_fields_versions_corrections_and_machine(floor: Floor) -> None:
    await floor.orders.correct("order-1", {"payload.to": "<i>eva</i>"}, source="kana", reason="wrong name")
    page = (await floor.asker.get("/records/Order/order-1")).text
    data = (await floor.asker.get("/api/records/Order/order-1")).json

    assert "new &lt;b&gt;one&lt;/b&gt;" in page
    assert '<del class="mono">&#34;ann&#34;</del>' in page
    assert '<ins class="mono">&#34;&lt;i&gt;eva&lt;/i&gt;&#34;</ins>' in page
    assert "wrong name" in page
    assert page.count('<g class="state') == 5
    assert page.count('class="state here"') == 1
    assert "May become" in page
    assert "waits 5 s" in page
    assert data["record"]["status"] == "checked"
    assert data["next_statuses"] == ["new", "done", "failed"]
    assert data["corrections"][0]["source"] == "kana"
    assert [version["entry"]["to_version"] for version in data["versions"]] == [1, 0]


async def test_older_versions_are_on_the_next_page(floor: Floor) -> None:
    for number in range(25):
        await floor.orders.update("order-1", {"payload": {"n": number}})
    first = await floor.asker.get("/records/Order/order-1")
    (older,) = [link for link in links_in(first.text) if "before=" in link]
    second = await floor.asker.get(older.replace("&amp;", "&"))

    assert "Version 25<" in first.text
    assert "Version 5<" not in first.text
    assert "Version 5<" in second.text
    assert "Version 0<" in second.text
    assert "Back to the newest" in second.text


async def test_the_editor_and_the_waiters_are_named(floor: Floor) -> None:
    async with floor.app.locks.acquire("record:Order:order-1"):
        waiting = asyncio.create_task(floor.orders.update("order-1", {"payload": {}}, wait=60))
        while not (await floor.app.insight.record("Order/order-1")).explanation.data.get("waiting"):
            await asyncio.sleep(0)
        page = await floor.asker.get("/records/Order/order-1")
        rows = await floor.asker.get("/records?kind=Order")
        lock = await floor.asker.get("/locks/record:Order:order-1")
        waiting.cancel()

    assert "Edited by" in page.text
    assert page.text.count('<ol class="line-up"><li') == 1
    assert "has been edited by" in rows.text
    assert "/records/Order/order-1" in lock.text, "the lock leads to its record"


async def test_job_journal_and_record_lead_to_each_other(floor: Floor) -> None:
    @floor.app.job()
    async def check(order: str) -> None:
        await floor.orders.transition(order, "checked")

    job = (await check.enqueue(order="order-1")).id
    await floor.app.drain()
    (entry,) = await floor.orders.history("order-1", limit=1)
    record = await floor.asker.get("/records/Order/order-1")
    of_job = await floor.asker.get(f"/jobs/{job}")
    journal = await floor.asker.get(f"/journal?job={job}")
    other = await floor.asker.get(f"/journal?job={job + 1}")
    page = await floor.asker.get(f"/journal/{entry.id}")
    data = (await floor.asker.get(f"/api/journal?job={job}")).json

    assert {f"/jobs/{job}", f"/journal/{entry.id}"} <= links_in(record.text)
    assert f"/journal?job={job}" in links_in(of_job.text)
    assert "/records/Order/order-1" in links_in(journal.text)
    assert "No matching entries" in other.text
    assert {"/records/Order/order-1", f"/jobs/{job}"} <= links_in(page.text)
    assert [row["id"] for row in data["rows"]] == [entry.id]


@pytest.mark.parametrize("query", ["job=x", "job=0", "event=-1", "event=99999999999999999999"])
async def test_an_invalid_cause_is_refused(floor: Floor, query: str) -> None:
    assert (await floor.asker.get(f"/journal?{query}")).status == 400
    assert (await floor.asker.get(f"/api/journal?{query}")).status == 400


@pytest.mark.parametrize("name", [HOSTILE[:100], "..", ".", "a/b #d%2F", "with\nnewline", "trailing/", "//two"])
async def test_an_odd_id_is_shown_as_it_is_and_leads_to_its_page(floor: Floor, name: str) -> None:
    await floor.orders.create(Order(id=name, payload={"text": HOSTILE, "mark": "marker-7"}))
    rows = await floor.asker.get("/records?kind=Order")
    links = [link for link in links_in(rows.text) if link.startswith("/records/")]
    pages = [await floor.asker.get(link.replace("&amp;", "&")) for link in links]

    assert len(links) == 4
    assert all(page.status == 200 for page in pages)
    assert sum("marker-7" in page.text for page in pages) == 1
    for page in (rows, *pages):
        assert "<script>window" not in page.text
        assert "\u202e" not in page.text


async def test_what_does_not_exist_says_so(floor: Floor) -> None:
    await floor.orders.delete("order-2", by="eva")
    deleted = await floor.asker.get("/records/Order/order-2")
    missing = await floor.asker.get("/records/Order/nobody")
    unknown = await floor.asker.get("/records/Nothing/1")
    invalid = await floor.asker.get("/records/Order")
    posted = await floor.asker.call("/api/records/Order/order-1", {})

    assert "was deleted by eva" in deleted.text
    assert "Deleted" in deleted.text
    assert missing.status == 200
    assert "does not exist" in missing.text
    assert (unknown.status, invalid.status) == (404, 400)
    assert posted.status in (403, 405)


async def test_explanations_are_in_the_api(floor: Floor) -> None:
    record = (await floor.asker.get("/api/explain/record/Order/order-1")).json
    journal = (await floor.asker.get("/api/explain/journal")).json

    assert (record["reason"], record["next_statuses"]) == ("free", ["checked", "failed"])
    assert (journal["reason"], journal["unsealed"]) == ("unsealed", 3)
