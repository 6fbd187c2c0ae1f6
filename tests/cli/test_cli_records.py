"""``interlock records``: kinds, lists, one record, and the machine as a diagram and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from interlock import App
from interlock.records import Machine
from tests.cli.job_floor import data, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from interlock.records import Records

MACHINE = Machine(initial="new", transitions={"new": ["checked"], "checked": ["done"]}, corrected="checked")


class Intent(BaseModel):
    id: str
    status: str = "new"
    payload: dict[str, Any] = Field(default_factory=dict)


class Plain(BaseModel):
    id: str


@pytest.fixture
async def intents(jobs_url: str) -> AsyncIterator[Records[Intent]]:
    app = App(jobs_url)
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])
    app.records(Plain)
    async with app:
        for name in ("order-1", "order-2", "refund-1"):
            await intents.create(Intent(id=name, payload={"to": "ann"}), by="eva", reason="new")
        await intents.correct("order-2", {"payload.to": "eva"}, source="kana", reason="wrong name")
        yield intents


async def test_kinds_are_listed_with_their_counts(
    cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]
) -> None:
    text = await run(cli, jobs_url, "records", "list")
    intent, plain = await data(cli, jobs_url, "records", "list")

    assert "2 new, 1 checked, 0 done" in text.stdout
    assert (intent["kind"], intent["statuses"]) == ("Intent", {"new": 2, "checked": 1, "done": 0})
    assert (plain["kind"], plain["records"]) == ("Plain", 0)


async def test_records_are_listed_by_status_and_a_part_of_the_id(
    cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]
) -> None:
    text = await run(cli, jobs_url, "records", "list", "Intent", "--id", "order")
    new = await data(cli, jobs_url, "records", "list", "Intent", "--status", "new")
    cut = await run(cli, jobs_url, "records", "list", "Intent", "--limit", "2")
    none = await run(cli, jobs_url, "records", "list", "Intent", "--status", "done")
    misused = await run(cli, jobs_url, "records", "list", "--status", "new", code=2)

    assert "order-1" in text.stdout
    assert "refund-1" not in text.stdout
    assert [row["record"]["id"] for row in new] == ["order-1", "refund-1"]
    assert "there may be more" in cut.stderr
    assert "No records match." in none.stderr
    assert "need a kind" in misused.stderr


async def test_a_record_is_shown_with_its_versions_corrections_and_strategies(
    cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]
) -> None:
    text = (await run(cli, jobs_url, "records", "show", "Intent/order-2")).stdout
    page = await data(cli, jobs_url, "records", "show", "Intent/order-2", "--versions", "1")
    missing = await run(cli, jobs_url, "records", "show", "Intent/nobody")
    unknown = await run(cli, jobs_url, "records", "show", "Nothing/1", code=1)
    invalid = await run(cli, jobs_url, "records", "show", "order-2", code=2)

    assert "Intent 'order-2' has version 1 and the status 'checked'" in text
    assert 'status: "new" -> "checked"; payload.to: "ann" -> "eva"' in text
    assert "kana: wrong name" in text
    assert "transition pessimistic (waits 5 s)" in text
    assert [version["entry"]["to_version"] for version in page["versions"]] == [1]
    assert page["more"]
    assert "does not exist" in missing.stdout
    assert "no program declared the kind 'Nothing'" in unknown.stderr
    assert "Use KIND/ID" in invalid.stderr


async def test_a_record_is_explained(cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]) -> None:
    async with intents.edit("order-1"):
        told = await data(cli, jobs_url, "explain", "record", "Intent/order-1")
        same = await run(cli, jobs_url, "records", "explain", "Intent/order-1")

    assert told["reason"] == "edited"
    assert "It is being edited: held by" in same.stdout


async def test_the_machine_is_drawn(cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]) -> None:
    mermaid = await run(cli, jobs_url, "records", "diagram", "Intent")
    text = await run(cli, jobs_url, "records", "diagram", "Intent", "--text")
    told = await data(cli, jobs_url, "records", "diagram", "Intent")
    plain = await run(cli, jobs_url, "records", "diagram", "Plain", code=1)
    unknown = await run(cli, jobs_url, "records", "diagram", "Nothing", code=1)

    assert mermaid.stdout == MACHINE.diagram()
    assert text.stdout.splitlines() == [
        "new     -> checked (initial)",
        "checked -> done (set by corrections)",
        "done    (final)",
    ]
    assert told["machine"]["transitions"] == {"new": ["checked"], "checked": ["done"], "done": []}
    assert "has no machine" in plain.stderr
    assert "No program declared the kind 'Nothing'" in unknown.stderr


async def test_the_journal_is_explained(cli: Callable[..., Any], jobs_url: str, intents: Records[Intent]) -> None:
    text = await run(cli, jobs_url, "explain", "journal")
    told = await data(cli, jobs_url, "journal", "explain")

    assert "4 entries are not sealed" in text.stdout
    assert (told["reason"], told["unsealed"]) == ("unsealed", 4)
