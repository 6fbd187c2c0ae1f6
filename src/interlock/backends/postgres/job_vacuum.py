"""Vacuum the tables that every fetch reads, as often as the load requires.

A fetch reads the low end of its indexes, which is where the entries of finished jobs are. Each scan steps over those
entries until a vacuum removes them. Autovacuum looks at a table once a minute at most by default, and a busy worker
leaves a hundred thousand dead entries in that time. These tables are small, so that a vacuum takes milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.queries import JobQueries
from interlock.backends.postgres.server import answered
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.pool import Pool

__all__ = ["JobVacuum"]

_log = logging.getLogger("interlock.jobs")
_sql = JobQueries()
_TABLES = [
    "job_after_signal",
    "job_expiry",
    "job_fetched",
    "job_lane",
    "job_limit",
    "job_limit_wait",
    "job_ready",
    "job_scheduled",
    "job_signal",
    "job_slot_freed",
]
_DEAD = 5000  # index entries of about 20 pages
_EVERY = 2.0
_SELDOM = 60.0
_SHARE = 10  # a vacuum that took a second is followed by ten without one
_PATIENCE = 60.0
# Tables that another process has locked are skipped. Index entries are removed even if they are on few pages.
_VACUUM = "vacuum (skip_locked, truncate off, index_cleanup on, parallel 0) "


class JobVacuum:
    """Vacuums on a connection that it keeps while it runs."""

    def __init__(self, pool: Pool, connection: OrderedConnection, wait: float) -> None:
        self._pool = pool
        self._connection = connection
        self._wait = wait
        self._pause = _EVERY
        self._told = False

    async def run(self) -> float:
        """Vacuum the tables that need it. Returns after how many seconds to call again."""
        found = await self._connection.fetch(_sql.dead_rows, _TABLES, _DEAD)
        tables = [table for table, allowed in found if allowed]
        if len(tables) < len(found):
            self._tell([table for table, allowed in found if not allowed])
        if not tables:
            self._pause = _SELDOM if found else _EVERY
            return self._pause
        loop = asyncio.get_running_loop()
        began = loop.time()
        with translated():
            await self._vacuum(tables)
        took = loop.time() - began
        # An open transaction may still see the dead rows, so the vacuum left them: do not try again soon.
        kept = await self._connection.fetch(_sql.dead_rows, tables, _DEAD)
        self._pause = min(_SELDOM, self._pause * 2) if kept else _EVERY
        return max(self._pause, took * _SHARE)

    async def _vacuum(self, tables: Sequence[str]) -> None:
        statement = _VACUUM + ", ".join(f"interlock.{table}" for table in tables)
        give_up = asyncio.get_running_loop().time() + self._wait
        async with self._pool.lent(give_up, hold=True) as connection:
            work = asyncio.ensure_future(answered(connection, connection.execute(statement), _PATIENCE))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                connection.terminate()
                work.add_done_callback(_swallow)
                raise

    def _tell(self, tables: Sequence[str]) -> None:
        if not self._told:
            self._told = True
            emit(
                _log,
                logging.WARNING,
                "job_vacuum_not_allowed",
                tables=",".join(tables),
                remedy="grant MAINTAIN on these tables (PostgreSQL 17 and later), run one worker as their owner,"
                " or set autovacuum_naptime to a few seconds",
            )


def _swallow(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()
