"""Run a caller's statements in a transaction that only a live lease can commit."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends.postgres.errors import gone_translated, sqlstate, translated
from interlock.backends.postgres.server import answered
from interlock.errors import LeaseLostError, MisuseError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from interlock.backends.postgres.pool import Pool

__all__ = ["FencedConnections"]

_NOT_LIVE = "IL001"  # what lock_guard raises


# Reset what a caller's statements may have changed in their session. DISCARD ALL would also deallocate the statements
# that the driver has prepared.
_RESET = """
reset session authorization; reset all; close all; unlisten *; select pg_catalog.pg_advisory_unlock_all();
discard temp; discard sequences;
do $$
declare
    name text;
begin
    for name in select s.name from pg_catalog.pg_prepared_statements s where s.from_sql loop
        execute pg_catalog.format('deallocate %I', name);
    end loop;
end
$$
"""
# Behind a pooler, the next statement after the commit may reach another session, so the reset has to come before.
# Deferred constraints are checked while the caller's settings apply, and the durability of the commit is kept.
_RESET_WITHIN = f"""
set constraints all immediate;
do $$
declare
    durability constant text := pg_catalog.current_setting('synchronous_commit');
begin
    reset all;
    perform pg_catalog.set_config('synchronous_commit', durability, true);
end
$$;
{_RESET.replace("reset all;", "")}
"""


class FencedConnections:
    """Lend connections for fenced transactions, and reset them afterwards.

    A fenced transaction keeps its key from being granted again. The server ends one that is idle for ``idle`` seconds,
    so that a host that vanished blocks the key no longer than that.
    """

    def __init__(self, pool: Pool, wait: float, idle: float) -> None:
        self._pool = pool
        self._wait = wait
        self._begin = (
            "begin isolation level read committed;"
            f" set local idle_in_transaction_session_timeout = '{math.ceil(idle * 1000)}ms'"
        )

    @asynccontextmanager
    async def transaction(self, key: str, fence: int, guard: str, *args: Any) -> AsyncIterator[_Transaction]:
        """Begin, check the lease, run the caller's statements, commit.

        After any error the connection is ended, and with it the transaction: that needs no answer from the server.
        """
        async with AsyncExitStack() as stack:
            with translated():
                give_up = asyncio.get_running_loop().time() + self._wait
                connection = await stack.enter_async_context(self._pool.lent(give_up, hold=True))
            try:
                try:
                    with translated():
                        await self._bounded(connection, connection.execute(self._begin))
                        await self._bounded(connection, connection.fetch(guard, *args))
                except StoreError as error:
                    if sqlstate(error) != _NOT_LIVE:
                        raise
                    raise LeaseLostError(
                        f"The write to {key!r} with fence {fence} was refused: its lease is no longer live."
                    ) from None
                yield _Transaction(connection)
                with gone_translated():
                    if self._pool.server.pooled and connection.is_in_transaction():
                        await self._reset_within(connection)
                    ended = await self._bounded(connection, connection.execute("commit"))
                if ended != "COMMIT":
                    raise MisuseError(
                        "Nothing was written: a statement in the fenced transaction failed,"
                        " and its error was swallowed.",
                        remedy="Let the error propagate out of the block.",
                    )
            except BaseException:
                connection.terminate()
                raise
            await self._reset(connection)

    async def _reset_within(self, connection: Any) -> None:
        with suppress(asyncpg.InFailedSQLTransactionError):  # nothing is written, as the commit reports
            await self._bounded(connection, connection.execute(_RESET_WITHIN))

    async def _reset(self, connection: Any) -> None:
        """Reset the session. The commit has succeeded, so a connection that cannot be reset is just closed."""
        try:
            if not self._pool.server.pooled:
                await self._bounded(connection, connection.execute(_RESET))
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise

    async def _bounded(self, connection: Any, statement: Any) -> Any:
        return await answered(connection, statement, self._wait)


class _Transaction:
    """A caller's statements on the fenced connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        self._check()
        with gone_translated():
            await answered(self._connection, self._connection.execute(sql, *args))

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        self._check()
        with gone_translated():
            rows = await answered(self._connection, self._connection.fetch(sql, *args))
        return [tuple(row) for row in rows]

    def _check(self) -> None:
        if not self._connection.is_closed() and not self._connection.is_in_transaction():
            raise MisuseError(
                "A statement ended the fenced transaction, so the lease no longer protects the block.",
                remedy="Do not commit or roll back inside the block.",
            )
