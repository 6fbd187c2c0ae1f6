"""A program from before the upgrade: it knows the table intents and its columns, and neither versions nor Interlock."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from interlock.testing.processes import receive_async, report

__all__ = ["create_table", "row", "write"]

POSTGRES_TABLE = """
    create table intents (
        id uuid primary key, type text not null default 'message', status text not null default 'received',
        payload jsonb not null default '{}', correction_history jsonb not null default '[]',
        technical_actor text not null default 'bridge', created_at timestamptz not null default now(),
        updated_at timestamptz not null default now())
"""
SQLITE_TABLE = """
    create table intents (
        id text primary key, type text not null default 'message', status text not null default 'received',
        payload text not null default '{}', correction_history text not null default '[]',
        technical_actor text not null default 'bridge', created_at text not null default '2026-01-01T00:00:00Z',
        updated_at text not null default '2026-01-01T00:00:00Z')
"""
INSERT = "insert into intents (id, status, payload, correction_history) values ({})"
COUNT = {
    "postgres": "update intents set payload = jsonb_set(payload, '{old}',"
    " to_jsonb(coalesce((payload ->> 'old')::int, 0) + 1)), updated_at = now() where id = $1",
    "sqlite": "update intents set payload = json_set(payload, '$.old', coalesce(payload ->> '$.old', 0) + 1)"
    " where id = ?",
}


class _Table:
    """The table, in either database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_postgres = not url.startswith("sqlite")
        self._connection: Any = None

    async def __aenter__(self) -> _Table:
        if self.is_postgres:
            self._connection = await asyncpg.connect(self._url)
        else:
            self._connection = sqlite3.connect(self._url.removeprefix("sqlite:///"), timeout=20, isolation_level=None)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.is_postgres:
            await self._connection.close()
        else:
            self._connection.close()

    async def run(self, statement: str, *values: Any) -> None:
        if self.is_postgres:
            await self._connection.execute(statement, *values)
        else:
            self._connection.execute(statement, [str(one) if isinstance(one, UUID) else one for one in values])

    async def insert(self, intent_id: UUID, status: str, payload: object, history: object = ()) -> None:
        marks = "$1, $2, $3, $4" if self.is_postgres else "?, ?, ?, ?"
        await self.run(INSERT.format(marks), intent_id, status, json.dumps(payload), json.dumps(list(history)))  # type: ignore[call-overload]

    async def count(self, intent_id: UUID) -> None:
        await self.run(COUNT["postgres" if self.is_postgres else "sqlite"], intent_id)

    async def set_history(self, intent_id: UUID, history: object) -> None:
        mark = ("$1", "$2") if self.is_postgres else ("?", "?")
        await self.run(
            f"update intents set correction_history = {mark[0]} where id = {mark[1]}", json.dumps(history), intent_id
        )


def table(url: str) -> _Table:
    return _Table(url)


async def create_table(url: str) -> None:
    async with _Table(url) as opened:
        await opened.run(POSTGRES_TABLE if opened.is_postgres else SQLITE_TABLE)


async def row(url: str, intent_id: UUID) -> dict[str, Any] | None:
    """A row as data, with the new column if there is one."""
    if not url.startswith("sqlite"):
        connection = await asyncpg.connect(url)
        try:
            found = await connection.fetchrow("select * from intents where id = $1", intent_id)
        finally:
            await connection.close()
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)) as opened:
            opened.row_factory = sqlite3.Row
            found = opened.execute("select * from intents where id = ?", [str(intent_id)]).fetchone()
    if found is None:
        return None
    values = dict(found)
    return values | {name: json.loads(values[name]) for name in ("payload", "correction_history")}


async def write(url: str, intent_ids: list[str]) -> dict[str, Any]:
    """Count up in every intent and add new ones, until told to stop; return what was written."""
    counts = dict.fromkeys(intent_ids, 0)
    added: list[str] = []
    stop = asyncio.create_task(receive_async("stop"))
    async with _Table(url) as opened:
        report("ready")
        while not stop.done():
            for one in intent_ids:
                await opened.count(UUID(one))
                counts[one] += 1
            new = uuid4()
            await opened.insert(new, "received", {"old": 0})
            added.append(str(new))
            await asyncio.sleep(0.001)
    return {"counts": counts, "added": added}
