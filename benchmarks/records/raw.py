"""Bare asyncpg: what a careful program would write by hand, on copies of Interlock's tables with the same indexes.

It has no leases: nothing queues in order, and a writer does not know that another task edits the record.
"""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.records.rates import Correct, SetStatus

__all__ = ["correcting", "raw_statuses"]

CONNECTIONS = 32
"""The fastest number on two cores."""
_TABLES = """
drop table if exists raw_record, raw_journal;
create table raw_record (like interlock.record including all);
create table raw_journal (like interlock.journal including all)
"""
_ADD = """
insert into raw_record (version, created_at, updated_at, namespace, kind, id, uid, status, body)
values (0, $1, $1, 'default', 'Ticket', $2, '', 'open', $3)
"""
# One round trip and one commit: the version is checked, the entry is written only if it matched.
_SET_STATUS = """
with changed as (
    update raw_record set version = version + 1, status = $3, updated_at = $4
    where namespace = 'default' and kind = 'Ticket' and id = $1 and version = $2
    returning version
)
insert into raw_journal (
    at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after)
select $4, 'default', 'bench', '', 'record.transition', 'record', 'Ticket:' || $1, $2, changed.version, $5, $6
from changed returning to_version
"""
_LOCK = (
    "select version, body from raw_record where namespace = 'default' and kind = 'Ticket' and id = $1 for no key update"
)
_CORRECT = """
with changed as (
    update raw_record set version = version + 1, body = $2, updated_at = $3
    where namespace = 'default' and kind = 'Ticket' and id = $1
    returning version
)
insert into raw_journal (
    at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after)
select $3, 'default', 'bench', 'why', 'record.correct', 'record', 'Ticket:' || $1, changed.version - 1,
       changed.version, $4, $5
from changed
"""


@asynccontextmanager
async def _pool(url: str, tasks: int, bodies: dict[str, str]) -> AsyncIterator[Any]:
    size = min(tasks, CONNECTIONS)
    # Without the statement that resets a connection when it is released, which would be a second round trip.
    async with asyncpg.create_pool(url, min_size=size, max_size=size, reset=_keep) as pool:
        await pool.execute(_TABLES)
        for id_, body in bodies.items():
            await pool.execute(_ADD, _micros(), id_, body)
        yield pool


@asynccontextmanager
async def raw_statuses(url: str, bodies: dict[str, str]) -> AsyncIterator[SetStatus]:
    versions = dict.fromkeys(bodies, 0)
    async with _pool(url, len(bodies), bodies) as pool:

        async def set_status(id_: str, old: str, new: str) -> None:
            before, after = json.dumps({"status": old}), json.dumps({"status": new})
            version = await pool.fetchval(_SET_STATUS, id_, versions[id_], new, _micros(), before, after)
            assert version == versions[id_] + 1
            versions[id_] = version

        yield set_status


@asynccontextmanager
async def correcting(url: str, tasks: int, id_: str, body: str) -> AsyncIterator[Correct]:
    """The pessimistic loop: lock the row, merge, write, commit."""
    async with _pool(url, tasks, {id_: body}) as pool:

        async def correct(number: int) -> None:
            async with pool.acquire() as connection, connection.transaction():
                _version, text = await connection.fetchrow(_LOCK, id_)
                record = json.loads(text)
                record["payload"][f"field-{number}"] = number
                change = json.dumps({"payload": {f"field-{number}": number}})
                await connection.execute(_CORRECT, id_, json.dumps(record), _micros(), "{}", change)

        yield correct
        text = await pool.fetchval("select body from raw_record where id = $1", id_)
        assert len(json.loads(text)["payload"]) == tasks + 1


async def _keep(connection: Any) -> None:
    """Leave a connection as it is."""


def _micros() -> int:
    return time.time_ns() // 1000
