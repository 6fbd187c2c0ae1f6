"""Flaws of event dispatchers seen in the field, each as a check that the flawed design fails and Interlock passes.

The flawed designs are kept here in their plainest form, so that every check is seen to bite. Those of job queues are in
`test_flaws`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App, Retry, RetryLater, Slots
from interlock.errors import DeadlockError
from interlock.ports.jobs import JobState
from interlock.testing.clock import until
from interlock.testing.conformance.jobs.driver import JobSuite

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

pytestmark = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)

driver = JobSuite().job_driver


# -- F-C1: marked before the work: a crash loses it --------------------------------------------------------------------


class MarkedFirst:
    """``if delivery in seen: return``, ``seen.add(delivery)``, and then the work."""

    def __init__(self, *deliveries: str) -> None:
        self._deliveries = deque(deliveries)

    async def take(self) -> str | None:
        return self._deliveries.popleft() if self._deliveries else None

    async def crash(self) -> None:
        """Whoever took the last one died before it had worked on it."""


async def taken_after_a_crash(take: Callable[[], Awaitable[Any]], crash: Callable[[], Awaitable[None]]) -> Any:
    """What the next process finds to do when the first died right after it had begun."""
    assert await take() is not None
    await crash()
    return await take()


async def test_f_c1_what_was_begun_and_not_finished_is_begun_again(store_url: str) -> None:
    flawed = MarkedFirst("delivery-1")
    assert await taken_after_a_crash(flawed.take, flawed.crash) is None, "the check does not bite"

    async with driver(store_url) as b:
        job_id = await b.add(lane="issue-1")
        alive = iter("ab")

        async def take() -> int | None:
            return next(iter(await b.ids(next(alive))), None)

        async def crash() -> None:
            await b.let_pass(16.0, "b")
            await b.jobs.rescue()

        assert await taken_after_a_crash(take, crash) == job_id
        assert (await b.view(job_id)).crashes == 1


# -- F-C2: sets and lock maps that only grow ---------------------------------------------------------------------------


class LockPerIssue:
    """``self._locks[issue]`` made when first asked for, and ``self._seen.add(delivery)``."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._seen: set[int] = set()
        self._numbers = itertools.count()

    async def handle(self, issue: str) -> None:
        self._seen.add(next(self._numbers))
        async with self._locks.setdefault(issue, asyncio.Lock()):
            pass


def entries(*roots: object) -> int:
    """How much all containers hold that can be reached from these objects, through objects of ours."""
    seen: set[int] = set()
    todo: list[object] = list(roots)
    held = 0
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            held += len(one)
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset, deque)):
            held += len(one)
            todo += one
        elif type(one).__module__.startswith(("interlock.", "tests.")):
            todo += _attributes(one)
    return held


def _attributes(one: object) -> Iterator[object]:
    yield from getattr(one, "__dict__", {}).values()
    for kind in type(one).__mro__:
        for slot in getattr(kind, "__slots__", ()):
            yield getattr(one, slot, None)


async def growth(handle_all: Callable[[list[str]], Awaitable[None]], held: Callable[[], Awaitable[int]]) -> int:
    """By how much what is held grows when 300 more issues were handled, after the first 100."""
    await handle_all([f"issue-{n}" for n in range(100)])
    before = await held()
    await handle_all([f"issue-{n}" for n in range(100, 400)])
    return await held() - before


async def unfinished_rows(url: str) -> int:
    """How many rows all tables of the store have together, but for finished jobs, which are kept for a while."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            names = [row[0] for row in file.execute("select name from sqlite_master where type = 'table'")]
            return sum(file.execute(f"select count(*) from {name}").fetchone()[0] for name in names if _counts(name))
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        try:
            found = "select c.oid::regclass::text from pg_class c where relnamespace = 'interlock'::regnamespace and {}"
            names = [row[0] for row in await connection.fetch(found.format("relkind = 'r'"))]
            return sum([await connection.fetchval(f"select count(*) from {name}") for name in names if _counts(name)])
        finally:
            await connection.close()
    return 0


def _counts(table: str) -> bool:
    return "history" not in table


async def test_f_c2_nothing_is_kept_for_lanes_and_jobs_that_are_over(store_url: str) -> None:
    flawed = LockPerIssue()

    async def one_by_one(issues: list[str]) -> None:
        for issue in issues:
            await flawed.handle(issue)

    async def held_by_the_flawed() -> int:
        return entries(flawed)

    assert await growth(one_by_one, held_by_the_flawed) >= 600, "the check does not bite"

    app = App(store_url, recheck_interval=0.2)

    @app.job(lane="{issue}", limits=[Slots("agents", 50), Slots("agent", 1, key="{issue}")])
    async def handle(issue: str) -> None:
        pass

    async def enqueued_and_worked_off(issues: list[str]) -> None:
        await app.jobs.enqueue_many([handle.call(issue=issue) for issue in issues])
        await until(idle)

    async def idle() -> bool:
        return not await app.jobs.list(*(state for state in JobState if not state.final), limit=1)

    async def held() -> int:
        await until(swept)
        return entries(app.jobs) + await unfinished_rows(store_url)

    async def swept() -> bool:
        """Whether next to nothing is left when what every process does once a minute was done."""
        await app.jobs._store_client.store.sessions.sweep()
        await app.jobs._store_client.store.jobs.prune(app.settings.keep_history)
        return await unfinished_rows(store_url) < 50

    async with app, app.worker(concurrency=10):
        assert await growth(enqueued_and_worked_off, held) < 60
        assert await app.lanes.list() == []


# -- F-C3: the agent runs inside the dispatch, so the webhook answer is late -------------------------------------------


async def answered_while_the_agent_runs(
    dispatch: Callable[[], Awaitable[object]], began: asyncio.Event, go_on: asyncio.Event, *, within: float
) -> bool:
    """Whether the dispatch returns although the agent, which has begun, may not go on."""
    answer = asyncio.ensure_future(dispatch())
    await began.wait()
    # The agent may well begin before the answer was processed: which comes first says nothing.
    answered, _ = await asyncio.wait([answer], timeout=within)
    go_on.set()
    await answer
    return bool(answered)


async def test_f_c3_the_answer_does_not_wait_for_the_work(store_url: str) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def agent() -> None:
        began.set()
        await go_on.wait()

    assert not await answered_while_the_agent_runs(agent, began, go_on, within=0.01), "the check does not bite"

    began, go_on = asyncio.Event(), asyncio.Event()
    app = App(store_url)
    job = app.job()(agent)
    async with app, app.worker(concurrency=2):

        async def dispatch() -> None:
            await job.enqueue()

        assert await answered_while_the_agent_runs(dispatch, began, go_on, within=30)


# -- F-C4: requeue from inside the held lock deadlocks; unbounded requeue livelocks ------------------------------------


class LockedRouter:
    """``async with self._locks[issue]: await handler(event)``, and the handler may requeue what came too early."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.handled: list[str] = []

    async def dispatch(self, issue: str, event: str) -> None:
        async with self._locks[issue]:
            if event == "first":
                await self.dispatch(issue, "again")
            self.handled.append(event)


async def test_f_c4_a_handler_requeues_into_its_own_lane_without_waiting_for_itself(store_url: str) -> None:
    flawed = LockedRouter()
    stuck = asyncio.ensure_future(flawed.dispatch("issue-1", "first"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not flawed.handled, "the check does not bite: it waits for its own lock"
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)

    app = App(store_url)
    handled: list[str] = []
    refused: list[Exception] = []

    @app.job(lane="{issue}")
    async def handle(issue: str, event: str) -> None:
        if event == "first":
            again = await handle.enqueue(issue=issue, event="again")
            try:
                await again.result(wait=60)
            except DeadlockError as error:
                refused.append(error)
        handled.append(event)

    async with app:
        await handle.enqueue(issue="issue-1", event="first")
        await app.drain(wait=30)
    assert handled == ["first", "again"]
    assert len(refused) == 1, "waiting for a job behind oneself is refused, not waited for"


async def handled_in_all(handle: Callable[[], Awaitable[bool]], limit: int = 1000) -> int:
    """How often an event is handled whose decision is always stale, up to a bound far beyond reason."""
    for count in range(limit):
        if not await handle():
            return count
    return limit


async def test_f_c4_what_is_put_back_every_time_ends(store_url: str) -> None:
    queue = deque(["event"])

    async def requeue() -> bool:
        if not queue:
            return False
        queue.append(queue.popleft())
        return True

    assert await handled_in_all(requeue) == 1000, "the check does not bite"

    app = App(store_url)
    handled: list[str] = []

    @app.job(lane="{issue}", retry=Retry(attempts=4))
    async def decide(issue: str) -> None:
        handled.append(issue)
        if issue == "busy":
            raise RetryLater(0.001, "the issue changed meanwhile")

    async with app, app.worker(concurrency=2):
        busy = await decide.enqueue(issue="busy")
        behind = await decide.enqueue(issue="busy")
        calm = await decide.enqueue(issue="calm")

        async def all_over() -> bool:
            return all([(await handle.status()).state.final for handle in (busy, behind, calm)])

        await until(all_over, within=30)
        states = [(await handle.status()).state for handle in (busy, behind, calm)]
    assert states == [JobState.FAILED, JobState.FAILED, JobState.DONE]
    assert sorted(handled) == ["busy"] * 8 + ["calm"]
