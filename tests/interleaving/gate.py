"""Makes one side's transactions stand still before any chosen step, with all before it done and not committed.

Installed in a test's own database: every statement of the job functions that touches a table is followed by a look at
the gate; those that change tables look at it also when they come to each of them, with what they see fixed before; and
every transaction that changed something does so just before it commits.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["COMMIT", "SIDE", "Gate", "install"]

COMMIT = 0
"""The step just before the commit; the others count from 1."""
SIDE = "gate.side=a"
"""What the URL of the side that is to stand still has as a parameter."""
_KEY = 1195463749
_PASS = "if gate.pass() then null; end if;"  # changes neither found nor the number of rows
_SETUP = f"""
create or replace function interlock.durably() returns void language sql as 'select';  -- nothing is to survive
create schema gate;
create table gate.plan (stop integer not null);
insert into gate.plan values (-1);
create sequence gate.step;
create function gate.pass() returns boolean language plpgsql volatile as $$
begin
    if current_setting('gate.side', true) = 'a' and nextval('gate.step') = (select p.stop from gate.plan p) then
        perform pg_advisory_xact_lock_shared({_KEY});
    end if;
    return false;
end
$$;
create function gate.pass_at_table() returns trigger language plpgsql volatile as $$
begin
    perform gate.pass();
    return null;
end
$$;
create function gate.pass_at_commit() returns trigger language plpgsql volatile as $$
begin
    if current_setting('gate.side', true) = 'a' and {COMMIT} = (select p.stop from gate.plan p) then
        perform pg_advisory_xact_lock_shared({_KEY});
    end if;
    return null;
end
$$;
"""
_TABLES = (
    "select c.relname from pg_class c where c.relnamespace = 'interlock'::regnamespace and c.relkind = 'r'"
    " and c.relname ~ ('^' || $1) and not c.relispartition"
)
_FUNCTIONS = (
    "select pg_get_functiondef(p.oid) from pg_proc p join pg_language l on l.oid = p.prolang"
    " where p.pronamespace = 'interlock'::regnamespace and p.proname ~ ('^' || $1 || '_') and l.lanname = 'plpgsql'"
)
_WAITING = (
    "select count(distinct l.pid) from pg_locks l where not l.granted"
    " and l.pid in (select a.pid from pg_stat_activity a where a.datname = current_database())"
)


async def install(connection: Any, concept: str = "job") -> None:
    """Install the gate for the tables and functions of a concept in a database that has the schema."""
    await connection.execute(_SETUP)
    for (table,) in await connection.fetch(_TABLES, concept):
        await connection.execute(
            f"create trigger gate before insert or update or delete on interlock.{table}"
            " for each statement execute function gate.pass_at_table();"
            f"create constraint trigger gate_commit after insert or update or delete on interlock.{table}"
            " deferrable initially deferred for each row execute function gate.pass_at_commit()"
        )
    for (definition,) in await connection.fetch(_FUNCTIONS, concept):
        await connection.execute(_with_gates(definition, concept))


def _with_gates(definition: str, concept: str) -> str:
    head, body, tail = definition.split("$function$")
    lines = body.split("\n")
    begin = lines.index("begin")
    gated = lines[: begin + 1]
    touches = False
    for line, following in zip(lines[begin + 1 :], [*lines[begin + 2 :], ""], strict=True):
        gated.append(line)
        touches = touches or re.search(rf"interlock\.{concept}|_xact_lock|interlock\.session", line) is not None
        if touches and re.search(r";\s*$", line) and "--" not in line and "get diagnostics" not in following:
            gated.append(_PASS)
            touches = False
    return "$function$".join((head, "\n".join(gated), tail))


class Gate:
    """Lets one operation stand still while another one runs."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def steps(self, work: Awaitable[object]) -> int:
        """How many steps an operation of the side has; it is done then."""
        await self._connection.execute("update gate.plan set stop = -1; select setval('gate.step', 1, false)")
        await work
        last, called = await self._connection.fetchrow("select last_value, is_called from gate.step")
        return int(last) if called else 0

    async def interleave(self, stop: int, *works: Awaitable[object]) -> list[object]:
        """Do the first up to a step, then each other one to its end or until it has to wait, then what is left.

        Says what they gave or raised. Where the first one has no such step the second one comes after it.
        """
        await self._connection.execute(
            f"update gate.plan set stop = {stop}; select setval('gate.step', 1, false), pg_advisory_lock({_KEY})"
        )
        under_way: list[asyncio.Future[object]] = []
        try:
            for work in works:
                under_way.append(asyncio.ensure_future(work))
                await self._end_or_wait(under_way)
        finally:
            await self._connection.execute(f"select pg_advisory_unlock({_KEY})")
        async with asyncio.timeout(20):
            return await asyncio.gather(*under_way, return_exceptions=True)

    async def _end_or_wait(self, works: list[asyncio.Future[object]]) -> None:
        """Until the last one is done, or all that are not done wait."""
        while not works[-1].done():
            waiting = await self._connection.fetchval(_WAITING)
            if waiting == sum(not work.done() for work in works):
                return
            await asyncio.sleep(0.001)
