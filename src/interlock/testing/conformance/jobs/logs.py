"""The logs and the progress of jobs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from interlock.ports.job_logs import JobLogStatus, JobReport, LogBounds, LogChunk, LogLine, Progress
from interlock.ports.jobs import Outcome
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import SESSION, JobDriver, JobSuite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import FetchedJob

__all__ = ["LogConformance"]

_BOUNDS = LogBounds(lines=1000, bytes=100_000)
_KEEP = 100.0


def _chunk(*texts: str, skipped: int = 0, level: int = logging.INFO) -> LogChunk:
    return LogChunk(skipped, [LogLine(1000.25, level, text) for text in texts])


def _report(
    job: FetchedJob, number: int, *chunks: LogChunk, progress: Progress | None = None, fence: int | None = None
) -> JobReport:
    return JobReport(job.id, job.fence if fence is None else fence, job.attempt, number, chunks, progress)


async def _texts(b: JobDriver, job_id: int, after: int = 0, limit: int = 10_000) -> list[str]:
    return [entry.text for entry in (await b.store.insight.log(job_id, after=after, limit=limit)).entries]


async def _status(b: JobDriver, job_id: int) -> JobLogStatus | None:
    return (await b.store.insight.log_statuses([job_id])).get(job_id)


async def _append(b: JobDriver, *reports: JobReport, bounds: LogBounds = _BOUNDS) -> Sequence[bool]:
    return await b.jobs.append_logs(reports, bounds)


class LogConformance(JobSuite):
    """Reports of running jobs are kept within bounds, in order, and under the fetch that sent them."""

    async def test_lines_are_numbered_in_order_and_name_their_fetch(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            assert await _append(b, _report(job, 1, _chunk("one", "two"), _chunk("three", level=logging.ERROR))) == [
                True
            ]
            assert await _append(b, _report(job, 2, _chunk("four"))) == [True]

            found = await b.store.insight.log(job.id, limit=10)
            assert [(entry.number, entry.text) for entry in found.entries] == [
                (1, "one"),
                (2, "two"),
                (3, "three"),
                (4, "four"),
            ]
            assert [entry.level for entry in found.entries] == [logging.INFO, logging.INFO, logging.ERROR, logging.INFO]
            assert {(entry.attempt, entry.fence) for entry in found.entries} == {(1, job.fence)}
            assert {entry.at for entry in found.entries} == {1000.25}
            assert not found.more
            assert await _status(b, job.id) == JobLogStatus(job.id, 1, job.fence, 4, 0, None)

    async def test_a_log_is_read_in_parts(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            await _append(b, _report(job, 1, _chunk("1", "2", "3"), _chunk("4"), _chunk("5", "6")))
            seen: list[str] = []
            after, more = 0, True
            while more:
                part = await b.store.insight.log(job.id, after=after, limit=2)
                assert len(part.entries) <= 2
                seen += [entry.text for entry in part.entries]
                after, more = part.entries[-1].number, part.more

            assert seen == list("123456")
            assert await _texts(b, job.id, after=6) == []
            assert await _texts(b, job.id, after=2, limit=1) == ["3"]

    async def test_a_repeated_report_is_applied_once(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            first = _report(job, 1, _chunk("one"), progress=Progress(0.5, "half", 7.0))
            second = _report(job, 2, _chunk("two"), progress=Progress(0.75, "more", 8.0))
            for report in (first, first, second, first, second):
                assert await _append(b, report) == [True]

            assert await _texts(b, job.id) == ["one", "two"]
            status = await _status(b, job.id)
            assert status is not None
            assert status.progress == Progress(0.75, "more", 8.0)

    async def test_progress_is_the_last_that_was_reported(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            await _append(b, _report(job, 1, progress=Progress(0.5, "half", 7.0)))
            await _append(b, _report(job, 2, progress=Progress(0.25, "", 8.5)))
            await _append(b, _report(job, 3, _chunk("a line")))

            assert await _status(b, job.id) == JobLogStatus(job.id, 1, job.fence, 1, 0, Progress(0.25, "", 8.5))
            await b.done(job)
            status = await _status(b, job.id)
            assert status is not None
            assert status.progress == Progress(0.25, "", 8.5), "it stays after the end"

    async def test_a_fetch_that_has_ended_reports_nothing(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            first = await b.one("a")
            await _append(b, _report(first, 1, _chunk("first"), progress=Progress(0.9, "nearly", 7.0)))
            await b.end(first, Outcome.RETRY)
            assert await _append(b, _report(first, 2, _chunk("late"))) == [False]
            second = await b.one("b")
            late = _report(first, 3, _chunk("later"), progress=Progress(1.0, "late", 9.0))
            assert await _append(b, late) == [False]
            status = await _status(b, first.id)
            assert status is not None
            assert status.fence == first.fence, "readers can tell that the progress is of the fetch before"
            assert await _append(b, _report(second, 1, _chunk("second"))) == [True]
            assert await _append(b, late) == [False]

            entries = (await b.store.insight.log(first.id, limit=10)).entries
            assert [(entry.number, entry.text, entry.attempt, entry.fence) for entry in entries] == [
                (1, "first", 1, first.fence),
                (2, "second", 2, second.fence),
            ]
            assert await _status(b, first.id) == JobLogStatus(first.id, 2, second.fence, 2, 0, None), "a new progress"

    async def test_the_lines_of_a_rescued_fetch_are_refused(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add()
            dead = await b.one("a")
            await _append(b, _report(dead, 1, _chunk("before the crash")))
            await b.let_pass(SESSION + 1, "b")
            assert await _append(b, _report(dead, 2, _chunk("its fetch is in force"))) == [True]
            while await b.store.sessions.sweep():
                pass
            await b.jobs.rescue()
            assert await _append(b, _report(dead, 3, _chunk("after the rescue"))) == [False]
            alive = await b.one("b")
            assert alive.attempt == dead.attempt
            await _append(b, _report(alive, 1, _chunk("after the crash")))

            entries = (await b.store.insight.log(dead.id, limit=10)).entries
            assert [(entry.text, entry.fence) for entry in entries] == [
                ("before the crash", dead.fence),
                ("its fetch is in force", dead.fence),
                ("after the crash", alive.fence),
            ]

    async def test_one_call_reports_for_many_jobs_each_on_its_own(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(5)
            jobs = await b.fetch("a")
            await b.done(jobs[2])
            reports = [_report(job, 1, _chunk(f"of {job.id}", skipped=n)) for n, job in enumerate(jobs)]
            accepted = await _append(b, *reversed(reports))

            assert list(accepted) == [True, True, False, True, True]
            for n, job in enumerate(jobs):
                found = (await b.store.insight.log(job.id, limit=10)).entries
                assert [(entry.number, entry.text) for entry in found] == ([] if n == 2 else [(n + 1, f"of {job.id}")])
            statuses = await b.store.insight.log_statuses([job.id for job in jobs])
            assert {id: status.dropped for id, status in statuses.items()} == {  # noqa: A001
                job.id: n for n, job in enumerate(jobs) if n != 2
            }
            assert await _append(b) == []

    async def test_a_long_log_keeps_its_head_and_its_tail(self, store_url: str) -> None:
        bounds = LogBounds(lines=100, bytes=1_000_000)
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            number = 0
            for report in range(1, 11):
                chunks = []
                for _ in range(5):
                    chunks.append(_chunk(*(str(number + n) for n in range(10))))
                    number += 10
                assert await _append(b, _report(job, report, *chunks), bounds=bounds) == [True]
                kept = await _texts(b, job.id)
                assert kept[:10] == [str(n) for n in range(10)]
                assert len(kept) <= 100
                assert kept[10:] == [str(n) for n in range(number - len(kept) + 10, number)]

            assert len(kept) == 100
            assert await _status(b, job.id) == JobLogStatus(job.id, 1, job.fence, 500, 400, None)
            entries = (await b.store.insight.log(job.id, limit=1000)).entries
            assert [entry.number for entry in entries] == [*range(1, 11), *range(411, 501)], (
                "a gap shows what is missing"
            )
            after = await b.store.insight.log(job.id, after=50, limit=1000)
            assert after.entries[0].number == 411

    async def test_a_log_is_bounded_in_bytes_too(self, store_url: str) -> None:
        bounds = LogBounds(lines=1_000_000, bytes=20_000)
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            for report in range(1, 101):
                await _append(b, _report(job, report, _chunk(f"{report:04d}" + "é" * 400)), bounds=bounds)
            kept = await _texts(b, job.id)

            assert 15_000 < sum(len(text.encode()) for text in kept) <= 20_000
            assert kept[0].startswith("0001")
            assert kept[-1].startswith("0100")
            status = await _status(b, job.id)
            assert status is not None
            assert (status.lines, status.dropped) == (100, 100 - len(kept))
            await _append(b, _report(job, 101, _chunk("x" * 30_000)), bounds=bounds)
            assert (await _texts(b, job.id))[-1] == "x" * 30_000, "the newest is kept in any case"

    async def test_a_log_goes_on_through_retries_and_is_removed_with_its_job(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            kept_id, job_id = await b.add(), await b.add()
            open_job, job = await b.fetch("a")
            await _append(b, _report(open_job, 1, _chunk("open")), _report(job, 1, _chunk("one")))
            await b.end(job, Outcome.FAILED)
            await b.jobs.retry(job_id, ANN)
            job = await b.one("a")
            await _append(b, _report(job, 1, _chunk("two")))
            await b.done(job)
            assert await _texts(b, job_id) == ["one", "two"]
            await b.let_pass(_KEEP / 2, "a")
            await b.jobs.prune(_KEEP)
            assert await _texts(b, job_id) == ["one", "two"]
            await b.let_pass(_KEEP / 2 + 1, "a")
            await b.jobs.prune(_KEEP)

            assert await b.store.insight.get(job_id) is None
            assert await _texts(b, job_id) == []
            assert await _status(b, job_id) is None
            assert await _texts(b, kept_id) == ["open"], "that of an unfinished job stays"

    async def test_the_log_of_a_job_that_outlasts_the_retention_goes_with_the_job(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            job = await b.one("a")
            await _append(b, _report(job, 1, _chunk("long ago")))
            for _ in range(3):
                for _ in range(5):
                    await b.let_pass(_KEEP / 2, "a")
                await b.jobs.prune(_KEEP)
            assert await _append(b, _report(job, 2, _chunk("just now"))) == [True]
            await b.done(job)
            await b.jobs.prune(_KEEP)
            assert await _texts(b, job_id) == ["long ago", "just now"]
            for _ in range(100):
                await b.let_pass(_KEEP / 2, "a")
            await b.jobs.prune(_KEEP)

            assert await b.store.insight.get(job_id) is None
            assert await _status(b, job_id) is None, "it is gone within an hour of the job"
            assert await _texts(b, job_id) == []

    async def test_any_text_is_kept_as_it_is(self, store_url: str) -> None:
        texts = ['<script>alert("1")</script>', "\\u0000 \\ \"'", "ünïcödé 😀\u200f", "", " ", "{}[]\t", "x" * 4000]
        async with self.job_driver(store_url) as b:
            await b.add()
            job = await b.one("a")
            await _append(b, _report(job, 1, _chunk(*texts), progress=Progress(1.0, texts[0], 1.0)))

            assert await _texts(b, job.id) == texts
            status = await _status(b, job.id)
            assert status is not None
            assert status.progress is not None
            assert status.progress.message == texts[0]

    async def test_a_job_that_reports_nothing_has_no_log(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.done(await b.one("a"))

            assert await b.store.insight.log_statuses([job_id, 2**40]) == {}
            assert await b.store.insight.log_statuses([]) == {}
            found = await b.store.insight.log(2**40, limit=10)
            assert (list(found.entries), found.more) == ([], False)
