"""Flaws of job queues seen in the field, each as a check that the flawed design fails and Interlock passes.

The flawed designs are kept here in their plainest form, so that every check is seen to bite. Those of dispatchers are
in `test_dispatch_flaws`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from interlock.jobs.retry import Retry
from interlock.ports.jobs import MAX_ATTEMPTS_KEPT, JobState, Outcome
from interlock.testing.conformance.jobs.driver import JobSuite, slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

pytestmark = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)

driver = JobSuite().job_driver
drivers = JobSuite().job_drivers


# -- F-E1: the job is returned after its row lock is gone, and nothing was written: two workers get it -----------------


class UnmarkedQueue:
    """``with transaction: job = select … skip locked``, and then ``return job``: nothing says that it is taken."""

    def __init__(self, jobs: Iterable[int]) -> None:
        self.queued = dict.fromkeys(jobs)
        self._locked: set[int] = set()

    async def acquire(self) -> int | None:
        job = next((job for job in self.queued if job not in self._locked), None)
        if job is not None:
            self._locked.add(job)
            await asyncio.sleep(0)
            self._locked.discard(job)  # the transaction has ended
        return job


async def acquired_twice(workers: list[Callable[[], Awaitable[int | None]]], each: int) -> list[int]:
    """The jobs that more than one got, where every worker acquires so many, all of them at once."""

    async def acquire(worker: Callable[[], Awaitable[int | None]]) -> list[int | None]:
        return [await worker() for _ in range(each)]

    got = await asyncio.gather(*(acquire(worker) for worker in workers))
    times = Counter(job for jobs in got for job in jobs if job is not None)
    return [job for job, often in times.items() if often > 1]


async def test_f_e1_a_job_that_was_given_to_one_is_given_to_nobody_else(store_url: str) -> None:
    assert await acquired_twice([UnmarkedQueue(range(10)).acquire] * 5, 2), "the check does not bite"

    async with driver(store_url) as b:
        await b.add_many(10)

        def worker(session: str) -> Callable[[], Awaitable[int | None]]:
            async def acquire() -> int | None:
                return next(iter(await b.ids(session, 1)), None)

            return acquire

        assert await acquired_twice([worker(session) for session in "abcab"], 2) == []
        assert await b.fetch() == [], "each of the ten was given"


# -- F-E2: slots counted outside any lock: 15 launched for a limit of 5 ------------------------------------------------


class CountingLauncher:
    """``free = max_concurrent - running.count()``, then launches as many: three at once count the same."""

    def __init__(self, jobs: int) -> None:
        self.queued = list(range(jobs))
        self.running: list[int] = []

    async def launch(self, limit: int) -> int:
        free = limit - len(self.running)
        await asyncio.sleep(0)  # the next query
        for _ in range(free):
            self.running.append(self.queued.pop(0))
        return free


async def launched_at_once(launchers: list[Callable[[int], Awaitable[int]]]) -> int:
    """How many of 20 jobs three batches of at most 5 launch together."""
    return sum(await asyncio.gather(*(launch(5) for launch in launchers)))


async def test_f_e2_three_concurrent_batches_launch_five_for_a_limit_of_five(store_url: str) -> None:
    assert await launched_at_once([CountingLauncher(20).launch] * 3) == 15, "the check does not bite"

    async with driver(store_url) as b:
        await b.add_many(20, uses=(slots(5),))

        def launcher(session: str) -> Callable[[int], Awaitable[int]]:
            async def launch(limit: int) -> int:
                return len(await b.fetch(session, limit))

            return launch

        assert await launched_at_once([launcher(session) for session in "abc"]) == 5


# -- F-E3: a failing job is picked again at once until its retries are burnt -------------------------------------------


class ImpatientQueue:
    """On failure ``retry_count += 1; status = 'queued'``: it is first in line again."""

    def __init__(self, max_retries: int) -> None:
        self._left = max_retries

    async def fail_next(self) -> bool:
        """Pick a job and let it fail; False if there was none to pick."""
        self._left -= 1
        return self._left >= 0


async def failures_in_a_row(fail_next: Callable[[], Awaitable[bool]]) -> int:
    """How many attempts a job that fails gets through before any time has passed."""
    failures = 0
    while failures < 10 and await fail_next():
        failures += 1
    return failures


async def test_f_e3_a_failed_job_waits_before_it_is_tried_again(store_url: str) -> None:
    assert await failures_in_a_row(ImpatientQueue(3).fail_next) == 3, "the check does not bite"

    async with driver(store_url) as b:
        job_id = await b.add()

        async def fail_next() -> bool:
            for job in await b.fetch("a", 1):
                delay = Retry.DEFAULT.delay_after(job.attempt)
                await b.end(job, Outcome.RETRY, delay=delay, error="ConnectionError: away")
                return True
            return False

        assert await failures_in_a_row(fail_next) == 1
        assert (await b.batch()).recheck_in == pytest.approx(2.0, abs=0.25), "a fetcher knows when to look again"
        await b.let_pass(2.25)
        assert await failures_in_a_row(fail_next) == 1
        assert (await b.view(job_id)).attempt == 2
    for policy in (Retry.DEFAULT, Retry.AGGRESSIVE, Retry.CONSERVATIVE, Retry.HIGH_PRIORITY, Retry(delay=0)):
        assert all(policy.delay_after(attempt) > 0 for attempt in range(1, 6))


# -- F-E4: no worker id, lease or heartbeat ----------------------------------------------------------------------------


class StatusOnly:
    """``status = 'running'``, whoever runs it. With ``most_age``, what runs for longer counts as dead."""

    def __init__(self, most_age: float = float("inf")) -> None:
        self._most_age = most_age

    async def given_after(self, seconds: float, *, alive: bool) -> bool:
        """Whether a job that somebody took so long ago is given again. Whether they live, nobody knows."""
        return seconds > self._most_age


async def mistaken(given_after: Callable[..., Awaitable[bool]]) -> set[str]:
    """What a queue gets wrong about its workers."""
    wrong = set()
    if not await given_after(20.0, alive=False):
        wrong.add("the job of a dead worker is not given to another within 20 s")
    if await given_after(8 * 3600.0, alive=True):
        wrong.add("a job that takes a working day is run twice")
    return wrong


async def test_f_e4_the_dead_are_known_from_the_living(store_url: str) -> None:
    assert len(await mistaken(StatusOnly().given_after)) == 1, "the check does not bite"
    assert len(await mistaken(StatusOnly(most_age=1800.0).given_after)) == 2, (
        "the check does not bite: age tells nothing"
    )

    async def given_after(seconds: float, *, alive: bool) -> bool:
        async with driver(store_url, namespace="alive" if alive else "dead") as b:
            job_id = await b.add()
            job = await b.one("a")
            worker = (await b.view(job_id)).worker
            assert worker is not None
            assert (worker.session, worker.host, worker.pid, worker.program) == ("a", "host-a", 7, "test")
            await b.let_pass(seconds, *("ab" if alive else "b"))
            await b.jobs.rescue()
            given = await b.ids("b") == [job.id]
            assert await b.acknowledge(job) is alive, "only the living acknowledge"
            return given

    assert await mistaken(given_after) == set()


# -- F-E6: tests that cannot fail, because one transaction per test hides the rows -------------------------------------


def complaints(jobs: Iterable[int], acquired: list[int]) -> list[str]:
    """What is wrong with who got what: every job has to be got, and once."""
    times = Counter(acquired)
    return [f"job {job} was acquired {times[job]} times" for job in jobs if times[job] != 1]


def acquired_from_a_table_without_marks(path: Path, *, committed: bool) -> list[int]:
    """What five workers get from ten rows, each on a connection of its own, next to the transaction of the test."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as test:
        test.execute("pragma journal_mode = wal")
        test.execute("create table if not exists job (id integer primary key)")
        test.execute("begin")
        test.executemany("insert into job values (?)", [(n,) for n in range(10)])
        if committed:
            test.execute("commit")
        acquired: list[int] = []
        for _ in range(5):
            with contextlib.closing(sqlite3.connect(path)) as worker:
                acquired += [row[0] for row in worker.execute("select id from job")]
        return acquired


async def test_f_e6_five_workers_share_ten_jobs_by_a_check_that_can_fail(store_url: str, tmp_path: Path) -> None:
    unseen = acquired_from_a_table_without_marks(tmp_path / "test.db", committed=False)
    assert len(unseen) == len(set(unseen)), "a check like this one passes for the broken code too"
    assert len(complaints(range(10), unseen)) == 10, "the check does not bite: nobody got anything"
    seen = acquired_from_a_table_without_marks(tmp_path / "test.db", committed=True)
    assert len(complaints(range(10), seen)) == 10, "the check does not bite: everybody got everything"

    async with drivers(store_url, 1 if store_url == "memory://" else 3) as workers:
        jobs = await workers[0].add_many(10)

        async def work(number: int) -> list[int]:
            b, got = workers[number % len(workers)], []
            while fetched := await b.fetch("abc"[number % 3], 1):
                got += [job.id for job in fetched]
            return got

        got = await asyncio.gather(*(work(number) for number in range(5)))
        assert complaints(jobs, [job for some in got for job in some]) == []


# -- F-E7: error lists that only grow ----------------------------------------------------------------------------------


async def kept_after(failures: int, fail: Callable[[], Awaitable[None]], kept: Callable[[], Awaitable[int]]) -> int:
    for _ in range(failures):
        await fail()
    return await kept()


async def test_f_e7_a_job_that_fails_for_weeks_keeps_its_first_and_last_errors(store_url: str) -> None:
    stats: dict[str, list[str]] = {"errors": []}  # of a loop that runs for weeks

    async def append() -> None:
        stats["errors"].append("away")

    async def length() -> int:
        return len(stats["errors"])

    often = MAX_ATTEMPTS_KEPT * 3
    assert await kept_after(often, append, length) > MAX_ATTEMPTS_KEPT, "the check does not bite"

    async with driver(store_url) as b:
        job_id = await b.add()
        count = 0

        async def fail() -> None:
            nonlocal count
            count += 1
            await b.end(await b.one(), Outcome.RETRY, delay=1.0, error=f"failure {count}", trace="x" * 1000)
            b.clock.advance(1.0)
            await b.keep("a")

        async def attempts() -> int:
            return len((await b.view(job_id)).attempts)

        assert await kept_after(often, fail, attempts) <= MAX_ATTEMPTS_KEPT
        view = await b.view(job_id)
        assert view.attempt == often
        assert (view.attempts[0].error, view.attempts[-1].error) == ("failure 1", f"failure {often}")


# -- F-E8: strict priority starves -------------------------------------------------------------------------------------


class StrictQueue:
    """Highest priority first, then oldest."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._count = 0

    async def add(self, name: str, priority: int) -> None:
        self._count += 1
        heapq.heappush(self._heap, (-priority, self._count, name))

    async def take(self) -> str:
        return heapq.heappop(self._heap)[2]


async def rounds_until_low_is_served(
    add: Callable[[str, int], Awaitable[None]], take: Callable[[], Awaitable[str]], tick: Callable[[], Awaitable[None]]
) -> int | None:
    """One job of low priority, and in every round two of high priority for one that is done; None: not in 200."""
    await add("low", 20)
    for number in range(200):
        await add("high", 80)
        await add("high", 80)
        if await take() == "low":
            return number
        await tick()
    return None


async def test_f_e8_waiting_work_ages_until_it_is_served(store_url: str) -> None:
    strict = StrictQueue()

    async def no_time() -> None:
        pass

    assert await rounds_until_low_is_served(strict.add, strict.take, no_time) is None, "the check does not bite"

    async with driver(store_url) as b:

        async def add(name: str, priority: int) -> None:
            await b.add(name=name, priority=priority)

        async def take() -> str:
            job = await b.one("a", names=("low", "high"))
            await b.done(job)
            return job.name

        async def ten_minutes() -> None:
            await b.let_pass(600.0, "a")

        rounds = await rounds_until_low_is_served(add, take, ten_minutes)
        # 60 points of priority are worth 60 times ten minutes, in which 120 others came of which each goes first.
        assert rounds is not None
        assert 119 <= rounds <= 122


async def test_f_e8_aging_changes_nothing_within_ten_minutes(store_url: str) -> None:
    async with driver(store_url) as b:
        low = await b.add(priority=49)
        await b.let_pass(599.0)
        high = await b.add(priority=50)
        assert [job.id for job in await b.fetch()] == [high, low]
        assert await b.state(low) is JobState.FETCHED
