"""Records without an App, and the declarations that programs leave in the store."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from interlock import App
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError, StoreUnavailableError
from interlock.records import Machine, Records
from interlock.records.declaration import read_declaration
from tests.records.worker import Counter, add, declare

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = Machine(initial="new", transitions={"new": ["done"]}, corrected="new")


class Task(BaseModel):
    id: str
    status: str = "new"


async def test_records_work_without_an_app(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/alone.db"
    async with Records.from_url(url, Counter, namespace="mine", wait=1) as records:
        await records.create(Counter(id="one"))
        assert (await records.update("one", add)).count == 1
        async with records.edit("one") as counter:
            counter.count += 1
        assert (await records.explain("one")).reason == "free"
        families = {family.name: family for family in records.metrics.collect()}
        counted = {sample.labels.get("lock_type") for sample in families["interlock_lock_acquisitions"].samples}
        assert {"pessimistic", "optimistic"} <= counted
        assert [entry.action for entry in await records.history("one")] == [
            "record.edit",
            "record.update",
            "record.create",
        ]
    app = App(url, namespace="mine")
    shared = declare(app)
    async with app:
        assert (await shared.get("one")).count == 2


async def test_they_are_opened_again_and_refuse_to_be_used_closed(tmp_path: Path) -> None:
    records = Records.from_url(f"sqlite:///{tmp_path}/alone.db", Counter)
    for id in ("one", "two"):  # noqa: A001
        async with records:
            await records.create(Counter(id=id))
    with pytest.raises(MisuseError):
        async with records.edit("one"):
            pass


async def test_records_of_an_app_open_with_it() -> None:
    records = declare(App("memory://"))
    with pytest.raises(MisuseError, match="belong to an App"):
        async with records:
            pass
    with pytest.raises(MisuseError, match="belong to an App"):
        _ = records.metrics


def test_a_store_without_records_and_invalid_settings_are_refused() -> None:
    with pytest.raises(CapabilityError):
        Records.from_url("redis://localhost:1", Counter)
    with pytest.raises(InvalidArgumentError):
        Records.from_url("memory://", Counter, record_strategies="Counter.update=often")


async def _declared(app: Any) -> list[tuple[str, Any]]:
    return [(one.kind, json.loads(one.text)) for one in await app._durable.store.record_insight.declarations()]


async def test_an_app_leaves_its_declarations_when_it_opens() -> None:
    app = App("memory://", record_strategies="Task.update=none:2")
    app.records(Task, machine=MACHINE)
    async with app:
        declare(app)  # also what is declared later
        while len(await _declared(app)) < 2:
            await asyncio.sleep(0)
        (_, counter), (kind, task) = await _declared(app)
    assert (kind, task["model"], counter["machine"]) == ("Task", "Task", None)
    assert task["machine"] == MACHINE.to_data()
    assert task["strategies"]["update"] == ["none", 2]
    assert task["strategies"]["transition"] == ["pessimistic", 5.0]

    declaration = read_declaration(app.record_kinds["Task"].declaration)
    assert declaration is not None
    assert declaration.machine is not None
    assert declaration.machine.diagram() == MACHINE.diagram()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 1}', '{"model": "a", "machine": {}, "strategies": {}}'])
def test_a_declaration_that_cannot_be_read_is_none(text: str) -> None:
    assert read_declaration(text) is None


async def test_a_declaration_that_cannot_be_written_does_not_stop_the_app(caplog: pytest.LogCaptureFixture) -> None:
    app = App("memory://", store_wait=0.1)
    records = declare(app)

    async def fail(kind: str, text: str) -> None:
        raise StoreUnavailableError("away")

    store: Any = app._durable.store
    store.record_insight.declare = fail
    with caplog.at_level(logging.WARNING, "interlock.records"):
        async with app:
            await records.create(Counter(id="one"))
    assert "record_kind_not_declared" in caplog.text
