"""Run the benchmarks of the journal."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg

from benchmarks.harness import console
from interlock import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from benchmarks.harness import Report

__all__ = ["judge_journal", "run_journal"]

TASKS = 50
_VERIFIED = 100_000
_FILL = """
insert into interlock.journal (
    at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after)
select (extract(epoch from clock_timestamp()) * 1000000)::bigint, $1, 'bench', '', 'record.transition', 'record',
       'Ticket:record-' || n % 100, n, n + 1, '{"status": "open"}', '{"status": "closed", "_write": "0123456789abcdef"}'
from generate_series(1, $2::integer) as n
"""
_DEFINITION = """
select pg_get_functiondef(p.oid) from pg_proc p
where p.pronamespace = 'interlock'::regnamespace and p.proname = 'record_write_one'
"""
_ENTRY = re.compile(r"    insert into interlock\.journal .*?\);\n", re.DOTALL)
_ADD_RECORD = """
insert into interlock.record (version, created_at, updated_at, namespace, kind, id, uid, status, body)
values (0, 0, 0, $1, 'Ticket', $2, 'uid', 'open', '{"payload": {}}')
"""
_WRITE = """
select version from interlock.{}(
    $1, 'Ticket', $2, 'uid', $3::bigint, $4, '{{"payload": {{}}}}', null, null, 'bench', '', 'record.transition',
    'record', 'Ticket:record', '{{"status": "open"}}', '{{"status": "closed"}}', $3::bigint, $3::bigint + 1, null, null,
    null, null)
"""


async def run_journal(report: Report, url: str, *, rounds: int, seconds: float) -> None:
    count = int(_VERIFIED * min(1.0, seconds))
    report.notes.append(f"{count:,} entries sealed and verified per round")
    for round_ in range(rounds):
        console.print(f"journal: round {round_ + 1} of {rounds} …", style="dim")
        for sealed in (False, True):
            async with _app(url) as app:
                rate = await _entries_per_second(app, seconds, sealed=sealed)
            report.add(f"entries ×{TASKS} {'with' if sealed else 'without'} seals", rate, "entries/s")
        namespace = f"bench-{uuid4().hex}"
        async with _app(url, namespace) as app:
            connection = await asyncpg.connect(url)
            await connection.execute(_FILL, namespace, count)
            await connection.close()
            begun = time.perf_counter()
            assert await app.journal.seal() == count
            report.add("seal", count / (time.perf_counter() - begun), "entries/s")
            begun = time.perf_counter()
            assert (await app.journal.verify()).ok
            took = (time.perf_counter() - begun) * _VERIFIED / count
            report.add(f"verify {_VERIFIED:,} entries", took, "s", more_is_better=False)
        async with _writes(url) as writes:
            for name, write in writes.items():
                report.add(f"write {name} entry", await _per_second(write, seconds), "writes/s")


def judge_journal(report: Report) -> None:
    report.compare(f"entries ×{TASKS} with seals", f"entries ×{TASKS} without seals")
    report.compare("write with entry", "write without entry")


@asynccontextmanager
async def _app(url: str, namespace: str = "") -> AsyncIterator[App]:
    """An app with a journal of its own."""
    async with App(url, namespace=namespace or f"bench-{uuid4().hex}") as app:
        yield app


async def _entries_per_second(app: App, seconds: float, *, sealed: bool) -> float:
    """Let tasks add entries of a program's own, while another one seals them all the time or none does."""
    count = 0
    until = time.perf_counter() + seconds

    async def add(number: int) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await app.journal.add("order.ship", number, by="bench", after={"status": "shipped"})
            count += 1

    async def seal() -> None:
        while time.perf_counter() < until:
            await app.journal.seal()
            await asyncio.sleep(0.01)

    begun = time.perf_counter()
    await asyncio.gather(*(add(number) for number in range(TASKS)), *([seal()] if sealed else []))
    return count / (time.perf_counter() - begun)


@asynccontextmanager
async def _writes(url: str) -> AsyncIterator[dict[str, Callable[[int], Awaitable[None]]]]:
    """The function that replaces a record, and a copy of it that adds no entry, each on a record of its own."""
    namespace = f"bench-{uuid4().hex}"
    connection = await asyncpg.connect(url)
    definition = await connection.fetchval(_DEFINITION)
    without, replaced = _ENTRY.subn("", definition)
    assert replaced == 1
    await connection.execute(without.replace("record_write_one", "bench_write_without_entry"))
    try:
        writes = {}
        for name, function in (("with", "record_write_one"), ("without", "bench_write_without_entry")):
            await connection.execute(_ADD_RECORD, namespace, name)
            writes[name] = _write(connection, _WRITE.format(function), namespace, name)
        yield writes
    finally:
        await connection.execute("drop function interlock.bench_write_without_entry")
        await connection.close()


def _write(connection: Any, sql: str, namespace: str, id_: str) -> Callable[[int], Awaitable[None]]:
    async def write(version: int) -> None:
        status = "closed" if version % 2 == 0 else "open"
        assert await connection.fetchval(sql, namespace, id_, version, status) == version + 1

    return write


async def _per_second(write: Callable[[int], Awaitable[None]], seconds: float) -> float:
    """Write one version after the other."""
    version = 0
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        await write(version)
        version += 1
    return version / (time.perf_counter() - begun)
