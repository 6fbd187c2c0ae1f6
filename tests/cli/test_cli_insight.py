"""What commands say is what Insight says: why in every row, jobs behind callers, limits of jobs, events."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from interlock import App, Slots
from interlock.ports.events import NewEvent
from interlock.testing.conformance.jobs.driver import new_job
from tests.cli.job_floor import ONE, data, floor, run

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_lists_tell_why_in_words_and_as_data(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        running, waiting = await jobs.add(uses=(ONE,)), await jobs.add(uses=(ONE,))
        assert (await jobs.fetch()).id == running
        await jobs.stand()
        words = await run(cli, jobs_url, "jobs", "list")
        listed = {job["id"]: job for job in await data(cli, jobs_url, "jobs", "list")}
        shown = await data(cli, jobs_url, "jobs", "show", str(waiting))
        limits = await run(cli, jobs_url, "limits")
        limit = await data(cli, jobs_url, "limits", "show", ONE.key)

    why = "waits for limit 'slots:containers' (1 of 1), first in line"
    assert why in words.stdout
    assert (listed[waiting]["reason"], listed[waiting]["why"]) == ("limit", why)
    assert (shown["why"], shown["event"]) == (why, None)
    assert "jobs" in limits.stdout
    assert "1 of 1 running, 1 waits" in limits.stdout
    assert (limit["holders"], limit["line"], limit["counts"]) == ([running], [waiting], "jobs")


async def test_pages_are_put_together(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        numbers = [await jobs.add(lane=f"l{n:03}") for n in range(450)]
        listed = await data(cli, file_url, "jobs", "list", "--limit", "420")
        lanes = await data(cli, file_url, "lanes", "list", "--limit", "420")

    assert [job["id"] for job in listed] == numbers[:-421:-1]
    assert [lane["lane"] for lane in lanes] == [f"l{n:03}" for n in range(420)]


async def test_a_lock_is_explained_with_the_job_that_holds_it(cli: Callable[..., Any], file_url: str) -> None:
    app = App(file_url)
    held, over = asyncio.Event(), asyncio.Event()

    @app.job(limits=[Slots("containers", 5)])
    async def build() -> None:
        async with app.locks.acquire("repo"):
            held.set()
            await over.wait()

    async with app, asyncio.timeout(20):
        handle = await build.enqueue()
        async with app.worker():
            await held.wait()
            words = await run(cli, file_url, "explain", "lock", "repo")
            shown = await run(cli, file_url, "locks", "show", "repo")
            over.set()
            await handle.result()

    assert words.stdout.startswith(f"'repo' is held by job {handle.id} (build) (")
    assert f"job {handle.id} (build)" in shown.stdout


async def test_explain_event(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        event_id, job_id = await jobs.jobs.ids(2)
        new = new_job(job_id, name="report", queue="default", arguments=json.dumps({"event": event_id}))
        about = ("github", "d-1", "issues.opened", "ann", "{}", 3600.0, None, None)
        await jobs._store.events.accept([NewEvent(event_id, *about, (new,))])
        words = await run(cli, jobs_url, "explain", "event", str(event_id))
        told = await data(cli, jobs_url, "explain", "event", str(event_id))
        job = await run(cli, jobs_url, "jobs", "show", str(job_id))
        missing = await run(cli, jobs_url, "explain", "event", str(event_id + 10**6))

    assert words.stdout.startswith(f"event {event_id} is github.issues.opened by ann")
    assert (told["reason"], told["jobs"]) == ("waiting", [job_id])
    assert f"{event_id} (github.issues.opened)" in job.stdout
    assert "does not exist" in missing.stdout
