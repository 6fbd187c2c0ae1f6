"""``interlock jobs logs`` prints what a job has written, as it stands or until the job ends."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from interlock.ports.job_logs import JobReport, LogBounds, LogChunk, LogLine, Progress
from interlock.ports.jobs import Outcome
from tests.cli.job_floor import data, floor, run

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from interlock.ports.jobs import FetchedJob
    from tests.cli.job_floor import JobFloor

BOUNDS = LogBounds(100, 100_000)


async def write(
    jobs: JobFloor,
    job: FetchedJob,
    number: int,
    *texts: str,
    skipped: int = 0,
    level: int = logging.INFO,
    progress: float | None = None,
) -> None:
    chunk = LogChunk(skipped, [LogLine(1_700_000_000.5, level, text) for text in texts])
    told = None if progress is None else Progress(progress, "copying [red]files", 1_700_000_000.0)
    report = JobReport(job.id, job.fence, job.attempt, number, [chunk] if texts else [], told)
    assert await jobs.jobs.append_logs([report], BOUNDS) == [True]


async def test_logs_prints_lines_with_their_attempts_and_gaps(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add()
        first = await jobs.fetch()
        await write(jobs, first, 1, "one", "\x1b[31m<b>[red]\u202e", progress=0.25)
        await jobs.end(first, Outcome.RETRY, delay=0.0)
        second = await jobs.fetch()
        await write(jobs, second, 1, "two", skipped=7, level=logging.ERROR)
        await jobs.end(second, Outcome.DONE)
        words = await run(cli, jobs_url, "jobs", "logs", str(number))
        after = await run(cli, jobs_url, "jobs", "logs", str(number), "--after", "2")
        tail = await run(cli, jobs_url, "jobs", "logs", str(number), "--tail", "1")
        lines = await run(cli, jobs_url, "jobs", "logs", str(number), "--json")

    assert words.stdout.splitlines() == [
        "22:13:20.500 one",
        "22:13:20.500 \\x1b[31m<b>[red]\\u202e",
        "22:13:20.500 error: two",
    ]
    assert words.stderr.splitlines() == [
        f"attempt 1 (fence {first.fence}), 2023-11-14 UTC",
        "… 7 lines were dropped",
        f"attempt 2 (fence {second.fence}), 2023-11-14 UTC",
        f"Job {number} is done.",
    ]
    assert after.stdout == tail.stdout == "22:13:20.500 error: two\n"
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [(row["number"], row["level"], row["attempt"]) for row in rows[:-1]] == [
        (1, "info", 1),
        (2, "info", 1),
        (10, "error", 2),
    ]
    assert rows[0]["at"] == "2023-11-14T22:13:20.500+00:00"
    assert rows[-1] == {"id": number, "state": "done", "progress": None, "lines": 10, "dropped": 7}
    assert "\x1b" not in lines.stdout + words.stdout


async def test_logs_follows_a_job_to_its_end(spawn: Callable[..., subprocess.Popen[str]], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add()
        job = await jobs.fetch()
        await write(jobs, job, 1, "one", progress=0.5)
        with spawn("jobs", "logs", str(number), "--follow", "--url", jobs_url) as follower:
            assert follower.stdout is not None
            seen = [await asyncio.to_thread(follower.stdout.readline)]
            await write(jobs, job, 2, "two", progress=0.75)
            seen.append(await asyncio.to_thread(follower.stdout.readline))
            await write(jobs, job, 3, "three")
            assert follower.poll() is None, "it waits while the job runs"
            await jobs.end(job, Outcome.FAILED, error="no")
            rest, errors = await asyncio.to_thread(follower.communicate)

    assert [line.strip().partition(" ")[2] for line in (*seen, *rest.splitlines())] == ["one", "two", "three"]
    assert errors.splitlines()[-1] == f"Job {number} is failed."
    assert "75%: copying [red]files" in errors.splitlines()
    assert follower.returncode == 0


async def test_a_job_without_a_log_and_an_unknown_job(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add()
        words = await run(cli, jobs_url, "jobs", "logs", str(number))
        unknown = await run(cli, jobs_url, "jobs", "logs", "999999999", code=1)

    assert words.stdout == ""
    assert words.stderr.splitlines() == [f"Job {number} has logged nothing.", f"Job {number} is ready."]
    assert "999999999" in unknown.stderr


async def test_show_and_list_have_the_progress(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add()
        job = await jobs.fetch()
        await write(jobs, job, 1, "one", progress=0.25)
        words = await run(cli, jobs_url, "jobs", "show", str(number))
        listed = await run(cli, jobs_url, "jobs", "list")
        shown = await data(cli, jobs_url, "jobs", "show", str(number))
        (row,) = await data(cli, jobs_url, "jobs", "list")

    assert "progress" in words.stdout
    assert "25%: copying [red]files" in words.stdout
    assert f"1 line: interlock jobs logs {number}" in words.stdout
    assert "25%: copying [red]files. " in listed.stdout
    for found in (shown, row):
        assert found["progress"]["fraction"] == 0.25
        assert found["progress"]["message"] == "copying [red]files"
    assert shown["log_lines"] == 1
