# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What a type checker sees of jobs. Checked by `make lint`: each comment below that ignores an error is needed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, assert_type

from interlock import INJECTED, App, Handle, JobEnd, Jobs, JobState, Retry, Slots, current_job
from interlock.jobs import Cause, CurrentJob, JobView, LaneView, QueueView, Reason
from interlock.sync import SyncHandle, SyncLease

app = App("memory://")
own = sqlite3.connect(":memory:")
jobs = Jobs.from_url("memory://")


@app.job(lane="{account}#{target}", limits=[Slots("one", 1)], retry=Retry.NEVER, timeout=5, on_failure="skip")
async def report(account: str, target: int = 5) -> str:
    return f"{account} {target}"


@jobs.job()
def plain(number: int) -> list[int]:
    return [number]


class Client:
    """A resource."""


@app.lifespan
async def lifespan(_: App) -> AsyncIterator[dict[type, object]]:
    yield {Client: Client()}


@app.middleware
async def around(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
    assert_type(job.cause, Cause | None)
    return await call_next()


@app.job()
async def fetch(url: str, client: Client = INJECTED) -> int:
    assert_type(client, Client)
    current_job().follow_up(report.call("a"))
    return len(url)


@fetch.on_end("failed", JobState.CANCELLED, queue="hooks")
async def ended(end: JobEnd, client: Client = INJECTED) -> None:
    assert_type(end.state, JobState)
    assert_type(end.ended_at, datetime)


async def around_handlers() -> None:
    assert_type(await fetch.enqueue("u"), Handle[int])
    assert_type(await fetch("u", Client()), int)
    assert_type(app.resources[Client], Client)
    current_job().follow_up(7)  # pyright: ignore[reportArgumentType]
    fetch.on_end("ready")  # pyright: ignore[reportArgumentType]
    fetch.on_end(lane="a")  # pyright: ignore[reportCallIssue]
    fetch.on_end()(around)  # pyright: ignore[reportCallIssue, reportArgumentType]
    app.middleware(ended)  # pyright: ignore[reportArgumentType]


async def right() -> None:
    handle = await report.enqueue("a", target=7)
    assert_type(handle, Handle[str])
    assert_type(await handle.result(wait=5), str)
    assert_type(await report("a"), str)
    assert_type(plain(7), list[int])
    assert_type(await (await plain.options(priority=80, delay=30).enqueue(number=7)).result(), list[int])
    assert_type(await app.jobs.enqueue_many([report.call("a"), report.call(account="b", target=7)]), list[Handle[str]])
    assert_type(await report.options(connection=own).enqueue("a", target=7), Handle[str])
    assert_type(await report.enqueue("a", target=7, connection=own), Handle[str])
    assert_type(await app.jobs.enqueue_many([report.call("a")], connection=own), list[Handle[str]])
    assert_type(app.jobs.enqueue_on(own, [report.call("a")]), list[Handle[str]])
    both = await jobs.enqueue_many((report.call("a"), plain.call(7)))
    assert_type(both, tuple[Handle[str], Handle[list[int]]])
    assert_type(await both[1].result(), list[int])
    assert_type((await app.jobs.get(handle)).enqueued_at, datetime)
    assert_type((await app.jobs.get(7)).finished_at, datetime | None)
    assert_type(await app.jobs.list(JobState.FAILED, lane="a#5"), Sequence[JobView])
    assert_type((await app.jobs.explain(handle)).reason, Reason)
    assert_type(await app.lanes.list(limit=5), Sequence[LaneView])
    assert_type((await app.lanes.get("a#5")).since, datetime)
    assert_type(await app.lanes.hold("a#5", by="ann", reason="audit"), None)
    assert_type(await app.lanes.release("a#5", by="ann", reason="done"), bool)
    assert_type(await app.queues.list(), Sequence[QueueView])
    assert_type((await app.queues.get("default")).oldest_ready_at, datetime | None)
    assert_type((await app.queues.explain("default")).reason, Reason)
    assert_type(Retry(delay=timedelta(seconds=1), max_delay=60).delay_after(1), float)


def synchronous() -> None:
    assert_type(report.enqueue_sync("a", target=7), SyncHandle[str])
    assert_type(report.enqueue_sync("a").result(wait=5), str)
    assert_type(plain.options(priority=80).enqueue_sync(number=7).result(), list[int])
    assert_type(app.sync.jobs.enqueue_many([report.call("a")]), list[SyncHandle[str]])
    assert_type(
        jobs.sync.enqueue_many((report.call("a"), plain.call(7))), tuple[SyncHandle[str], SyncHandle[list[int]]]
    )
    assert_type(app.sync.run(app.lanes.release, "a#5", by="ann"), bool)
    with app.sync.locks.acquire("k", wait=5) as lease:
        assert_type(lease.fence, int)
    with app.sync.locks.acquire_many(["a", "b"]) as leases:
        assert_type(leases["a"], SyncLease)


def wrong_synchronous() -> None:
    report.enqueue_sync(7)  # pyright: ignore[reportArgumentType]
    number: int = report.enqueue_sync("a").result()  # pyright: ignore[reportAssignmentType]
    del number


async def wrong() -> None:
    await report.enqueue(7)  # pyright: ignore[reportArgumentType]
    await report.enqueue(account="a", target="7")  # pyright: ignore[reportArgumentType]
    await report.enqueue()  # pyright: ignore[reportCallIssue]
    await report.enqueue("a", unknown=1)  # pyright: ignore[reportCallIssue]
    await report.enqueue("a", connection=7)  # pyright: ignore[reportArgumentType]
    report.options(connection=7)  # pyright: ignore[reportArgumentType]
    await report.options(connection=own).enqueue(7)  # pyright: ignore[reportArgumentType]
    report.call("a", 7, 8)  # pyright: ignore[reportCallIssue]
    report.options(priority="high")  # pyright: ignore[reportArgumentType]
    report.options(prio=80)  # pyright: ignore[reportCallIssue]
    app.job(on_failure="explode")  # pyright: ignore[reportArgumentType]
    await app.lanes.hold("a#5", by="ann")  # pyright: ignore[reportCallIssue]
    await app.jobs.cancel(7, reason="unwanted")  # pyright: ignore[reportCallIssue]
    Retry(limit=60)  # pyright: ignore[reportCallIssue]
    number: int = await (await report.enqueue("a")).result()  # pyright: ignore[reportAssignmentType]
    del number
