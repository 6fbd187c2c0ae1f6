"""Logs and progress of jobs as their users see them, with a real worker."""

from __future__ import annotations

import asyncio
import logging

import pytest

from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.jobs import JobState, Retry, current_job
from interlock.testing.clock import until
from interlock.testing.conformance.jobs.apps import AppSuite

__all__ = ["LogUserConformance"]


class LogUserConformance(AppSuite):
    """Handlers report, and readers see it while the job runs and after its end."""

    async def test_lines_and_progress_are_seen_while_the_job_runs_and_after_its_end(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            go = asyncio.Event()

            @app.job()
            async def copy() -> None:
                job = current_job()
                job.log("began with %d files", 3)
                job.progress(0.4, "copying")
                await go.wait()
                job.log.warning("took long")
                job.progress(1)

            async with app.worker(concurrency=1):
                handle = await copy.enqueue()
                assert await handle.progress() is None

                async def copying() -> bool:
                    return await handle.progress() is not None

                await until(copying, what="the progress was reported")
                progress = await handle.progress()
                assert progress is not None
                assert (progress.fraction, progress.message) == (0.4, "copying")
                assert [line.text async for line in handle.logs()] == ["began with 3 files"]
                assert (await app.jobs.get(handle)).progress == progress
                (listed,) = await app.jobs.list(JobState.FETCHED, JobState.RUNNING)
                assert listed.progress == progress
                go.set()
                await handle.result(wait=10)

            lines = [line async for line in app.jobs.logs(handle)]
            assert [(line.number, line.level, line.text, line.attempt) for line in lines] == [
                (1, logging.INFO, "began with 3 files", 1),
                (2, logging.WARNING, "took long", 1),
            ]
            assert [line.text async for line in handle.logs(after=1)] == ["took long"]
            view = await app.jobs.get(handle)
            assert view.progress is not None
            assert (view.progress.fraction, view.progress.message) == (1.0, "copying")

    async def test_a_follower_gets_every_line_and_ends_with_the_job(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            attempts: list[int] = []

            @app.job(retry=Retry(attempts=2, delay=0.001, max_delay=0.002))
            def count() -> None:
                job = current_job()
                attempts.append(job.attempt)
                for number in range(50):
                    job.log(f"{job.attempt}.{number}")
                if job.attempt == 1:
                    raise ValueError("again")

            handle = await count.enqueue()

            async def follow() -> list[str]:
                return [line.text async for line in handle.logs(follow=True)]

            follower = asyncio.create_task(follow())
            async with app.worker(concurrency=1):
                lines = await asyncio.wait_for(follower, 30)

            assert lines == [f"{attempt}.{number}" for attempt in (1, 2) for number in range(50)]
            assert attempts == [1, 2]
            assert (await handle.status()).state is JobState.DONE

    async def test_each_attempt_starts_without_progress(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job(retry=Retry(attempts=1))
            async def fail(quietly: bool) -> None:
                if not quietly:
                    current_job().progress(0.7, "nearly")
                raise ValueError("no")

            async with app.worker(concurrency=1):
                loud, quiet = await fail.enqueue(quietly=False), await fail.enqueue(quietly=True)
                for handle in (loud, quiet):

                    async def failed() -> bool:
                        return (await handle.status()).state is JobState.FAILED  # noqa: B023 - awaited at once

                    await until(failed, what="the job failed")
            progress = await loud.progress()
            assert progress is not None
            assert progress.fraction == 0.7, "it shows how far the job came"
            assert await quiet.progress() is None

    async def test_reading_an_unknown_log_says_so(self, store_url: str) -> None:
        async with self.app(store_url) as app:
            with pytest.raises(NotFoundError):
                _ = [line async for line in app.jobs.logs(2**40)]
            with pytest.raises(NotFoundError):
                await app.insight.job_log(2**40)
            with pytest.raises(InvalidArgumentError):
                _ = [line async for line in app.jobs.logs(1, after=-1)]
            with pytest.raises(InvalidArgumentError):
                await app.insight.job_log(1, after=True)

    async def test_insight_shows_the_last_lines_and_continues_after_any(self, store_url: str) -> None:
        async with self.app(store_url) as app:

            @app.job()
            async def count() -> None:
                for number in range(1, 301):
                    current_job().log(str(number))
                current_job().progress(0.5)

            handle = await count.enqueue()
            await app.jobs.drain()
            page = await app.insight.job(handle.id)
            assert [row.text for row in page.log.rows] == [str(number) for number in range(101, 301)]
            assert (page.log.lines, page.log.dropped, page.log.state) == (300, 0, JobState.DONE)
            assert page.log.progress is not None
            part = await app.insight.job_log(handle.id, after=10, limit=5)
            assert [row.number for row in part.rows] == [11, 12, 13, 14, 15]
            assert part.more
            rest = await app.insight.job_log(handle.id, after=290)
            assert (len(rest.rows), rest.more) == (10, False)
