"""A primary is killed under load and its standby takes over.

Nothing that was acknowledged is lost, work goes on within 30 seconds, and fences never go back.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock import App, Locks
from interlock.errors import StoreUnavailableError
from interlock.jobs import JobState
from interlock.testing.proxy import ThreadedFaultProxy
from tests.system.replication import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

WITHIN = 30.0
BOT = """
import os
from interlock import App, Retry

app = App({url!r})
ran = os.open({ran!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@app.job(retry=Retry(attempts=50, delay=0.1, max_delay=1.0, transient=(Exception,)))
async def note(number: int) -> None:
    async with app.locks.acquire("shared", wait=60) as lease:
        lease.ensure()
        os.write(ran, f"{{number}} {{lease.fence}}\\n".encode())
"""


class Load:
    """Worker processes that take the same lock for every job, and whoever enqueues for them."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._ran = directory / "ran"
        self._ran.touch()
        (directory / "bot.py").write_text(textwrap.dedent(BOT).format(url=url, ran=str(self._ran)))
        self.accepted: dict[int, int] = {}
        """The numbers of jobs whose enqueueing was acknowledged, and their ids."""
        self._number = 0
        self.app = App(url)

        @self.app.job()
        async def note(number: int) -> None:
            raise NotImplementedError

        self._note = note

    @contextmanager
    def workers(self, count: int) -> Iterator[None]:
        command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", "bot:app"]
        with (self._directory / "log").open("wb") as log:
            workers = [
                subprocess.Popen([*command, "--concurrency", "4"], cwd=self._directory, stdout=log, stderr=log)
                for _ in range(count)
            ]
            try:
                yield
            finally:
                for worker in workers:
                    worker.kill()
                    worker.wait()

    async def enqueue(self) -> None:
        """Enqueue one job after the other, and let the workers keep up."""
        while True:
            await self.until(lambda: len(self.accepted) < len(self.ran) + 20)
            self._number += 1
            with suppress(StoreUnavailableError):  # not acknowledged, so nothing was promised
                self.accepted[self._number] = (await self._note.enqueue(number=self._number)).id

    @property
    def ran(self) -> list[tuple[int, int]]:
        """What ran, in order: the numbers of the jobs and the fences of their leases."""
        lines = self._ran.read_text().splitlines()
        return [(int(number), int(fence)) for number, fence in map(str.split, lines)]

    async def until(self, condition: Callable[[], object], within: float = 60.0) -> None:
        give_up = time.monotonic() + within
        while not condition():
            assert time.monotonic() < give_up, f"not in time; the workers say:\n{self.said}"
            await asyncio.sleep(0.02)

    @property
    def said(self) -> str:
        return "".join((self._directory / "log").read_text().splitlines(keepends=True)[-30:])

    async def check(self) -> None:
        """Judge: what was accepted has run and is done, and every fence is larger than the one before it."""
        for id in self.accepted.values():  # noqa: A001
            await self.app.jobs.handle(id).result(wait=60)
            view = await self.app.jobs.get(id)
            assert view is not None
            assert view.state is JobState.DONE
        fences = [fence for _, fence in self.ran]
        assert all(one < next_one for one, next_one in itertools.pairwise(fences))
        missing = self.accepted.keys() - {number for number, _ in self.ran}
        assert not missing


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


@pytest.fixture
def asynchronous_pair() -> Iterator[Pair]:
    with Pair(synchronous=False) as pair:
        yield pair


@pytest.mark.parametrize("way", ["both hosts in the URL", "a stale address"])
async def test_a_synchronous_standby_takes_over_under_load(tmp_path: Path, pair: Pair, way: str) -> None:
    with ThreadedFaultProxy("127.0.0.1", pair.primary.port) as proxy:
        stale = way == "a stale address"
        load = Load(tmp_path, proxy.url(pair.primary.url()) if stale else pair.url)
        async with load.app:
            with load.workers(2):
                enqueueing = asyncio.create_task(load.enqueue())
                await load.until(lambda: len(load.ran) >= 100)

                pair.primary.kill()
                killed = time.monotonic()
                before, accepted = load.ran, max(load.accepted)
                if stale:
                    # The address leads to the standby, which answers and is read-only, before that is promoted.
                    proxy.point_at("127.0.0.1", pair.standby.port)
                    asked = proxy.accepted
                    await load.until(lambda: proxy.accepted >= asked + 10)
                await pair.standby.promote()
                promoted = time.monotonic()
                await load.until(lambda: max(load.accepted) > accepted)
                enqueued = time.monotonic()
                await load.until(lambda: len(load.ran) > len(before))
                resumed = time.monotonic()
                await load.until(lambda: any(number > accepted for number, _ in load.ran))
                ran = time.monotonic()
                await load.until(lambda: len(load.ran) >= len(before) + 100)

                enqueueing.cancel()
                await asyncio.gather(enqueueing, return_exceptions=True)
                await load.check()
        direct = await asyncpg.connect(pair.standby.url())
        last = await direct.fetchval("select last_value from interlock.fence")
        await direct.close()

    jobs, starts = len(load.accepted), len(load.ran)
    print(
        f"{way}: promoted {promoted - killed:.1f} s after the kill, enqueued again after {enqueued - killed:.1f} s,"
        f" jobs ran again after {resumed - killed:.1f} s, a new one after {ran - killed:.1f} s;"
        f" {jobs} jobs accepted, {starts} starts, last fence {last}"
    )
    assert ran - killed < WITHIN
    assert last >= load.ran[-1][1]


async def test_fences_grow_also_when_an_asynchronous_standby_lost_some(asynchronous_pair: Pair) -> None:
    pair = asynchronous_pair
    async with Locks.from_url(pair.url, session_ttl=30, stuck_work="report") as locks:
        await locks.acquire("lost")
        standby = await asyncpg.connect(pair.standby.url())
        await standby.execute("alter system set primary_conninfo = ''")
        await standby.execute("select pg_reload_conf()")
        while await standby.fetchval("select count(*) from pg_stat_wal_receiver"):
            pass
        fences = []
        for _ in range(100):  # more than the server writes ahead
            async with locks.acquire("key") as lease:
                fences.append(lease.fence)
        kept = await standby.fetchval("select last_value from interlock.fence")
        await standby.close()
        assert kept < fences[-1]  # else there would be nothing to see

        pair.primary.kill()
        await pair.standby.promote()
        async with locks.acquire("key", wait=30) as lease:
            assert lease.fence > fences[-1]
    print(f"fences up to {fences[-1]} were handed out, the standby knew of {kept}, the next one was {lease.fence}")
