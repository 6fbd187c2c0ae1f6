"""Enqueuing on a caller's own connection: the job exists if and when the caller's transaction commits."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from interlock.connections import run_steps, run_steps_blocking
from interlock.errors import CapabilityError
from interlock.ports.jobs import JobState, OnFailure
from interlock.testing.conformance.jobs.driver import JobSuite, near, new_job, pace, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from interlock.testing.conformance.jobs.driver import JobDriver

__all__ = ["TransactionConformance"]


class _Transaction(NamedTuple):
    enqueue: Callable[..., Awaitable[list[int]]]
    """Takes the changes of each job."""
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


@asynccontextmanager
async def _transaction(b: JobDriver, store_url: str) -> AsyncIterator[_Transaction]:
    """A transaction of a connection that is none of the store's."""
    if store_url.startswith("sqlite"):
        own = sqlite3.connect("/" + store_url.removeprefix("sqlite:///").lstrip("/"))

        async def enqueue(*changes: dict[str, Any]) -> list[int]:
            steps = b.jobs.enqueue_in_transaction([new_job(0, **each) for each in changes])
            return list(run_steps_blocking(own, steps).ids)

        try:
            yield _Transaction(enqueue, own.commit, own.rollback)
        finally:
            own.close()
        return
    import asyncpg

    connection = await asyncpg.connect(store_url)

    async def enqueue_here(*changes: dict[str, Any]) -> list[int]:
        steps = b.jobs.enqueue_in_transaction([new_job(0, **each) for each in changes])
        return list((await run_steps(connection, steps)).ids)

    try:
        transaction = connection.transaction()
        await transaction.start()
        yield _Transaction(enqueue_here, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


async def _done(result: Any) -> None:
    if result is not None:
        await result


class TransactionConformance(JobSuite):
    """A caller's transaction decides whether its jobs exist. The memory store says that it has no database."""

    async def test_jobs_exist_if_and_when_the_callers_transaction_commits(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            if store_url.startswith("memory"):
                with pytest.raises(CapabilityError):
                    next(b.jobs.enqueue_in_transaction([new_job(0)]))
                return
            async with _transaction(b, store_url) as transaction:
                lost = await transaction.enqueue({}, {"lane": "l"})
                await _done(transaction.rollback())
            assert not (await b.batch()).jobs
            async with _transaction(b, store_url) as transaction:
                kept = await transaction.enqueue({"lane": "l"}, {"lane": "l"}, {"delay": 60.0}, {"uses": (slots(1),)})
                await _done(transaction.commit())

            assert len({*kept}) == 4
            assert len(lost) == 2
            states = [await b.state(job_id) for job_id in kept]
            assert states == [JobState.READY, JobState.BEHIND, JobState.SCHEDULED, JobState.READY]
            assert sorted(job.id for job in (await b.batch()).jobs) == [kept[0], kept[3]]

    async def test_a_job_of_a_callers_transaction_is_found_as_it_was_given(self, store_url: str) -> None:
        if store_url.startswith("memory"):
            pytest.skip("the memory store has no database that a connection could lead to")
        async with self.job_driver(store_url) as b:
            uses = (pace(3, 10.5, "p"), slots(2, "s"))
            given: dict[str, Any] = {
                "name": "report",
                "queue": "mail",
                "lane": "acme/api#7 — é",
                "priority": 80,
                "uses": uses,
                "arguments": '{"名前": "Zoë 🦀 \\u0000 % $1 ? %s"}',
                "options": '{"timeout": 5}',
                "cause": "job:7",
            }
            async with _transaction(b, store_url) as transaction:
                (job_id,) = await transaction.enqueue({**given, "on_failure": OnFailure.PARK})
                await _done(transaction.commit())
            view = await b.view(job_id)

            assert {name: getattr(view, name) for name in given} == given
            assert view.enqueued_at == view.due_at == near(b.now)
