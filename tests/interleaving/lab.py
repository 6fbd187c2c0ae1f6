"""A database with a gate in it, the stores of both sides on one virtual clock, and somebody who clears up."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends import from_url
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock
from tests.interleaving.gate import SIDE, Gate, install
from tests.interleaving.planted import plant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.store import Store
    from tests.interleaving.planted import Bug

__all__ = ["Lab", "open_lab"]

_FOREVER = 1e9
_EMPTIED = [
    f"interlock.{table}"
    for table in (
        *("job", "job_ready", "job_scheduled", "job_fetched", "job_resubmitted", "job_lane", "job_signal", "job_limit"),
        *("job_limit_start", "job_slot_freed", "job_limit_wait", "job_history", "job_result", "job_watch", "forced"),
        *("queue_pause", "job_key", "job_after", "job_after_signal", "job_expiry"),
    )
]
# Workers of before are gone. The others have fetched before, and nobody has to note that they were seen, which would be
# further steps now and then.
_SESSIONS = """
delete from interlock.session where id ~ '^w';
delete from interlock.job_session where session ~ '^w';
insert into interlock.job_session as c (namespace, session, host, pid, program, seen_at)
select 'default', u.session, 'host', 7, 'test', 9000000000000000000 from unnest('{a,b,c}'::text[]) as u (session)
on conflict (namespace, session) do update set seen_at = excluded.seen_at where c.seen_at <> excluded.seen_at
"""
_TRUNCATE_EVERY = 100  # what is only deleted stays in the indexes


class Lab:
    """Where pairs are tried, one after the other."""

    def __init__(self, stores: list[Store], clock: VirtualClock, connection: Any) -> None:
        self.first, self.second, self.helper = stores
        self.clock = clock
        self.connection = connection
        self.gate = Gate(connection)
        self._rounds = 0

    @property
    def turn(self) -> int:
        """The turn of the fetches that meet; it grows."""
        return self._rounds

    async def forget_sessions(self) -> None:
        """As if nobody had fetched anything before."""
        await self.connection.execute("delete from interlock.job_session")

    async def fresh(self) -> str:
        """Forget all jobs; the session of a worker that lives for a minute yet."""
        self._rounds += 1
        whole = self._rounds % _TRUNCATE_EVERY == 0
        await self.connection.execute(
            f"truncate {', '.join(_EMPTIED)}" if whole else "; ".join(f"delete from {table}" for table in _EMPTIED)
        )
        for store in (self.first, self.second, self.helper):
            store.jobs._fetch._scan_positions.clear()  # type: ignore[attr-defined]
        await self.connection.execute(_SESSIONS)
        worker = f"w{self._rounds}"
        await self.helper.sessions.begin(SessionCard(worker, "host", 7, "test"), 60.0)
        return worker


@asynccontextmanager
async def open_lab(url: str, bug: Bug | None = None, concept: str = "job") -> AsyncIterator[Lab]:
    """A lab in an empty database, with the functions as they are or with a bug."""
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        stores = []
        url += "&" if "?" in url else "?"
        url += "synchronous_commit=off"
        for where in (f"{url}&{SIDE}", url, url):
            store = from_url(where, settings=Settings(), clock=clock)
            stack.push_async_callback(store.close)
            await store.open()
            stores.append(store)
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        if bug is not None:
            await plant(connection, bug)
        await install(connection, concept)
        for session in ("a", "b", "c"):
            await stores[2].sessions.begin(SessionCard(session, "host", 7, "test"), _FOREVER)
        yield Lab(stores, clock, connection)
