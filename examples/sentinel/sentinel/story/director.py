"""The director of the story: operators click, schedules are edited, workers are killed, and the end is audited."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any

import uvicorn

from sentinel import target_service
from sentinel.api import create_api
from sentinel.config import update_config
from sentinel.cooldowns import check_and_wait_cooldown
from sentinel.database import execute_query
from sentinel.scheduler import start_scheduler
from sentinel.story.audit import Audit, Seen, audit
from sentinel.story.parts import Trace, story_console

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from sentinel.console import Console

__all__ = ["Director"]

_ACCOUNTS = 6
_OPERATORS = 3
_EDITORS = 3
_TARGETS = 40
_COOLDOWN = 0.4
_LONGER_COOLDOWN = 0.6
_PATIENCE = 90.0
"""How many seconds accepted reports may take to end after the last click."""
_READY_SECONDS = 30.0
_REFUSED_ITEM = "closed"
"""Items of this name are refused by the moderation API, so their reports fail."""


class Director:
    """One run of the story."""

    def __init__(
        self, url: str, directory: Path, *, seconds: float, workers: int, kill_every: float, port: int | None
    ) -> None:
        self._url = url
        self._namespace = f"story-{int(time.time())}"
        self._path = directory / "trace.jsonl"
        self._trace = Trace(self._path)
        self._seconds = seconds
        self._size = workers
        self._kill_every = kill_every
        self._port = port
        self._stop = asyncio.Event()
        self._workers: list[subprocess.Popen[str]] = []
        self._moderation_url = ""
        self._seen = Seen()
        self._killed: dict[int, float] = {}
        self._cooldowns: list[tuple[float, float]] = []
        self._answers: Counter[str] = Counter()
        self._begun = time.monotonic()

    async def run(self) -> Audit:
        """Run the story from beginning to end."""
        async with self._moderation():
            console = story_console(self._url, self._namespace, self._moderation_url, self._trace)
            async with console:
                try:
                    self._heed_signals()
                    await self._prepare()
                    async with self._served(console) as address:
                        self._workers = [self._start() for _ in range(self._size)]
                        await asyncio.gather(*(self._ready(one) for one in self._workers))
                        self._say(f"{self._size} workers are ready")
                        await self._play(address)
                        await self._settle()
                        self._report()
                    await self._end_workers()  # they finish what schedules fired last
                    return await audit(console, await self._witnesses())
                finally:
                    await self._end_workers()

    def _heed_signals(self) -> None:
        """End gracefully at the first signal, immediately at the second."""
        running = asyncio.current_task()
        assert running is not None

        def on_signal() -> None:
            if self._stop.is_set():
                running.cancel()
            self._stop.set()
            self._say("ending: accepted reports are finished first; press Ctrl-C again to stop immediately")

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)

    async def _prepare(self) -> None:
        await self._set_cooldown(_COOLDOWN)
        accounts = [await target_service.create_account(f"account {number}") for number in range(_ACCOUNTS)]
        for number in range(_TARGETS):
            item = f"{_REFUSED_ITEM}-{number}" if number % 8 == 7 else f"item-{number}"
            await target_service.create_target(item, accounts[number % _ACCOUNTS])
            if number % 8 == 7:
                url = f"{self._moderation_url}/items/{item}/behavior"
                await asyncio.to_thread(self._call, "PUT", url, {"refuse": True})
        await start_scheduler()

    async def _set_cooldown(self, seconds: float) -> None:
        await update_config(seconds, by="director")
        self._cooldowns.append((time.time(), seconds))

    # -- the parts of the story ----------------------------------------------------------------------------------------

    async def _play(self, address: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kill_workers())
            group.create_task(self._take_turns())
            group.create_task(self._lengthen_cooldown())
            for number in range(_OPERATORS):
                group.create_task(self._operate(number, address))
            status, task = await self._ask(
                "POST", address + "/tasks", {"task_type": "process_pending", "interval_seconds": 10}
            )
            assert status == 201, task
            for number in range(_EDITORS):
                group.create_task(self._edit(number, address, task["id"]))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._stop.wait()
            self._stop.set()

    async def _operate(self, number: int, address: str) -> None:
        """Click: execute most targets, two clicks at once; reset what is completed; cancel some."""
        chance = random.Random(number)  # noqa: S311
        while not self._stop.is_set():
            await self._pause(0.05)
            target = chance.randint(1, _TARGETS)
            act = chance.choices(("execute", "reset", "cancel"), (6, 3, 1))[0]
            clicks = 2 if act == "execute" else 1
            url = f"{address}/targets/{target}/{act}"
            answers = await asyncio.gather(*(self._ask("POST", url) for _ in range(clicks)))
            for status, answer in answers:
                self._answers[f"{act} {status}"] += 1
                if act == "execute" and status == 202:
                    self._seen.accepted[target] += 1
                if status >= 500:
                    self._say(f"{act} of target #{target} failed: {answer}")

    async def _edit(self, number: int, address: str, task_id: int) -> None:
        """Edit a schedule, some edits with the version that was seen last."""
        chance = random.Random(100 + number)  # noqa: S311
        url = f"{address}/tasks/{task_id}"
        version = 1
        while not self._stop.is_set():
            await self._pause(0.2)
            change: dict[str, Any] = {"task_type": chance.choice(("process_pending", "retry_failed"))}
            if chance.random() < 0.5:
                change["version"] = version
            if chance.random() < 0.2:
                change["interval_seconds"] = 5  # too short: refused, and nothing is stored
            status, answer = await self._ask("PATCH", url, change)
            self._answers[f"edit {status}"] += 1
            if status == 200:
                self._seen.edits[task_id] += 1
                version = answer["version"]
            elif status == 409:
                version = (await self._ask("GET", f"{address}/tasks"))[1][0]["version"]

    async def _take_turns(self) -> None:
        """Use an account by hand from time to time: the wait and the reports count together."""
        for account in itertools.cycle(range(1, _ACCOUNTS + 1)):
            if self._stop.is_set():
                return
            turn = await check_and_wait_cooldown(account)
            self._trace.note(event="start", account=account, at=turn.timestamp())
            await self._pause(0.5)

    async def _lengthen_cooldown(self) -> None:
        """Change the cooldown in the middle of the story."""
        await self._pause(self._seconds / 2)
        await self._set_cooldown(_LONGER_COOLDOWN)
        self._say(f"the cooldown of accounts is {_LONGER_COOLDOWN} s from now on")

    async def _kill_workers(self) -> None:
        """Kill a worker every few seconds, with ``kill -9``, and start another."""
        while not self._stop.is_set():
            await self._pause(self._kill_every)
            if self._stop.is_set():
                return
            victim = self._workers.pop(0)
            victim.kill()
            victim.wait()
            self._killed[victim.pid] = time.time()
            self._close(victim)
            counts = await execute_query("select status, count(*) as n from targets group by status")
            states = ", ".join(f"{row['n']} {row['status']}" for row in counts)
            self._say(f"killed worker {victim.pid} with kill -9, and started another; targets: {states}")
            self._workers.append(self._start())

    async def _settle(self) -> None:
        """Wait until no target is being processed any more."""
        self._say("waiting for the last reports")
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            if not await execute_query("select id from targets where status = 'processing' limit 1"):
                return
            await asyncio.sleep(0.2)

    async def _witnesses(self) -> Seen:
        _, state = await self._ask("GET", f"{self._moderation_url}/state")
        self._seen.trace = self._trace.read()
        self._seen.killed = self._killed
        self._seen.cooldowns = self._cooldowns
        self._seen.reviews = state["reviews"]
        self._seen.overlaps = state["overlaps"]
        return self._seen

    def _report(self) -> None:
        answers = ", ".join(f"{count} x {what}" for what, count in sorted(self._answers.items()))
        self._say(f"answers over HTTP: {answers}; {len(self._killed)} workers were killed")

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self._call, method, url, body)

    @staticmethod
    def _call(method: str, url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    # -- processes and the server --------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _moderation(self) -> AsyncGenerator[None]:
        """The moderation API, in a process of its own."""
        process = self._start_moderation()
        try:
            assert process.stdout is not None
            async with asyncio.timeout(_READY_SECONDS):
                self._moderation_url = (await asyncio.to_thread(process.stdout.readline)).strip()
            yield
        finally:
            process.terminate()
            process.communicate()

    @contextlib.asynccontextmanager
    async def _served(self, console: Console) -> AsyncGenerator[str]:
        """The console and the dashboard."""
        web = console.app.web()
        with socket.create_server(("127.0.0.1", self._port or 0)) as listening:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            api = create_api(console, dashboard=web)
            server = _Server(uvicorn.Config(api, log_level="error", lifespan="off", timeout_graceful_shutdown=2))
            serving = asyncio.create_task(server.serve([listening]))
            try:
                while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.01)
                self._say(f"console: {address}/")
                self._say(f"dashboard: {web.login_url(f'{address}/interlock')}")
                yield address
            finally:
                web.close()
                server.should_exit = True
                await serving

    @staticmethod
    def _start_moderation() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sentinel.moderation_api", "--port", "0"]
        return subprocess.Popen(  # noqa: S603 - our own module
            command, stdout=subprocess.PIPE, text=True, process_group=0
        )

    def _start(self) -> subprocess.Popen[str]:
        module = "sentinel.story.worker"
        command = [sys.executable, "-m", module, self._url, self._namespace, self._moderation_url, str(self._path)]
        return subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )

    async def _ready(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        async with asyncio.timeout(_READY_SECONDS):
            line = await asyncio.to_thread(worker.stdout.readline)
        if line.strip() != "ready":
            raise RuntimeError(f"Worker {worker.pid} ended before it was ready.")

    async def _end_workers(self) -> None:
        """Let the workers finish; kill those that do not."""
        workers, self._workers = self._workers, []
        for worker in workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
        for worker in workers:
            try:
                await asyncio.to_thread(worker.wait, 15)
            except (subprocess.TimeoutExpired, asyncio.CancelledError):
                worker.kill()
                worker.wait()
                self._killed[worker.pid] = time.time()
            self._close(worker)

    @staticmethod
    def _close(worker: subprocess.Popen[str]) -> None:
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", flush=True)


class _Server(uvicorn.Server):
    """A server that leaves signals to the director."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
