"""Bugs planted in the limit that jobs and reservations share are found by the conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

import interlock.backends.postgres
from interlock.backends import from_url
from interlock.backends.memory.limits import MemoryLimits
from interlock.settings import Settings
from interlock.testing.conformance.jobs.shared_limits import SharedLimitConformance
from tests.databases import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.full
FUNCTIONS = Path(interlock.backends.postgres.__file__).parent / "functions"
MEMORY: dict[str, tuple[str, Any]] = {
    "fetches do not count reservations": ("side", lambda *_: None),
    "reservations do not count jobs": ("_jobs_on", lambda *_: None),
    "the end of a reservation wakes no job": ("_wake_jobs", lambda *_: None),
    "the figure that a person set is ignored": ("override", lambda *_: None),
}
POSTGRES = {
    "fetches take slots without looking at the flag": ("job_take_slots", "and not l.special ", ""),
    "reservations do not count jobs": ("limit_jobs", "if k.taken > 0 then", "if false then"),
    "reservations do not mark the key": ("limit_lock", "and not l.shared", "and false"),
    "the end of a reservation wakes no job": ("limit_wake_jobs", "if awaited <> '{}'", "if false"),
    "starts of jobs do not count for reservations": (
        "limit_fit",
        "from interlock.job_limit_start s",
        "from interlock.limit_start s",
    ),
    "the flag is cleared while starts still count": (
        "job_limit_reserved",
        "and not exists (select from interlock.limit_start s where s.namespace = p_namespace and s.key = p_key)",
        "",
    ),
    "fetches do not keep slots for reservations": ("job_limit_blocked", "r.ticket < last", "false"),
    "a resized limit is not applied to rows that exist": (
        "limit_resize",
        "set override_count = x.max_count, override_per = x.per,",
        "set",
    ),
}
STEPS = (
    "test_jobs_get_only_the_slots_that_reservations_leave",
    "test_reservations_get_only_the_slots_that_jobs_leave",
    "test_a_finished_reservation_makes_the_first_waiting_job_ready",
    "test_both_sides_are_served_in_the_order_in_which_they_asked",
    "test_a_reservation_starts_the_cooldown_of_jobs",
    "test_a_job_starts_the_cooldown_of_reservations",
    "test_starts_of_a_dead_session_count_for_jobs",
    "test_more_slots_let_waiters_of_both_sides_start_at_once",
    "test_fewer_slots_than_are_held_block_only_newcomers",
)


async def failing(url: str) -> list[str]:
    """The tests of the suite that fail."""
    failed = []
    for name in STEPS:
        suite = SharedLimitConformance()
        try:
            await getattr(suite, name)(url)
        except AssertionError:
            failed.append(name)
    return failed


async def test_nothing_is_found_without_a_bug(database: str) -> None:
    assert await failing("memory://") == []
    assert await failing(database) == []


@pytest.mark.parametrize("bug", MEMORY)
async def test_a_bug_in_memory_is_found(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    monkeypatch.setattr(MemoryLimits, *MEMORY[bug])

    assert await failing("memory://")


@pytest.fixture(scope="module")
def database(interlock_postgres_server: Any) -> Iterator[str]:
    for name in new_database(interlock_postgres_server):
        yield interlock_postgres_server.url(name)


@pytest.mark.parametrize("bug", POSTGRES)
async def test_a_bug_in_postgresql_is_found(database: str, bug: str) -> None:
    function, right, wrong = POSTGRES[bug]
    (file,) = FUNCTIONS.rglob(f"{function}.sql")
    text = file.read_text("utf-8")
    assert right in text, f"{function} is not what it was"
    store = from_url(database, settings=Settings())
    await store.open()
    await store.close()
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(text.replace(right, wrong))
        assert await failing(database)
        await connection.execute(text)
    finally:
        await connection.close()
