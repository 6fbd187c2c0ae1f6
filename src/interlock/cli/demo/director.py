"""Runs the demo: starts the workers, kills and freezes some, tells the screen, and ends everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from typing import TYPE_CHECKING

from interlock.backends import from_url
from interlock.cli.demo.audit import Findings, audit
from interlock.cli.demo.comments import ISSUES, Author
from interlock.cli.demo.deliveries import Sender
from interlock.cli.demo.records import Notebook, Reader
from interlock.cli.demo.story import Story
from interlock.cli.demo.worker import LOG, URL
from interlock.errors import StoreError, StoreUnavailableError
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.processes import Worker, WorkerFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interlock.cli.demo.screen import Screen
    from interlock.ports.job_views import LaneView
    from interlock.ports.limits import LimitView
    from interlock.ports.locks import LockView

__all__ = ["Director"]

SESSION_SECONDS = 3.0
_KEYS = ("repo:api", "repo:web", "repo:docs", "repo:infra", "repo:mobile", "repo:data")
_NEEDS = (Capability.LOCKS, Capability.CLAIMS, Capability.CURSORS, Capability.LIMITS, Capability.PROCESSES)
_TICK = 0.1
_KILL_EVERY = 3.5
_WAITER_EACH = 3  # of so many that are killed one is a waiter
_FREEZE_EVERY = 12.0
_CHOOSY_SECONDS = 1.0  # how long to wait for a holder that works on a delivery too
_CALM = 1.5  # how long the keys are left alone after the last takeover
_FROZEN_SECONDS = SESSION_SECONDS + 2.0
_READY_SECONDS = 30.0
_STOP_SECONDS = 5.0
_QUIET_SECONDS = 1.5  # nothing new is sent at the end, so that what was sent can be handled
_PATIENCE = 30.0  # how long after the end a delivery or a comment may still need, on a machine that is busy


class Director:
    """One run of the demo."""

    def __init__(self, url: str, namespace: str, directory: Path, workers: int, seconds: float) -> None:
        settings = Settings(namespace=namespace)
        self._store = from_url(url, settings=settings, needs=_NEEDS)
        self._url = url
        self._namespace = namespace
        self._directory = directory
        self._seconds = seconds
        self._size = workers
        self._keys = _KEYS[: max(3, min(len(_KEYS), workers // 2))]
        self._workers: dict[str, Worker] = {}
        self._started = self._kills = 0
        self._frozen: dict[str, float] = {}
        """When each frozen worker is to go on."""
        self._log = Notebook(directory / LOG, "director")
        self._sender = Sender(directory, workers)
        has_jobs = Capability.JOBS in self._store.capabilities
        self._author = Author(url, settings, directory, workers) if has_jobs else None
        self._random = random.Random()  # noqa: S311 - nothing here is a secret
        self._stop = asyncio.Event()
        self._kill_at = min(1.0, seconds / 3)
        self._freeze_at = 5.0
        self._last_fault = max(seconds - SESSION_SECONDS - 0.5, self._kill_at + 2 * _CHOOSY_SECONDS)

    async def run(self, screen: Screen) -> Findings:
        """Play it from beginning to end, and audit it."""
        story = Story(screen)
        self._heed_signals(story)
        try:
            await self._store.open()
            if self._author is not None:
                await self._author.open()
            kind = f"{self._store.name} in a temporary directory" if str(self._directory) in self._url else None
            has_jobs = self._author is not None
            story.begin(kind or self._store.name, self._size, self._keys, SESSION_SECONDS, jobs=has_jobs)
            for _ in range(self._size):
                self._start()
            await asyncio.gather(*(self._ready(name) for name in self._workers))
            await self._play(story)
            await self._end()
        finally:
            for worker in self._workers.values():
                worker.kill()
            if self._author is not None:
                await self._author.close()
            await self._store.close()
            self._sender.close()
            self._log.close()
        return audit(self._directory)

    def _heed_signals(self, story: Story) -> None:
        """The first signal ends the run in order, the second at once."""
        loop = asyncio.get_running_loop()
        running = asyncio.current_task()
        assert running is not None

        def on_signal() -> None:
            if self._stop.is_set():
                running.cancel()
            else:
                self._stop.set()
                story.say("ending early; once more to stop at once")

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal)

    async def _play(self, story: Story) -> None:
        """Until the time is over, and a little longer if a delivery or a comment is not done yet."""
        begun = time.monotonic()
        end = self._seconds
        log = Reader(self._directory / LOG)
        while (now := time.monotonic() - begun) < end or (self._undone and now < end + _PATIENCE):
            if self._stop.is_set():
                end = min(end, now)
            records = list(log.new())
            story.hear(records)
            self._sender.hear(records)
            if self._author is not None:
                self._author.hear(records)
            locks, limits = await self._look(story)
            comments = await self._look_at_lanes()
            story.see(now, self._seconds, locks, limits, list(self._workers), self._sender.count, comments)
            self._check_workers()
            self._thaw(now)
            self._sender.send(now, new=now < end - _QUIET_SECONDS)
            if self._author is not None:
                await self._author.write(now, new=now < end - _QUIET_SECONDS)
            if now <= min(end, self._last_fault):
                self._do_harm(now, locks, story)
            await self._pause()
        story.hear(log.new())

    async def _look(self, story: Story) -> tuple[Sequence[LockView], Sequence[LimitView]]:
        try:
            locks, limits = await self._store.locks.look(), await self._store.limits.look()
        except StoreUnavailableError as error:
            story.say(error.message)
            return [], []
        return [view for view in locks if view.key in self._keys], limits

    async def _look_at_lanes(self) -> tuple[int, Sequence[tuple[str, LaneView]]] | None:
        """How many comments were enqueued, and the lanes that are not empty; None without jobs."""
        if self._author is None:
            return None
        found: list[tuple[str, LaneView]] = []
        with contextlib.suppress(StoreUnavailableError):
            views = {view.lane: view for view in await self._store.jobs.lanes(limit=100)}
            lanes = [(issue, self._author.lane(issue)) for issue in ISSUES]
            found = [(issue, views[lane]) for issue, lane in lanes if lane in views]
        return self._author.count, found

    @property
    def _undone(self) -> bool:
        return self._sender.waiting or (self._author is not None and self._author.waiting)

    async def _pause(self) -> None:
        if self._stop.is_set():
            await asyncio.sleep(_TICK)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TICK):
                await self._stop.wait()

    # -- harm ------------------------------------------------------------------------------------------------------

    def _do_harm(self, now: float, views: Sequence[LockView], story: Story) -> None:
        """Freeze or kill, if it is time, a holder that others wait for; sometimes a waiter.

        Rather one that works on a delivery too: then there is more to take over.
        """
        contended = [view for view in views if view.holder and any(waiter.live for waiter in view.waiters)]
        holders = self._at_hand(view.holder.party for view in contended if view.holder)
        waiters = self._at_hand(waiter.party for view in contended for waiter in view.waiters)
        if any(view.holder and not self._at_hand([view.holder.party]) for view in views):
            self._kill_at = max(self._kill_at, now + _CALM)
            self._freeze_at = max(self._freeze_at, now + _CALM)
        if not holders:
            return
        richer = [name for name in holders if name in story.handling]
        if not richer and now < min(self._kill_at, self._freeze_at) + _CHOOSY_SECONDS:
            return
        holders = richer or holders
        if now >= self._freeze_at:
            self._freeze_at = now + _FREEZE_EVERY
            name = self._random.choice(holders)
            self._frozen[name] = now + _FROZEN_SECONDS
            self._workers[name].send("freeze")
        elif now >= self._kill_at:
            self._kill_at = now + _KILL_EVERY * self._random.uniform(0.8, 1.2)
            self._kills += 1
            self._kill(self._random.choice(waiters if waiters and self._kills % _WAITER_EACH == 0 else holders))
            self._start()

    def _at_hand(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._workers and name not in self._frozen]

    def _kill(self, name: str) -> None:
        worker = self._workers.pop(name)
        os.kill(worker.pid, signal.SIGKILL)
        sent = time.monotonic()
        worker.kill()
        self._log.write("killed", victim=name, sent=sent)

    def _thaw(self, now: float) -> None:
        for name, at in list(self._frozen.items()):
            if now >= at:
                del self._frozen[name]
                self._workers[name].resume()

    # -- workers ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._started += 1
        name = f"worker-{self._started}"
        args = [name, self._namespace, str(self._directory), self._keys, SESSION_SECONDS]
        self._workers[name] = Worker.spawn("interlock.cli.demo.worker:work", args, env={URL: self._url})
        self._log.write("started", worker=name)

    async def _ready(self, name: str) -> None:
        try:
            await self._workers[name].wait_for("ready", _READY_SECONDS)
        except WorkerFailedError:
            self._check_workers()
            raise StoreError(f"{name} did not start within {_READY_SECONDS:g} s.") from None

    def _check_workers(self) -> None:
        for name, worker in self._workers.items():
            if worker.returncode is not None:
                said = worker.stderr.strip().rpartition("\n")[2] or "nothing"
                raise StoreError(f"{name} ended by itself with status {worker.returncode}; its last words: {said}")

    async def _end(self) -> None:
        """Let every worker stop in order; those that do not in time are killed by the caller."""
        for name in self._workers:
            self._log.write("stopped", victim=name)
        for worker in self._workers.values():
            worker.resume()
            with contextlib.suppress(WorkerFailedError):
                worker.send("stop")
        ends = (worker.wait(_STOP_SECONDS) for worker in self._workers.values())
        await asyncio.gather(*ends, return_exceptions=True)
