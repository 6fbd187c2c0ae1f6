"""``interlock run`` when nobody reads what it writes: the pipe is closed, or full and unread. It ends as ever."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.jobs import JobState
from tests.cli.test_cli_run import Project

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.full

MORE = """
import logging, sys, threading, typer
from rich.console import Console

@app.job()
async def writes(lines: int) -> None:
    for number in range(lines):
        print("x" * 100)
        print("x" * 100, file=sys.stderr, flush=True)
        logging.getLogger("bot").warning("x" * 100)
        typer.echo("x" * 100)
        Console().print("x" * 100)
    note("written")

@app.job()
async def hard() -> None:
    note("begun")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note("told")
"""

BLOCKED_LOG = """
class Blocked(logging.Handler):
    def emit(self, record):
        if record.name == "interlock.sessions":
            note("logging " + record.event)
            threading.Event().wait()

logging.getLogger().addHandler(Blocked())
"""


class Pipe:
    """A pipe that a process writes to, and that its test closes or fills."""

    def __init__(self) -> None:
        self._read, self.write_end = os.pipe()
        self._closed = False

    def read_until(self, text: str) -> str:
        said = ""
        while text not in said:
            part = os.read(self._read, 65536)
            assert part, f"it ended, having said {said!r}"
            said += part.decode()
        return said

    def close_reader(self) -> None:
        os.close(self._read)
        os.close(self.write_end)
        self._closed = True

    def fill(self) -> None:
        """Fill it to the last byte, and leave it unread."""
        own = os.open(f"/proc/self/fd/{self.write_end}", os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(own, b"\n" * size)
        os.close(own)

    def spoil(self, how: str) -> None:
        if how == "closed":
            self.close_reader()
        else:
            self.fill()

    def close(self) -> None:
        if not self._closed:
            self.close_reader()


class Runs(Project):
    """A project that runs with its output in one pipe."""

    pipe: Pipe

    def do(self, work: Callable[[App], Any]) -> Any:
        async def main() -> Any:
            app = App(self.url)

            @app.job()
            async def wait(number: int) -> int:
                return number

            @app.job()
            async def writes(lines: int) -> None: ...

            @app.job()
            async def hard() -> None: ...

            @app.job()
            def stuck() -> None: ...

            async with app:
                return await work(app)

        return asyncio.run(main())

    def start(self, *args: str, works: int = 1) -> subprocess.Popen[Any]:
        self.pipe = Pipe()
        process = self._spawn(
            "run", "bot:app", *args, cwd=self.directory, stdout=self.pipe.write_end, stderr=self.pipe.write_end
        )
        self.processes.append(process)
        for _ in range(works):
            self.pipe.read_until("Runs up to")
        return process

    def close(self) -> None:
        super().close()
        self.pipe.close()


@pytest.fixture
def runs(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> Iterator[Runs]:
    yield from _runs(tmp_path, spawn, 15.0)


@pytest.fixture
def brisk_runs(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> Iterator[Runs]:
    yield from _runs(tmp_path, spawn, 1.0)


def _runs(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]], session: float) -> Iterator[Runs]:
    with closing(Runs(tmp_path, spawn, session)) as project:
        bot = tmp_path / "bot.py"
        bot.write_text(bot.read_text() + MORE)
        yield project


def code_of(process: subprocess.Popen[Any]) -> int:
    return process.wait(30)


both_ways = pytest.mark.parametrize("how", ["closed", "stalled"])


@both_ways
def test_sigterm_is_followed_though_nobody_reads(runs: Runs, how: str) -> None:
    process = runs.start()
    job = runs.enqueue("wait", number=7)
    runs.until(lambda: runs.log)
    runs.pipe.spoil(how)
    process.send_signal(signal.SIGTERM)
    runs.go()
    assert code_of(process) == 0
    assert runs.state(job) is JobState.DONE


@both_ways
def test_the_second_and_third_signal_too(brisk_runs: Runs, how: str) -> None:
    runs = brisk_runs
    process = runs.start()
    runs.enqueue("hard")
    runs.until(lambda: runs.log)
    runs.pipe.spoil(how)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGINT)
    runs.until(lambda: any(line.startswith("told") for line in runs.log))
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 128 + signal.SIGTERM


@pytest.mark.parametrize("how", ["stalled", "closed"])
def test_several_processes_are_ended_and_started_again_though_nobody_reads(brisk_runs: Runs, how: str) -> None:
    runs = brisk_runs
    process = runs.start("--processes", "2", "--concurrency", "1", works=2)
    jobs = [runs.enqueue("wait", number=n) for n in range(2)]
    runs.until(lambda: len(runs.pids()) == 2)
    runs.pipe.spoil(how)
    os.kill(min(runs.pids()), signal.SIGKILL)
    runs.until(lambda: len(runs.pids()) == 3)
    process.send_signal(signal.SIGTERM)
    runs.go()
    assert code_of(process) == 0
    assert {runs.state(job) for job in jobs} == {JobState.DONE}


@both_ways
def test_handlers_that_write_go_on_though_nobody_reads(runs: Runs, how: str) -> None:
    process = runs.start()
    runs.pipe.spoil(how)
    job = runs.enqueue("writes", lines=200)  # more than a pipe holds
    runs.until(lambda: runs.log)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    assert runs.state(job) is JobState.DONE


def test_it_starts_and_works_though_nobody_ever_reads(runs: Runs) -> None:
    runs.pipe = Pipe()
    write_end = os.dup(runs.pipe.write_end)
    runs.pipe.close_reader()
    process = runs._spawn("run", "bot:app", cwd=runs.directory, stdout=write_end, stderr=write_end)
    os.close(write_end)
    runs.processes.append(process)
    job = runs.enqueue("writes", lines=1)
    runs.until(lambda: runs.log)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    assert runs.state(job) is JobState.DONE


# -- a lost session ----------------------------------------------------------------------------------------------------


def lose_session(runs: Runs) -> None:
    """End the process's session in the store, as if it had not been renewed in time."""

    async def end(app: App) -> None:
        for row in (await app.insight.workers()).rows:
            await app.jobs._store_client.store.sessions.end(row.worker.session)

    runs.do(end)


@both_ways
def test_a_thread_that_overruns_its_session_ends_the_process_though_nobody_reads(brisk_runs: Runs, how: str) -> None:
    runs = brisk_runs
    runs.enqueue("stuck")
    process = runs.start()
    runs.until(lambda: runs.log)
    runs.pipe.spoil(how)
    lose_session(runs)
    assert code_of(process) == 70


def test_so_does_it_where_a_log_handler_blocks(brisk_runs: Runs) -> None:
    runs = brisk_runs
    bot = runs.directory / "bot.py"
    bot.write_text(bot.read_text() + BLOCKED_LOG)
    runs.enqueue("stuck")
    process = runs.start()
    runs.until(lambda: runs.log)
    lose_session(runs)
    assert code_of(process) == 70
    assert any(line.startswith("logging ") for line in runs.log)
