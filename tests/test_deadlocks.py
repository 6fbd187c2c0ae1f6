"""Deadlocks are recognized wherever they come from, and functions run again after one, a bounded number of times."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from prometheus_client import CollectorRegistry

from interlock import Locks
from interlock.deadlocks import is_deadlock_error, retry_on_deadlock
from interlock.errors import DeadlockError, InvalidArgumentError, MisuseError, StoreUnavailableError
from interlock.telemetry.metrics import PROCESS_DEADLOCKS, DeadlockCounts
from interlock.testing.simulator.loop import SeededLoop

if TYPE_CHECKING:
    from collections.abc import Callable

# -- recognizing ------------------------------------------------------------------------------------------------------


class DatabaseError(Exception):
    """A driver's error without a code, as PEP 249 names it."""


class OperationalError(DatabaseError):
    pass


class WrappedError(Exception):
    def __init__(self, orig: BaseException | None) -> None:
        super().__init__(f"({type(orig).__name__}) {orig}")
        self.orig = orig


class CodedError(DatabaseError):
    def __init__(self, text: str, pgcode: str | None) -> None:
        super().__init__(text)
        self.pgcode = pgcode


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


REAL = asyncpg.DeadlockDetectedError("deadlock detected")
RECOGNIZED = {
    "wait-graph": DeadlockError("a waits for b", cycle=["a waits for b"]),
    "asyncpg": REAL,
    "psycopg": psycopg.errors.DeadlockDetected("Verklemmung entdeckt"),
    "psycopg2": CodedError("Verklemmung entdeckt", "40P01"),
    "sqlalchemy": WrappedError(REAL),
    "sqlalchemy-asyncpg": WrappedError(caused(DatabaseError("<class 'asyncpg...'>: Verklemmung"), REAL)),
    "django": caused(OperationalError("Verklemmung entdeckt"), psycopg.errors.DeadlockDetected()),
    "interlock": caused(StoreUnavailableError("PostgreSQL is not available."), REAL),
    "message": OperationalError("ERROR: deadlock detected"),
    "code-in-message": OperationalError("{'S': 'ERROR', 'C': '40P01'}"),
    "group": ExceptionGroup("tasks", [REAL, ExceptionGroup("more", [DeadlockError("x")])]),
}
OTHERS = {
    "lock-timeout": asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
    "serialization": psycopg.errors.SerializationFailure("could not serialize access"),
    "code-before-message": CodedError("a trigger said: deadlock detected", "P0001"),
    "nobody's": ValueError("deadlock detected"),
    "sqlite": sqlite3.OperationalError("database is locked"),
    "mixed-group": ExceptionGroup("tasks", [REAL, KeyError("x")]),
    "no-orig": WrappedError(None),
    "timeout": TimeoutError(),
}


@pytest.mark.parametrize("name", RECOGNIZED)
def test_a_deadlock_is_recognized_by_code_before_message(name: str) -> None:
    assert is_deadlock_error(RECOGNIZED[name])


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_else_is_a_deadlock(name: str) -> None:
    assert not is_deadlock_error(OTHERS[name])


def test_a_cycle_of_causes_ends() -> None:
    one, two = KeyError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one

    assert not is_deadlock_error(one)


def test_the_context_of_an_error_is_not_its_cause() -> None:
    def fail() -> None:
        try:
            raise REAL
        except asyncpg.DeadlockDetectedError:
            raise KeyError("cleaning up failed")  # noqa: B904

    with pytest.raises(KeyError) as caught:
        fail()
    assert not is_deadlock_error(caught.value)


# -- retrying ---------------------------------------------------------------------------------------------------------


def fails(times: int, error: Exception = REAL) -> Callable[..., Any]:
    """Return a function that fails the given number of times, then returns how often it was called."""
    calls = 0

    def work() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error
        return calls

    return work


def run_seeded(work: Callable[[], Any], seed: int = 7) -> tuple[Any, float]:
    """Run a coroutine function on a loop with virtual time; return its result and how long it took."""
    loop = SeededLoop(seed)
    try:
        return loop.run_until_complete(work()), loop.time()
    finally:
        loop.close()


def retries(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [getattr(record, "fields") for record in caplog.records if getattr(record, "event", "") == "deadlock_retry"]  # noqa: B009


def test_delays_double_up_to_their_maximum_and_each_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    failing = fails(6)

    @retry_on_deadlock(max_retries=7, base_delay=0.1, max_delay=2.0, jitter=0)
    async def work() -> int:
        return int(failing())

    begun = time.monotonic()
    with caplog.at_level(logging.WARNING):
        result, seconds = run_seeded(work)

    assert result == 7
    assert seconds == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 2.0)
    assert time.monotonic() - begun < 1, "virtual time"
    logged = retries(caplog)
    assert [fields["attempt"] for fields in logged] == [1, 2, 3, 4, 5, 6]
    assert [fields["delay"] for fields in logged] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert all(fields["max_retries"] == 7 and fields["error"] == "deadlock detected" for fields in logged)
    assert logged[0]["function"].endswith("work")


def test_jitter_spreads_the_delays_around_their_base(caplog: pytest.LogCaptureFixture) -> None:
    random.seed(11)
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            failing = fails(2)

            @retry_on_deadlock()
            async def work(failing: Callable[[], int] = failing) -> int:
                return failing()

            run_seeded(work)

    first = [fields["delay"] for fields in retries(caplog) if fields["attempt"] == 1]
    second = [fields["delay"] for fields in retries(caplog) if fields["attempt"] == 2]
    for base, delays in ((0.1, first), (0.2, second)):
        assert len(delays) == 200
        assert base - 0.05 <= min(delays) < base - 0.04
        assert base + 0.04 < max(delays) <= base + 0.05


def test_a_delay_is_never_negative(caplog: pytest.LogCaptureFixture) -> None:
    failing = fails(9)

    @retry_on_deadlock(max_retries=10, base_delay=0.001, max_delay=0.001, jitter=0.1)
    async def work() -> int:
        return int(failing())

    with caplog.at_level(logging.WARNING):
        run_seeded(work)

    assert 0.0 in {fields["delay"] for fields in retries(caplog)}
    assert min(fields["delay"] for fields in retries(caplog)) == 0.0


@pytest.mark.parametrize("asynchronous", [True, False])
def test_max_retries_counts_attempts_and_giving_up_says_after_how_many(asynchronous: bool) -> None:
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise REAL

    @retry_on_deadlock(max_retries=3, jitter=0)
    async def fail_async() -> None:
        fail()

    def run() -> None:
        run_seeded(fail_async) if asynchronous else retry_on_deadlock(max_retries=3, base_delay=0, jitter=0)(fail)()

    with pytest.raises(DeadlockError, match=r"^Operation failed after 3 deadlock retries\. ") as caught:
        run()

    assert calls == 3
    assert caught.value.deadlock_info == {"max_retries": 3, "last_error": "deadlock detected"}
    assert caught.value.cycle == ()
    assert caught.value.__cause__ is REAL


def test_other_errors_are_not_retried() -> None:
    failing = fails(1, KeyError("x"))
    retried = retry_on_deadlock()(failing)

    with pytest.raises(KeyError):
        retried()
    assert retried() == 2


def test_a_plain_function_keeps_its_name_arguments_and_result() -> None:
    failing = fails(1)

    @retry_on_deadlock(base_delay=0, jitter=0)
    def add(one: int, *, other: int) -> int:
        """Add."""
        failing()
        return one + other

    assert add(1, other=2) == 3
    assert add.__name__ == "add"
    assert add.__doc__ == "Add."


async def test_methods_partials_and_callable_objects_are_retried() -> None:
    class Worker:
        def __init__(self) -> None:
            self.failing = fails(1)

        @retry_on_deadlock(base_delay=0, jitter=0)
        async def method(self, value: int) -> int:
            self.failing()
            return value

        async def __call__(self, value: int) -> int:
            self.failing()
            return value

    retrying = retry_on_deadlock(base_delay=0, jitter=0)
    assert await Worker().method(1) == 1
    assert await retrying(Worker())(2) == 2
    assert await retrying(functools.partial(Worker().__call__, 3))() == 3


async def test_a_cancelled_delay_ends_at_once() -> None:
    failed = asyncio.Event()

    @retry_on_deadlock(base_delay=60)
    async def work() -> None:
        failed.set()
        raise REAL

    task = asyncio.create_task(work())
    await failed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


def test_what_cannot_be_retried_is_refused() -> None:
    def generate() -> Any:
        yield 1

    for wrong in (0, -1, True, 1.5, generate):
        with pytest.raises(InvalidArgumentError, match="max_retries"):
            retry_on_deadlock(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="base_delay"):
        retry_on_deadlock(base_delay=float("nan"))
    with pytest.raises(InvalidArgumentError, match="generator"):
        retry_on_deadlock()(generate)

    async def work() -> None: ...

    with pytest.raises(MisuseError, match="async def"):
        retry_on_deadlock()(lambda: work())()


def test_deadlocks_of_databases_are_counted_in_the_process_or_where_asked() -> None:
    detections, retried = PROCESS_DEADLOCKS.detections, PROCESS_DEADLOCKS.retries
    retry_on_deadlock(base_delay=0, jitter=0)(fails(2))()
    assert (PROCESS_DEADLOCKS.detections, PROCESS_DEADLOCKS.retries) == (detections + 2, retried + 2)

    counts = DeadlockCounts()
    retry_on_deadlock(base_delay=0, jitter=0, counts=lambda: counts)(fails(1))()
    retry_on_deadlock(base_delay=0, jitter=0, counts=lambda: counts)(fails(1, DeadlockError("x")))()
    assert (counts.detections, counts.retries) == (1, 2), "the wait graph counts its own detections"


# -- locks ------------------------------------------------------------------------------------------------------------


async def test_locks_in_opposite_orders_are_both_taken_in_under_a_second(store_url: str) -> None:
    async with Locks.from_url(store_url) as locks:
        both_hold = asyncio.Barrier(2)
        done: list[str] = []
        first_time = {"x", "y"}

        @locks.retry_on_deadlock()
        async def move(source: str, target: str) -> None:
            async with locks.acquire(source):
                if source in first_time:
                    first_time.remove(source)
                    await both_hold.wait()
                async with locks.acquire(target):
                    done.append(source)

        async with asyncio.timeout(1):
            await asyncio.gather(move("x", "y"), move("y", "x"))

        assert sorted(done) == ["x", "y"]
        assert locks.metrics.deadlocks.retries >= 1
        assert locks.metrics.outcomes["deadlock"] == locks.metrics.deadlocks.retries
        registry = CollectorRegistry()
        registry.register(locks.metrics)
        for name in ("detections", "retries"):
            assert registry.get_sample_value(f"interlock_deadlock_{name}_total") >= 1  # type: ignore[operator]


async def test_a_lock_that_is_never_free_names_its_cycle() -> None:
    async with Locks.from_url("memory://") as locks:

        @locks.retry_on_deadlock(max_retries=2, base_delay=0.001, jitter=0)
        async def stuck() -> None:
            async with locks.acquire("key"), locks.acquire("key"):
                pass

        with pytest.raises(DeadlockError, match="after 2 deadlock retries") as caught:
            await stuck()

        assert len(caught.value.cycle) == 1
        assert caught.value.deadlock_info["cycle"] == caught.value.cycle
        assert caught.value.deadlock_info["max_retries"] == 2
        assert "'key'" in str(caught.value.deadlock_info["last_error"])


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def accounts(complete_postgres_url: str) -> str:
    """The URL of a database with a table of two rows that belong to the test."""
    connection = await asyncpg.connect(complete_postgres_url)
    try:
        assert await connection.fetchval("show deadlock_timeout") == "1s", "the server's settings are its defaults"
        await connection.execute("create table accounts (id int primary key, balance int not null)")
        await connection.execute("insert into accounts values (1, 0), (2, 0)")
    finally:
        await connection.close()
    return complete_postgres_url


ADD = "update accounts set balance = balance + 1 where id = {}"


async def test_a_deadlock_of_asyncpg_connections_is_retried(accounts: str) -> None:
    both_hold = asyncio.Barrier(2)
    attempts: list[int] = []

    @retry_on_deadlock()
    async def add(first: int, second: int) -> None:
        attempts.append(first)
        connection = await asyncpg.connect(accounts)
        try:
            async with connection.transaction():
                await connection.execute(ADD.format("$1"), first)
                if attempts.count(first) == 1:
                    await both_hold.wait()
                await connection.execute(ADD.format("$1"), second)
        finally:
            await connection.close()

    begun = time.monotonic()
    async with asyncio.timeout(30):
        await asyncio.gather(add(1, 2), add(2, 1))
    seconds = time.monotonic() - begun

    assert await balances(accounts) == [2, 2]
    assert len(attempts) == 3, "one of the two was tried again"
    assert 1 <= seconds < 5, "deadlock_timeout (1 s), plus the retry"


async def test_a_deadlock_of_psycopg_connections_in_threads_is_retried(accounts: str) -> None:
    both_hold = threading.Barrier(2, timeout=30)
    attempts: list[int] = []

    @retry_on_deadlock()
    def add(first: int, second: int) -> None:
        attempts.append(first)
        with psycopg.connect(accounts) as connection:
            connection.execute(ADD.format("%s"), (first,))
            if attempts.count(first) == 1:
                both_hold.wait()
            connection.execute(ADD.format("%s"), (second,))

    async with asyncio.timeout(30):
        await asyncio.gather(asyncio.to_thread(add, 1, 2), asyncio.to_thread(add, 2, 1))

    assert await balances(accounts) == [2, 2]
    assert len(attempts) == 3


async def balances(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return [row["balance"] for row in await connection.fetch("select balance from accounts order by id")]
    finally:
        await connection.close()
