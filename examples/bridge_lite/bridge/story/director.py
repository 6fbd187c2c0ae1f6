"""The director of the story: feeds intents, corrects them over HTTP, kills workers, and audits the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import uvicorn

from bridge.api.http import REEVAL_PATH, create_api
from bridge.core.models.intent_model import IntentModel
from bridge.core.transitions import MACHINE
from bridge.story.audit import Audit, audit
from bridge.story.parts import Deliveries, story_bridge

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path
    from uuid import UUID

    from bridge.core.bridge_set import BridgeSet
    from bridge.factory import Bridge

__all__ = ["Director"]

_FEED_EVERY = 0.1
_REVIEWERS = 3
_PATIENCE = 60.0
"""How many seconds accepted intents may take to end after the last one was fed."""
_READY_SECONDS = 30.0
_PERCENT_95 = 0.95


class Director:
    """One run of the story."""

    def __init__(
        self, url: str, directory: Path, *, seconds: float, workers: int, kill_every: float, port: int | None
    ) -> None:
        self._url = url
        self._namespace = f"story-{int(time.time())}"
        self._deliveries = directory / "deliveries.jsonl"
        self._seconds = seconds
        self._size = workers
        self._kill_every = kill_every
        self._port = port
        self._stop = asyncio.Event()
        self._workers: list[subprocess.Popen[str]] = []
        self._accepted: dict[UUID, dict[str, tuple[str, Any]]] = {}
        """For each intent the corrections that were answered with yes."""
        self._open: list[UUID] = []
        self._latencies: list[float] = []
        self._answers = {"applied": 0, "repeated": 0, "too late": 0, "conflict": 0}
        self._kills = 0
        self._begun = time.monotonic()

    async def run(self) -> Audit:
        """Run the story from beginning to end."""
        bridge, bridge_set = story_bridge(self._url, self._namespace, self._deliveries)
        async with bridge:
            try:
                self._heed_signals()
                async with self._served(bridge) as address:
                    self._workers = [self._start() for _ in range(self._size)]
                    await asyncio.gather(*(self._ready(one) for one in self._workers))
                    self._say(f"{self._size} workers are ready")
                    await self._play(bridge, bridge_set, address)
                    await self._settle(bridge)
                    self._report(bridge)
                found = await audit(bridge, self._accepted, Deliveries(self._deliveries).read())
            finally:
                await self._end_workers()
        return found

    def _heed_signals(self) -> None:
        """End gracefully at the first signal, immediately at the second."""
        running = asyncio.current_task()
        assert running is not None

        def on_signal() -> None:
            if self._stop.is_set():
                running.cancel()
            self._stop.set()
            self._say("ending: accepted intents are finished first; press Ctrl-C again to stop immediately")

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)

    # -- the parts of the story ----------------------------------------------------------------------------------------

    async def _play(self, bridge: Bridge, bridge_set: BridgeSet, address: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed(bridge, bridge_set))
            group.create_task(self._kill_workers())
            for number in range(_REVIEWERS):
                group.create_task(self._correct(number, address))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._stop.wait()
            self._stop.set()

    async def _feed(self, bridge: Bridge, bridge_set: BridgeSet) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            intent = IntentModel(type="Message ", payload={"number": number, "text": f"  hello {number} "})
            made = await bridge.data_bridge.create_intent(intent)
            self._accepted[made.id] = {}
            await bridge_set.enqueue(made.id)
            self._open = [*self._open[-7:], made.id]
            if number % 50 == 0:
                self._say(f"{number} intents were accepted, {self._answers['applied']} corrections applied")
            await self._pause(_FEED_EVERY)

    async def _correct(self, number: int, address: str) -> None:
        """Correct intents over HTTP. Every correction is sent twice, as by a client that got no answer."""
        source = ("yuno", "kana")[number % 2]
        turn = 0
        while not self._stop.is_set():
            await self._pause(0.05)
            if not self._open:
                continue
            turn += 1
            intent_id = random.choice(self._open)  # noqa: S311
            field = f"reviewer{number}_{turn}"
            body = {
                "intent_id": str(intent_id),
                "diff": {"payload": {field: turn}},
                "source": source,
                "reason": f"review {turn}",
            }
            for attempt in range(2):
                status, answer = await asyncio.to_thread(self._post, address + REEVAL_PATH, body)
                if status == 200:
                    self._answers["repeated" if answer["already_applied"] else "applied"] += 1
                    self._accepted[intent_id][answer["correction_id"]] = (field, turn)
                elif answer["error"] == "invalid-transition":
                    self._answers["too late"] += attempt == 0
                else:
                    self._answers["conflict"] += 1
                    self._say(f"a correction was refused: {answer}")

    def _post(self, url: str, body: dict[str, Any]) -> tuple[int, Any]:
        data = json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
        begun = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        finally:
            self._latencies.append(time.monotonic() - begun)

    async def _kill_workers(self) -> None:
        """Kill a worker every few seconds, with ``kill -9``, and start another."""
        while not self._stop.is_set():
            await self._pause(self._kill_every)
            if self._stop.is_set():
                return
            victim = self._workers.pop(0)
            victim.kill()
            victim.wait()
            self._kills += 1
            self._say(f"killed worker {victim.pid} with kill -9, and started another")
            self._workers.append(self._start())

    async def _settle(self, bridge: Bridge) -> None:
        """Wait until every accepted intent has ended."""
        self._say(f"waiting for the last of {len(self._accepted)} intents")
        patience = time.monotonic() + _PATIENCE
        left = set(self._accepted)
        while left and time.monotonic() < patience:
            for intent_id in list(left):
                intent = await bridge.data_bridge.get_intent(intent_id)
                if intent is not None and intent.status in MACHINE.final:
                    left.discard(intent_id)
            await asyncio.sleep(0.2)

    def _report(self, bridge: Bridge) -> None:
        figures: dict[str, float] = {}
        for family in bridge.app.metrics.collect():
            for sample in family.samples:
                lock_type = sample.labels.get("lock_type", "")
                if lock_type in ("", "pessimistic", "optimistic"):
                    figures[f"{sample.name} {lock_type}".strip()] = sample.value
        ordered = sorted(self._latencies) or [0.0]
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * _PERCENT_95))]
        self._say(
            f"corrections over HTTP: {self._answers['applied']} applied, {self._answers['repeated']} recognized as sent"
            f" before, {self._answers['too late']} too late, {self._answers['conflict']} conflicts;"
            f" mean {statistics.fmean(ordered) * 1000:.1f} ms, P95 {p95 * 1000:.1f} ms"
        )
        self._say(
            "contention in this process:"
            f" {figures.get('bridge_lock_contentions_total optimistic', 0):.0f} optimistic writes met another one,"
            f" {figures.get('bridge_version_conflicts_total', 0):.0f} version conflicts,"
            f" {figures.get('bridge_deadlock_detections_total', 0):.0f} deadlocks; {self._kills} workers were killed"
        )

    # -- processes and the server --------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _served(self, bridge: Bridge) -> AsyncGenerator[str]:
        """The API and the dashboard."""
        web = bridge.app.web()
        with socket.create_server(("127.0.0.1", self._port or 0)) as listening:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            config = uvicorn.Config(
                create_api(bridge, dashboard=web), log_level="error", lifespan="off", timeout_graceful_shutdown=2
            )
            server = _Server(config)
            serving = asyncio.create_task(server.serve([listening]))
            try:
                while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.01)
                self._say(f"dashboard: {web.login_url(address)}")
                yield address
            finally:
                server.should_exit = True
                await serving

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bridge.story.worker", self._url, self._namespace, str(self._deliveries)]
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
        for worker in self._workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
        for worker in self._workers:
            try:
                await asyncio.to_thread(worker.wait, 15)
            except (subprocess.TimeoutExpired, asyncio.CancelledError):
                worker.kill()
                worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()

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
