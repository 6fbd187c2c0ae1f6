"""Jobs in SQLite: what the port does not say. Every statement finds its rows, whatever else there is."""

from __future__ import annotations

import asyncio
import math
import re
import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Settings
from interlock.backends import from_url
from interlock.backends.sqlite import job_fetch
from interlock.backends.sqlite.job_acknowledge import acknowledge
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.job_fetch import fetch
from interlock.backends.sqlite.job_notifier import JobNotifier
from interlock.backends.sqlite.job_ready_watcher import ReadyWatcher
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.backends.statements import read_migrations
from interlock.errors import StoreError
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, Outcome
from interlock.ports.sessions import SessionCard
from interlock.testing.clock import VirtualClock, until
from interlock.testing.conformance.jobs.driver import JobDriver, new_job, pace, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from interlock.ports.jobs import NewJob


_SESSION = """
insert into interlock_session (namespace, id, host, pid, program, begun_at, expires_at)
values (?, 's', 'host', 7, 'test', 0, 1e12)
"""


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """All tables, without a file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)) as connection:
        for migration in read_migrations("interlock.backends.sqlite", "schema"):
            connection.executescript(migration.sql)
        connection.execute(_SESSION, ("default",))
        yield connection


class Table:
    """The operations on one connection, with a clock that stands still and fences that grow."""

    def __init__(self, db: sqlite3.Connection, namespace: str = "default") -> None:
        self.db = db
        self.now = 1000.0
        self._fences = 0
        self._namespace = namespace

    def rows(self) -> JobRows:
        self.now += 0.001
        return JobRows(self.db, self._namespace, self.now, self._fence)

    def add(self, count: int, change: Callable[[int], dict[str, Any]] = lambda _: {}) -> None:
        jobs: list[NewJob] = [new_job(number, **change(number)) for number in self.rows().numbers("id", count)]
        enqueue(self.rows(), jobs, again=False)

    def fetch(self, limit: int = 100, run: int = 1, queue: str = "q") -> FetchResult:
        batch = fetch(self.rows(), FetchRequest("s", (queue,), ("n",), limit, limit, run))
        assert isinstance(batch, FetchResult)
        return batch

    def done(self, batch: FetchResult) -> None:
        acknowledged = acknowledge(
            self.rows(), "s", [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in batch.jobs]
        )
        assert all(acknowledged.accepted)

    def steps(self, work: Callable[[], object]) -> int:
        """How many steps SQLite's machine takes for something: what it costs, whatever the machine it runs on."""
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        self.db.set_progress_handler(count, 10)
        try:
            work()
        finally:
            self.db.set_progress_handler(None, 0)
        return steps

    def _fence(self, _: sqlite3.Connection) -> int:
        self._fences += 1
        return self._fences


def plan(db: sqlite3.Connection, statement: str) -> list[str]:
    """How SQLite goes about a statement."""
    names = set(re.findall(r":(\w+)", statement))
    values: Any = dict.fromkeys(names, "[]") if names else ["x"] * statement.count("?")
    return [detail for *_, detail in db.execute(f"explain query plan {statement}", values)]


COUNTS = re.compile(
    r"count_|list_(held|scheduled|parked|ready|running|waiting)$|namespace_kinds|live_workers|fetched_of_queue"
)
"""Statements that go through all of something, for people who ask for all of it or pause all of it."""
STATEMENTS = sorted(name for name in sql.names if not COUNTS.match(name))


def test_every_statement_is_used() -> None:
    code = "".join(file.read_text() for file in Path(job_fetch.__file__).parent.glob("*.py"))
    assert [name for name in sql.names if f"sql.{name}" not in code] == []


class TestPlans:
    @pytest.mark.parametrize("name", STATEMENTS)
    def test_a_statement_finds_its_rows_by_an_index(self, db: sqlite3.Connection, name: str) -> None:
        details = plan(db, getattr(sql, name))
        scans = [detail for detail in details if detail.startswith("SCAN") and not _bounded(detail, name)]
        assert scans == [], "\n".join(details)
        assert not any("AUTOMATIC" in detail for detail in details), "\n".join(details)

    @pytest.mark.parametrize(
        ("name", "index"),
        [
            ("ready_jobs", "r USING PRIMARY KEY (kind=? AND class=?)"),
            ("jobs_behind", "j USING INDEX interlock_job_by_lane (lane=? AND position>?)"),
            ("due_jobs", "t USING PRIMARY KEY (kind=? AND at<?)"),
            ("old_history", "USING COVERING INDEX interlock_job_history_by_end (kind=? AND finished_at<?)"),
            ("fetched_by_worker", "c USING INDEX interlock_job_fetched_by_worker (worker=?)"),
            ("watched_ended", "a USING PRIMARY KEY (namespace=? AND session=?)"),
        ],
    )
    def test_what_is_asked_for_often_is_found_at_once(self, db: sqlite3.Connection, name: str, index: str) -> None:
        details = plan(db, getattr(sql, name))
        assert any(index in detail for detail in details), "\n".join(details)
        assert not any("TEMP B-TREE" in detail for detail in details), "\n".join(details)


def _bounded(detail: str, name: str) -> bool:
    """Whether a scan is of something small, or of something that a limit or an order by the key ends."""
    if re.match(r"SCAN (\w+ VIRTUAL TABLE|\d+ CONSTANT|CONSTANT|busy|sets|l$|classes$|\(subquery)", detail):
        return True
    if name in ("any_resubmitted", "any_unreadable"):
        return True
    newest_first = name.startswith("list_") and detail in ("SCAN interlock_job", "SCAN interlock_job_history", "SCAN j")
    return newest_first or (name == "kinds_with_limits" and detail.startswith("SCAN k"))


class TestFlatness:
    """What something costs does not grow with what it is not about. Ten times the rows, at most a few more steps."""

    FEW, MANY = 500, 5000

    def _fetch_and_acknowledge(self, table: Table, **wishes: Any) -> int:
        def work() -> None:
            batch = table.fetch(20, **wishes)
            assert len(batch.jobs) == 20
            table.done(batch)

        return table.steps(work)

    def _flat(self, db: sqlite3.Connection, add: Callable[[Table, int], None], **wishes: Any) -> None:
        table = Table(db)
        add(table, self.FEW)
        self._fetch_and_acknowledge(table, **wishes)
        few = self._fetch_and_acknowledge(table, **wishes)
        add(table, self.MANY)
        many = self._fetch_and_acknowledge(table, **wishes)
        assert many < few * 1.3, f"{few} steps, then {many}"

    def test_jobs_behind(self, db: sqlite3.Connection) -> None:
        self._flat(db, lambda table, count: table.add(count))

    def test_lanes(self, db: sqlite3.Connection) -> None:
        self._flat(db, lambda table, count: table.add(count, lambda number: {"lane": f"l{number}"}))

    def test_a_deep_lane(self, db: sqlite3.Connection) -> None:
        self._flat(db, lambda table, count: table.add(count, lambda _: {"lane": "l"}), run=20)

    def test_deep_lanes(self, db: sqlite3.Connection) -> None:
        self._flat(db, lambda table, count: table.add(count, lambda number: {"lane": f"l{number % 25}"}))

    def test_jobs_whose_names_are_not_known(self, db: sqlite3.Connection) -> None:
        def add(table: Table, count: int) -> None:
            table.add(count, lambda _: {"name": "unknown", "priority": 100})
            table.add(100)

        self._flat(db, add)

    def test_jobs_whose_time_has_not_come(self, db: sqlite3.Connection) -> None:
        def add(table: Table, count: int) -> None:
            table.add(count, lambda _: {"delay": 100.0})
            table.add(100)

        self._flat(db, add)

    def test_history(self, db: sqlite3.Connection) -> None:
        def add(table: Table, count: int) -> None:
            table.add(count)
            while (batch := table.fetch(1000)).jobs:
                table.done(batch)
            table.add(100)

        self._flat(db, add)

    @pytest.mark.parametrize("limit", [slots(1), pace(1, 1000.0)])
    def test_a_key_without_room(self, db: sqlite3.Connection, limit: Any) -> None:
        def add(table: Table, count: int) -> None:
            table.add(count, lambda _: {"uses": (limit,), "priority": 100})
            while table.fetch(1).recheck_in == 0:
                pass
            table.add(100)

        self._flat(db, add)

    def test_a_long_line(self, db: sqlite3.Connection) -> None:
        """Twenty slots that are always taken again by the next in line."""

        def add(table: Table, count: int) -> None:
            table.add(count, lambda _: {"uses": (slots(20),)})
            batch = table.fetch(20)
            while table.fetch(20).recheck_in == 0:
                pass
            table.done(batch)

        self._flat(db, add)

    def test_jobs_that_may_not_be_fetched_in_advance(self, db: sqlite3.Connection) -> None:
        def cost() -> int:
            request = FetchRequest("s", ("q",), ("n",), 20, 0, 1)
            return table.steps(lambda: batches.append(fetch(table.rows(), request)))

        table = Table(db)
        batches: list[Any] = []
        table.add(2000, lambda _: {"uses": (pace(100_000, 10.0),), "priority": 100})
        table.add(100)
        few = cost()
        table.add(20_000, lambda _: {"uses": (pace(100_000, 10.0),), "priority": 100})
        assert cost() < few * 1.3
        assert [len(batch.jobs) for batch in batches] == [20, 20]


class TestFetches:
    def test_a_fetch_that_finds_nothing_writes_nothing(self, db: sqlite3.Connection) -> None:
        """Else two idle processes would wake each other for ever."""
        table = Table(db)
        table.add(3, lambda _: {"name": "unknown"})
        table.add(1, lambda _: {"delay": 60.0})
        before = db.total_changes

        batch = table.fetch()

        assert batch.jobs == []
        assert 59 < batch.recheck_in < 60
        assert db.total_changes == before

    def test_a_lane_cannot_be_offered_twice(self, db: sqlite3.Connection) -> None:
        Table(db).add(2, lambda _: {"lane": "l"})
        assert db.execute("select count(*) from interlock_job_ready").fetchone() == (1,)

        with pytest.raises(sqlite3.IntegrityError, match="lane"):
            db.execute("insert into interlock_job_ready values (1, 0, 0, 2, 50, 'default/l')")

    def test_room_is_made_longer_evenly(self, db: sqlite3.Connection) -> None:
        """Many lanes: each gets its turn. Few: the rest goes to longer runs, as long in one as in the other."""
        table = Table(db)
        table.add(300, lambda number: {"lane": f"l{number % 3}"})
        assert [len(list(lane)) for lane in _lanes(table.fetch(30, run=100))] == [10, 10, 10]
        table.add(40, lambda number: {"queue": "r", "lane": f"r{number}"})
        assert [len(list(lane)) for lane in _lanes(table.fetch(30, run=100, queue="r"))] == [1] * 30

    def test_a_small_queue_leaves_its_share_to_others(self, db: sqlite3.Connection) -> None:
        table = Table(db)
        table.add(100, lambda number: {"queue": "deep", "lane": f"l{number % 2}"})
        table.add(100, lambda number: {"queue": "wide", "lane": f"w{number}"})
        table.add(3, lambda _: {"queue": "small"})
        request = FetchRequest("s", ("deep", "wide", "small"), ("n",), 23, 23, 100)
        batch = fetch(table.rows(), request)
        assert isinstance(batch, FetchResult)
        given = [job.queue for job in batch.jobs]
        assert given.count("small") == 3
        assert len(given) == 23

    def test_a_failure_is_kept_whatever_its_text(self, db: sqlite3.Connection) -> None:
        table = Table(db)
        table.add(1)
        (job,) = table.fetch().jobs
        told = Acknowledgement(job.id, job.fence, Outcome.FAILED, error="odd \ud800", trace="\ud800\0")
        assert acknowledge(table.rows(), "s", [told]).accepted == [True]
        assert db.execute("select error from interlock_job_history").fetchall() == [("odd ?",)]

    def test_namespaces_are_apart(self, db: sqlite3.Connection) -> None:
        db.execute(_SESSION, ("other",))
        mine, theirs = Table(db), Table(db, "other")
        for table in (mine, theirs):
            table.add(2, lambda _: {"lane": "l", "uses": (slots(1),)})
        first, second = mine.fetch(), theirs.fetch()
        assert len(first.jobs) == len(second.jobs) == 1
        assert {job.id for job in first.jobs} == {1}
        assert {job.id for job in second.jobs} == {3}
        assert acknowledge(theirs.rows(), "s", [Acknowledgement(1, first.jobs[0].fence, Outcome.DONE)]).accepted == [
            False
        ]


def _lanes(batch: FetchResult) -> Iterator[list[int]]:
    """The jobs of a fetch by lane; those of one lane stand next to each other."""
    runs: list[tuple[str, list[int]]] = []
    for job in batch.jobs:
        if not runs or runs[-1][0] != job.lane:
            runs.append((job.lane, []))
        runs[-1][1].append(job.id)
    assert len({lane for lane, _ in runs}) == len(runs)
    return (ids for _, ids in runs)


@asynccontextmanager
async def opened(path: Path, clock: Any = None) -> AsyncIterator[JobDriver]:
    """A process's way to the file."""
    store = from_url(f"sqlite:///{path}", settings=Settings(), clock=clock)
    await store.open()
    try:
        yield JobDriver(store, clock)
    finally:
        await store.close()


APPETITE = FetchRequest("a", ("q",), ("n",), 10, 10, 1)


class TestNews:
    async def test_an_idle_worker_hears_of_other_processes_jobs_and_only_of_those_it_knows(
        self, tmp_path: Path
    ) -> None:
        clock = VirtualClock()
        told: list[str] = []
        async with opened(tmp_path / "i.db", clock) as mine, opened(tmp_path / "i.db", clock) as theirs:
            await mine.begin("a", "b")
            await mine.store.messages.listen("a", lambda _: None, lambda *_: None)
            mine.jobs.on_ready(("q",), lambda: told.append("news"))
            await mine.jobs.fetch(APPETITE)
            await theirs.add(name="unknown")
            await theirs.add(queue="other")
            await theirs.add()
            await until(lambda: told, what="news")
            assert told == ["news"]

            # Whoever does not fetch is not told again; whoever fetches is.
            await theirs.add()
            assert len((await mine.batch()).jobs) == 2
            await theirs.add()
            await until(lambda: len(told) == 2, what="news again")

    def test_what_is_committed_during_a_fetch_is_not_missed(self, db: sqlite3.Connection) -> None:
        looks: list[str] = []
        news = JobNotifier(lambda *_: None, lambda *_: None)
        table = Table(db)
        ready_watcher = ReadyWatcher(lambda _: table.rows(), news, lambda _: None, lambda: looks.append("look"))
        asyncio.run(self._fetch_while_others_commit(ready_watcher, news, db))
        assert looks == ["look"]

    async def _fetch_while_others_commit(
        self, ready_watcher: ReadyWatcher, news: JobNotifier, db: sqlite3.Connection
    ) -> None:
        news.on_ready(("q",), lambda: None)
        ready_watcher.fetch_started(APPETITE)
        ready_watcher.fetch_incomplete(APPETITE, math.inf, 0.0)
        ready_watcher.fetch_started(APPETITE)
        ready_watcher.look(db)
        ready_watcher.fetch_incomplete(APPETITE, math.inf, 0.0)

    async def test_a_job_that_is_due_sooner_than_was_known_is_news(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        told: list[str] = []
        async with opened(tmp_path / "i.db", clock) as mine, opened(tmp_path / "i.db", clock) as theirs:
            await mine.begin("a")
            await mine.store.messages.listen("a", lambda _: None, lambda *_: None)
            await theirs.add(delay=60.0)
            mine.jobs.on_ready(("q",), lambda: told.append("news"))
            await mine.jobs.fetch(APPETITE)
            await theirs.add(delay=90.0)
            await theirs.add(delay=30.0)
            await until(lambda: told, what="news")
            batch = await mine.jobs.fetch(APPETITE)
            assert isinstance(batch, FetchResult)
            assert batch.recheck_in == pytest.approx(30.0, abs=0.1)
            assert told == ["news"]


class TestWriting:
    async def test_one_enqueue_that_cannot_be_takes_no_other_with_it(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "i.db", VirtualClock()) as driver:
            ids = await driver.jobs.ids(20)
            calls = [driver.jobs.enqueue([new_job(number)]) for number in (*ids, ids[3])]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results if result != {}] == [StoreError]
            assert (await driver.queue()).ready == 20

    async def test_a_rescue_that_had_to_wait_leaves_those_alone_who_could_not_renew(self, tmp_path: Path) -> None:
        """Whoever stops in the middle of writing stops everybody's renewals; the others live all the same."""
        clock = VirtualClock()
        async with opened(tmp_path / "i.db", clock) as driver:
            await driver.begin("a", "b", seconds=5.0)
            await driver.add()
            await driver.one("a")
            with closing(sqlite3.connect(tmp_path / "i.db", isolation_level=None)) as stopped:
                stopped.execute("begin immediate")
                rescue = asyncio.create_task(driver.jobs.rescue())
                await asyncio.sleep(0)
                clock.advance(6.0)
            assert list(await rescue) == []
            assert [job.crashes for job in await driver.jobs.rescue()] == [1]

    async def test_looking_waits_for_nobody(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with opened(tmp_path / "i.db", clock) as driver:
            job_id = await driver.add(lane="l")
            with closing(sqlite3.connect(tmp_path / "i.db", isolation_level=None)) as other:
                other.execute("begin immediate")
                view = await driver.view(job_id)
                assert (await driver.situation(job_id)).job == view
                assert (await driver.lane()).head == job_id
                assert (await driver.queue()).ready == 1


class TestMemory:
    def test_a_named_store_is_one_from_any_loop_and_thread(self) -> None:
        store = from_url("memory://jobs-from-any-loop", settings=Settings())

        async def add() -> int:
            await store.sessions.begin(SessionCard("a", "host", 7, "test"), 1000.0)
            (number,) = await store.jobs.ids(1)
            await store.jobs.enqueue([new_job(number)])
            return number

        async def take() -> Sequence[int]:
            batch = await store.jobs.fetch(APPETITE)
            assert isinstance(batch, FetchResult)
            return [job.id for job in batch.jobs]

        added = asyncio.run(add())
        taken = asyncio.run(asyncio.wait_for(asyncio.to_thread(lambda: asyncio.run(take())), 10))
        assert taken == [added]

    async def test_the_same_steps_give_the_same_answers(self) -> None:
        assert await self._story() == await self._story()

    async def _story(self) -> list[Any]:
        clock = VirtualClock()
        store = from_url("memory://", settings=Settings(), clock=clock)
        driver = JobDriver(store, clock)
        await driver.begin("a", "b")
        told: list[Any] = []
        driver.jobs.on_ready(("q",), lambda: told.append(len(told)))
        for number in range(12):
            await driver.add(lane=f"l{number % 4}", uses=(slots(2, f"k{number % 3}"), pace(3, 5.0, "p")))
        for _ in range(4):
            for job in await driver.every("a", run=3):
                told.append((job.id, job.fence))
                await driver.end(job, Outcome.RETRY if job.id % 3 else Outcome.DONE, delay=1.0)
            await driver.let_pass(3.0, "a", "b")
        return told
