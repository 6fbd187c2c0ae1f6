"""A handler that blocks the event loop is named, in the log and to those who ask elsewhere."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Settings
from interlock.jobs import JobState
from interlock.reasons import Reason
from interlock.testing.clock import until
from interlock.testing.processes import Worker, report

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

BRIEF = Settings(session_ttl=3.0, recheck_interval=0.2, stuck_work="report")
STEADY = Settings(session_ttl=60.0, recheck_interval=0.2, stuck_work="report")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Stores that outlive the process: where the heartbeat has a thread of its own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/loop.db"
    return str(request.getfixturevalue("complete_postgres_url"))


class Elsewhere(threading.Thread):
    """A coroutine on a loop of its own, as in another process."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._work)
        except BaseException as error:  # the test raises it
            self.error = error


async def test_a_blocked_event_loop_is_logged_with_its_handler_and_explained_elsewhere(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    seen: dict[str, Any] = {}

    def app_with_jobs() -> tuple[App, Any, Any]:
        app = App(url)

        @app.job(name="blocks")
        async def blocks() -> None:
            release.wait(60)

        @app.job(name="waits")
        async def waits() -> None:
            await asyncio.Event().wait()

        return app, blocks, waits

    async def look() -> None:
        # What the loop of the worker is asked for after this may be answered only when it runs again.
        other, blocks, waits = app_with_jobs()
        try:
            async with other:
                jobs = {"beside": await waits.enqueue()}
                await until(lambda: state(other, jobs["beside"].id, JobState.RUNNING), within=30)
                jobs |= {"blocker": await blocks.enqueue(), "ready": await waits.enqueue()}

                async def blocked() -> bool:
                    return (await other.insight.explain("job", jobs["blocker"].id)).reason is Reason.LOOP_BLOCKED

                await until(blocked, within=30, what="the blocked loop is known elsewhere")
                for name, job in jobs.items():
                    seen[name] = await other.insight.explain("job", job.id)
                    assert (await other.jobs.explain(job)).reason == seen[name].reason
                seen["problems"] = (await other.insight.overview()).problems
                release.set()
                await jobs["blocker"].result(wait=30)

                async def cleared() -> bool:
                    (found,) = await other.insight.workers()
                    return found.blocked_since is None

                await until(cleared, within=30, what="the store knows that the loop runs again")
        finally:
            release.set()

    app, _, _ = app_with_jobs()
    elsewhere = Elsewhere(look())
    async with app:
        worker = app.worker(concurrency=2)
        worker.open()
        elsewhere.start()
        await asyncio.to_thread(elsewhere.join)
        await worker.stop()
        metrics = app.jobs.metrics
    if elsewhere.error is not None:
        raise elsewhere.error
    assert {seen[name].reason for name in ("blocker", "beside")} == {Reason.LOOP_BLOCKED}
    assert seen["ready"].reason is Reason.LOOP_BLOCKED
    blocker = seen["blocker"].data["id"]
    by = f"by job {blocker} (blocks)"
    assert any(by in line for line in seen["beside"].lines), seen["beside"].lines
    assert any(by in problem.text for problem in seen["problems"]), seen["problems"]
    said = {record.event: record.fields for record in caplog.records if hasattr(record, "event")}  # type: ignore[attr-defined]
    blocked, recovered = said["event_loop_blocked"], said["event_loop_recovered"]
    assert (blocked["id"], blocked["job"]) == (blocker, "blocks")
    assert any("test_loop_monitor.py" in frame and "in blocks" in frame for frame in blocked["stack"]), blocked["stack"]
    assert len(blocked["stack"]) <= 20
    assert recovered["seconds"] >= blocked["seconds"] >= 1.0
    assert metrics.loop_blocked == 0.0
    assert metrics.loop_lag.total >= 1.0


async def state(app: App, job: int, wanted: JobState) -> bool:
    return (await app.jobs.handle(job).status()).state is wanted


async def test_the_watch_measures_the_lag_and_ends_with_the_last_worker() -> None:
    app = App("memory://")

    @app.job()
    async def handler() -> None: ...

    async with app, app.worker():
        await until(lambda: app.jobs.metrics.loop_lag.count >= 2, what="the loop answered twice")
    assert not [thread for thread in threading.enumerate() if thread.name == "interlock-loop-monitor"]


# -- what no thread can see to: a handler that does not release the GIL ------------------------------------------------


def holds_the_gil(url: str, pipe: str, hold: bool) -> None:
    async def work() -> None:
        app = App(url, settings=BRIEF if hold else STEADY)

        @app.job(name="held")
        async def held() -> str:
            report("started")
            if hold:
                fd = os.open(pipe, os.O_RDWR)
                # Called through PyDLL the GIL is kept: no other thread of this process runs, not even the heartbeat.
                ctypes.PyDLL(None).read(fd, ctypes.create_string_buffer(1), 1)
            return "held" if hold else "taken over"

        async with app:
            worker = app.worker(concurrency=1)
            report("ready")
            await worker.run()

    asyncio.run(work())


@pytest.mark.full
async def test_a_handler_that_keeps_the_gil_past_its_session_is_taken_over_and_acknowledged_once(
    tmp_path: Path,
) -> None:
    url, pipe = f"sqlite:///{tmp_path}/gil.db", str(tmp_path / "pipe")
    os.mkfifo(pipe)
    target = "tests.jobs.worker.test_loop_monitor:holds_the_gil"
    app = App(url)

    @app.job(name="held")
    async def held() -> str:
        return ""

    async with app:
        handle = await held.enqueue()
        async with Worker.spawn(target, (url, pipe, True)) as stuck:
            await stuck.wait_for("started", timeout=60)
            async with Worker.spawn(target, (url, pipe, False)) as other:
                await other.wait_for("started", timeout=60)  # while the first handler still runs: twice at once
                assert await handle.result(wait=60) == "taken over"
                release = os.open(pipe, os.O_RDWR)
                os.write(release, b"x")
                os.close(release)
                await until(lambda: "session_lost" in stuck.stderr, within=60, what="the first one finds out")
        view = await app.jobs.get(handle.id)
        assert view is not None
        assert (view.state, view.result) == (JobState.DONE, '"taken over"')
