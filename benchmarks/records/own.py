"""Interlock's records, as a program uses them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import BaseModel, Field

from interlock import App
from interlock.records import Machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.records.rates import Correct, SetStatus

__all__ = ["interlock_corrections", "interlock_edits", "interlock_statuses"]


class Ticket(BaseModel):
    id: str
    status: str = "open"
    payload: dict[str, Any] = Field(default_factory=dict)


_MACHINE = Machine(initial="open", transitions={"open": ["closed"], "closed": ["open"]})


@asynccontextmanager
async def _records(url: str, bodies: dict[str, str], **options: Any) -> AsyncIterator[Any]:
    app = App(url, namespace=f"bench-{uuid4().hex}")
    tickets = app.records(Ticket, machine=_MACHINE, **options)
    async with app:
        for id_, body in bodies.items():
            await tickets.create(Ticket(id=id_, payload=json.loads(body)["payload"]), by="bench")
        yield tickets


@asynccontextmanager
async def interlock_statuses(url: str, bodies: dict[str, str]) -> AsyncIterator[SetStatus]:
    async with _records(url, bodies, strategies={"transition": "optimistic"}) as tickets:

        async def set_status(id_: str, old: str, new: str) -> None:
            await tickets.transition(id_, new, by="bench")

        yield set_status


@asynccontextmanager
async def interlock_corrections(url: str, tasks: int, id_: str, body: str) -> AsyncIterator[Correct]:
    async with _records(url, {id_: body}) as tickets:

        async def correct(number: int) -> None:
            diff = {"payload": {f"field-{number}": number}}
            result = await tickets.correct(id_, diff, source="bench", reason="why")
            assert not result.already_applied

        yield correct
        record = await tickets.get(id_)
        assert len(record.payload) == tasks + 1


@asynccontextmanager
async def interlock_edits(url: str, bodies: dict[str, str]) -> AsyncIterator[SetStatus]:
    async with _records(url, bodies) as tickets:

        async def set_status(id_: str, old: str, new: str) -> None:
            async with tickets.edit(id_, by="bench") as ticket:
                ticket.status = new

        yield set_status
