"""Synchronous calls: from any thread, beside asynchronous code, on every store."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Claims, Jobs, JobState, Limits, Locks, Rate, Slots, current_job
from interlock.errors import (
    DeadlockError,
    InvalidArgumentError,
    JobFailedError,
    JobTimeoutError,
    LeaseLostError,
    LimitTimeoutError,
    LockTimeoutError,
    MisuseError,
    NotFoundError,
    StoreUnavailableError,
)
from interlock.jobs import Retry
from interlock.testing.clock import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from interlock.sync import SyncHandle

stores = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


def eventually(condition: Callable[[], bool], what: str, within: float = 10.0) -> None:
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, what
        time.sleep(0.005)


def background_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "interlock-sync"]


@contextlib.contextmanager
def closing(app: App) -> Iterator[App]:
    try:
        yield app
    finally:
        app.sync.close()


@pytest.fixture
def app() -> Iterator[App]:
    with closing(App("memory://")) as app:
        yield app


# -- jobs --------------------------------------------------------------------------------------------------------------


@stores
def test_jobs_are_enqueued_awaited_and_operated_on(store_url: str) -> None:
    with closing(App(store_url)) as app:

        @app.job()
        async def report(account: str, target: int = 0) -> str:
            current_job().log("reporting %s", account)
            current_job().progress(0.5)
            return f"{account} {target}"

        @app.job(retry=Retry.NEVER)
        def fail() -> None:
            raise ValueError("too big")

        handle = report.enqueue_sync(account="a1", target=9)
        delayed = report.options(delay=3600).enqueue_sync("later")
        many = app.sync.jobs.enqueue_many([report.call("b"), report.call("c", 3)])
        pair = app.sync.jobs.enqueue_many((report.call("d"), fail.call()))
        named: SyncHandle[Any] = app.sync.jobs.enqueue("report", account="e")

        assert handle.status().state is JobState.READY
        with pytest.raises(JobTimeoutError):
            handle.result(wait=0.01)
        app.sync.run(app.drain)
        assert handle.result(wait=5) == "a1 9"
        assert [one.result() for one in many] == ["b 0", "c 3"]
        assert (pair[0].result(), named.result()) == ("d 0", "e 0")
        with pytest.raises(JobFailedError, match="too big"):
            pair[1].result()
        assert app.sync.jobs.get(handle).state is JobState.DONE
        assert app.sync.jobs.handle(handle.id).result() == "a1 9"
        assert [line.text for line in handle.logs()] == ["reporting a1"]
        assert handle.progress() is not None
        assert [view.id for view in app.sync.jobs.list(JobState.SCHEDULED)] == [delayed.id]
        assert "enqueued for later" in str(app.sync.jobs.explain(delayed))
        assert app.sync.jobs.cancel(delayed, by="ann", reason="late") is JobState.CANCELLED
        assert app.sync.jobs.retry(delayed, by="ann") is JobState.READY
        assert app.sync.jobs.matching(JobState.FAILED) == [pair[1].id]
        assert app.sync.jobs.retry_all(JobState.FAILED, by="ann").changed == (pair[1].id,)
        assert app.sync.jobs.cancel_all(JobState.READY, by="ann", reason="all").changed == tuple(
            sorted([delayed.id, pair[1].id])
        )
        with pytest.raises(InvalidArgumentError):
            report.enqueue_sync()  # type: ignore[call-arg]
        with pytest.raises(NotFoundError):
            app.sync.jobs.get(10**12)
        assert app.sync.run(app.lanes.release, "none", by="ann") is False


def test_a_job_in_the_transaction_of_a_synchronous_connection_needs_no_open_app(tmp_path: Path) -> None:
    with closing(App(f"sqlite:///{tmp_path}/interlock.db")) as app:

        @app.job()
        async def report(account: str) -> str:
            return account

        report.enqueue_sync("creates the tables")
        app.sync.close()
        with contextlib.closing(sqlite3.connect(tmp_path / "interlock.db")) as connection:
            committed = report.enqueue_sync("a", connection=connection)
            many = app.sync.jobs.enqueue_many([report.call("b"), report.call("c")], connection=connection)
            named: SyncHandle[Any] = app.sync.jobs.enqueue(report.options(connection=connection).call("d"))
            assert not background_threads()
            connection.commit()
            rolled_back = report.enqueue_sync("e", connection=connection)
            connection.rollback()

        app.sync.run(app.drain)
        assert [handle.result(wait=5) for handle in (committed, *many, named)] == ["a", "b", "c", "d"]
        with pytest.raises(NotFoundError, match="rolled back"):
            rolled_back.result(wait=5)


@stores
def test_jobs_of_sixteen_threads_are_there_once(store_url: str) -> None:
    with closing(App(store_url)) as app:

        @app.job()
        async def count(number: int) -> None: ...

        def enqueue(thread: int) -> list[int]:
            return [count.enqueue_sync(thread * 100 + number).id for number in range(12)]

        with ThreadPoolExecutor(16) as threads:
            ids = [job for jobs in threads.map(enqueue, range(16)) for job in jobs]

        views = app.sync.jobs.list(name="count", limit=1000)
        assert len(views) == len(ids) == 16 * 12
        assert {view.id for view in views} == set(ids)
        assert len(background_threads()) == 1


@stores
def test_a_plain_handler_uses_the_session_of_its_worker(store_url: str) -> None:
    app = App(store_url)
    sessions: list[int] = []

    @app.job()
    def child(number: int) -> int:
        return number + 1

    @app.job(lane="parents")
    def parent(number: int) -> int:
        with app.sync.locks.acquire("shared", wait=5) as lease:
            lease.ensure()
            holder = app.sync.locks.get("shared").holder
            assert holder is not None
            sessions.append(len({holder.owner.partition(".")[0], current_job_session()}))
            with pytest.raises(DeadlockError):
                app.sync.locks.acquire("shared", wait=5)
        behind = parent.enqueue_sync(1)
        with pytest.raises(DeadlockError, match="behind"):
            behind.result(wait=5)
        app.sync.jobs.cancel(behind, by="ann", reason="never")
        return child.enqueue_sync(number).result(wait=10)

    def current_job_session() -> str:
        return app.jobs._opened.session.id

    async def main() -> int:
        async with app, app.worker():
            return await (await parent.enqueue(1)).result(wait=20)

    assert asyncio.run(main()) == 2
    assert sessions == [1]
    assert not background_threads()


# -- leases ------------------------------------------------------------------------------------------------------------


def test_locks_claims_and_limits_on_every_store(every_store_url: str) -> None:
    with closing(App(every_store_url)) as app:
        locks, claims, limits = app.sync.locks, app.sync.claims, app.sync.limits

        with locks.acquire("k", wait=5) as first:
            first.ensure()
            assert locks.try_acquire("k") is None
            assert [view.key for view in locks.list()] == ["k"]
            assert "k" in str(locks.explain("k"))
        with pytest.raises(NotFoundError):
            locks.get("k")
        second = locks.acquire("k")
        assert second.fence > first.fence
        with pytest.raises(MisuseError, match="already in a block"), second, second:
            pass
        with locks.acquire_many(["b", "a", "b"], wait=5) as leases:
            assert list(leases) == ["a", "b"]
            with pytest.raises(LockTimeoutError), ThreadPoolExecutor(1) as other:
                other.submit(locks.acquire_many, ["c", "a"], wait=0.05).result()
        assert not locks.list()
        locks.acquire_many(["a", "b"]).release()
        assert not locks.list()

        with claims.claim("c") as claim:
            assert claim.new
            claim.result = {"n": 1}
        again = claims.claim("c")
        assert (again.new, again.result) == (False, {"n": 1})
        with pytest.raises(ValueError, match="broken"), claims.claim("d", retry_in=60):
            raise ValueError("broken")
        assert "broken" in claims.claim("d").error
        by_hand = claims.claim("e")
        by_hand.ensure()
        by_hand.done(5)
        assert claims.get("e").result == 5
        assert claims.forget("e", by="ann", reason="again") is not None
        assert claims.claim("e").new

        with limits.acquire(Slots("s", 1)) as turn:
            turn.ensure()
            with pytest.raises(LimitTimeoutError):
                limits.acquire(Slots("s", 1), wait=0.01)
            waiting = limits.reserve(Slots("s", 1))
            assert not waiting.started
            assert (waiting.waits_for, waiting.start()) == ("slots:s", False)
            waiting.finish()
            assert limits.get("slots:s").key == "slots:s"
        assert limits.reserve(Rate("r", 1, per=60)).starts_at is not None


@pytest.mark.parametrize("every_store_url", ["memory", "sqlite"], indirect=True)
def test_each_concept_works_alone(every_store_url: str) -> None:
    with Locks.from_url(every_store_url).sync.acquire("k") as lease:
        lease.ensure()
    with Claims.from_url(every_store_url).sync.claim("k") as claim:
        assert claim.new
    with Limits.from_url(every_store_url).sync.acquire(Slots("s", 1)) as turn:
        assert turn.started
    jobs = Jobs.from_url(every_store_url)

    @jobs.job()
    def one() -> int:
        return 1

    assert one.enqueue_sync().id
    for concept in (Locks, Claims, Limits, Jobs):
        assert concept  # their background threads end with the program
    for portal in [*_open_portals()]:
        portal.close()
    assert not background_threads()


def _open_portals() -> list[Any]:
    from interlock import portal

    return [*portal._open_portals]


@stores
def test_a_lost_lease_is_noticed_by_ensure_and_at_the_end_of_the_block(store_url: str) -> None:
    with closing(App(store_url)) as app:
        with pytest.raises(LeaseLostError, match="audit"), app.sync.locks.acquire("k") as lease:  # noqa: PT012
            app.sync.locks.force_release("k", by="ann", reason="audit")
            eventually(lambda: lease.lost, "the holder hears of it")
            with pytest.raises(LeaseLostError):
                lease.ensure()
        app.sync.locks.acquire("k", wait=5).release()


def test_a_deadlock_of_two_threads_is_found(app: App) -> None:
    barrier, errors = threading.Barrier(2), []

    def take(first: str, second: str) -> None:
        with app.sync.locks.acquire(first):
            barrier.wait(10)
            try:
                app.sync.locks.acquire(second, wait=30).release()
            except DeadlockError as error:
                errors.append(error)

    threads = [threading.Thread(target=take, args=keys, name=f"taker-{keys[0]}") for keys in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(errors) == 1
    assert "taker-a" in str(errors[0].cycle)
    assert "taker-b" in str(errors[0].cycle)


def test_an_interrupted_caller_leaves_nothing_behind(app: App) -> None:
    class Interrupted(BaseException): ...

    def interrupt(*_: object) -> None:
        raise Interrupted

    with ThreadPoolExecutor(1) as other:
        lease = other.submit(app.sync.locks.acquire, "k").result()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupted):
            app.sync.locks.acquire("k", wait=30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    eventually(lambda: not app.sync.locks.get("k").waiters, "the waiter has left the queue")
    lease.release()
    assert not app.sync.locks.list()


def test_a_result_that_comes_after_the_interruption_is_undone(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock import portal

    wait = portal._Call.wait

    def interrupted(self: Any, loop: Any, until: float | None = None) -> Any:
        wait(self, loop, until)
        loop.call_soon_threadsafe(self._abandon)
        raise KeyboardInterrupt

    app.sync.locks.list()
    monkeypatch.setattr(portal._Call, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        app.sync.locks.acquire("k")
    monkeypatch.undo()

    eventually(lambda: not app.sync.locks.list(), "the lock was released")


# -- beside asynchronous code ------------------------------------------------------------------------------------------


async def test_a_call_on_a_running_event_loop_is_refused(app: App) -> None:
    @app.job()
    async def report(account: str) -> None: ...

    with pytest.raises(MisuseError, match=r"report\.enqueue_sync\(\) was called on the thread.+await report\.enqueue"):
        report.enqueue_sync("a")
    with pytest.raises(MisuseError, match=r"async with app\.locks\.acquire"):
        app.sync.locks.acquire("k")
    assert not background_threads()


def test_an_app_is_not_closed_on_its_own_event_loop(app: App) -> None:
    async def close() -> None:
        app.sync.close()

    with pytest.raises(MisuseError, match="cannot be closed on its own event loop"):
        app.sync.run(close)
    assert app.sync.jobs.list() == []


@stores
def test_an_app_is_used_by_synchronous_and_asynchronous_code_in_turn(store_url: str) -> None:
    with closing(App(store_url)) as app:

        @app.job()
        async def add(number: int) -> int:
            return number + 1

        before = add.enqueue_sync(1)

        async def main() -> int:
            async with app:
                assert not background_threads(), "one session, on this event loop"
                inside = await asyncio.to_thread(add.enqueue_sync, 2)
                await app.drain()
                return await asyncio.to_thread(inside.result)

        assert asyncio.run(main()) == 3
        assert before.result() == 2
        assert add.enqueue_sync(3).status().state is JobState.READY


def test_an_app_whose_leases_synchronous_code_holds_is_not_taken_from_it(app: App) -> None:
    async def main() -> None:
        async with app:
            pass

    with app.sync.locks.acquire("k") as lease:
        with pytest.raises(MisuseError, match="in use by synchronous code"):
            asyncio.run(main())
        lease.ensure()
    asyncio.run(main())


def test_a_call_says_that_the_app_was_closed_meanwhile() -> None:
    app = App("memory://")

    @app.job()
    async def never() -> None: ...

    async def main() -> None:
        async with app:
            handle = await asyncio.to_thread(never.enqueue_sync)
            waiting = asyncio.get_running_loop().run_in_executor(None, lambda: handle.result(wait=60))
            await until(lambda: any("sync" in task.get_name() for task in asyncio.all_tasks()), what="it waits")
        with pytest.raises(MisuseError, match="closed"):
            await waiting

    asyncio.run(main())


def test_an_event_loop_that_does_not_run_is_named() -> None:
    app = App("memory://")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.__aenter__())
    try:
        with pytest.raises(MisuseError, match="not running"):
            app.sync.locks.list()
    finally:
        loop.run_until_complete(app.__aexit__(None, None, None))
        loop.close()


def test_a_store_that_cannot_be_reached_is_tried_again_by_the_next_call() -> None:
    app = App("postgresql://nobody@127.0.0.1:1/none", store_wait=0.1)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            app.sync.locks.list()
    assert not background_threads()


def test_the_lifespan_is_for_handlers_and_not_for_callers() -> None:
    entered: list[str] = []

    async def lifespan(app: App) -> AsyncIterator[None]:
        entered.append("entered")
        yield

    with closing(App("memory://", lifespan=lifespan)) as app:
        app.sync.locks.list()

        async def main() -> None:
            async with app:
                await asyncio.to_thread(app.sync.locks.list)

        assert not entered
        asyncio.run(main())
    assert entered == ["entered"]


def test_closing_cancels_calls_that_wait_and_the_next_call_opens_again(app: App) -> None:
    @app.job()
    async def never() -> None: ...

    handle, errors = never.enqueue_sync(), []

    def wait() -> None:
        try:
            handle.result(wait=60)
        except MisuseError as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    eventually(lambda: any(call.waits for call in app.portal._calls), "it waits")
    app.sync.close()
    waiter.join(10)

    assert len(errors) == 1
    assert not background_threads()
    assert never.enqueue_sync().id > handle.id


def test_threads_that_close_at_the_same_time_end_the_background_thread_once(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    for _ in range(50):
        assert app.sync.jobs.list() == []
        closers = [threading.Thread(target=app.sync.close) for _ in range(3)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()

    assert not failures
    assert not background_threads()
