"""Run the demo: start processes, kill and freeze workers, update the screen, and end everything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import time
from typing import TYPE_CHECKING

from interlock.backends import from_url
from interlock.cli.demo.audit import Audit
from interlock.cli.demo.bot import SESSION_SECONDS, Locations, define
from interlock.cli.demo.door import HandDoor, HttpDoor
from interlock.cli.demo.harm import FROZEN_SECONDS, HOLD_REASON, HOLD_SECONDS, Harm
from interlock.cli.demo.narration import Narration
from interlock.cli.demo.records import Minutes
from interlock.cli.demo.sender import Sender
from interlock.cli.signals import stop_signals
from interlock.errors import MisuseError, StoreError, StoreUnavailableError
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.processes import Worker, WorkerFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.app import App
    from interlock.cli.demo.findings import Findings
    from interlock.cli.demo.screen import Screen
    from interlock.cli.demo.stores import Stores

__all__ = ["Director"]

_FRONT = "web"
_EXIT_STUCK = 70  # of a worker that could not stop its work before its session ended, on a busy machine
_TICK = 0.1
_LOOK_EVERY = 0.5
_READY_SECONDS = 30.0
_STOP_SECONDS = 10.0
_PATIENCE = 60.0
"""How long accepted work may take after the end, on a busy machine."""


class Director:
    """One run of the demo."""

    def __init__(
        self,
        stores: Stores,
        namespace: str,
        directory: Path,
        *,
        workers: int,
        seconds: float | None,
        listen: str | None,
    ) -> None:
        self._stores = stores
        self._locations = Locations(stores.url, stores.locks, namespace, str(directory))
        from_url(stores.url, settings=Settings(), needs=[Capability.PROCESSES])
        self._app: App = self._locations.app()
        define(self._app)
        self._size = workers
        self._seconds = seconds
        self._listen = listen
        self._front: Worker | None = None
        self._workers: dict[str, Worker] = {}
        self._started = 0
        self._frozen: dict[str, float] = {}
        """When each frozen worker is resumed."""
        self._held: tuple[str, float] | None = None
        """The lane that is held, and until when."""
        self._harm = Harm()
        self._stop = asyncio.Event()
        self._states: dict[str, int] = {}
        self._looked = 0.0
        self.minutes = Minutes(directory)
        logging.getLogger("interlock").addHandler(logging.NullHandler())  # the screen shows the narration

    async def run(self, screen: Screen) -> Findings:
        """Run the demo from beginning to end, and audit it."""
        async with self._app:
            try:
                for _ in range(self._size):
                    self._start()
                url = await self._open_front()
                door = HttpDoor(url) if url is not None else HandDoor(self._app)
                sender = Sender(door, self.minutes, self._stores.first_issue, lambda: audit.under_way)
                audit = Audit(sender.run)
                narration = Narration(screen, audit)
                self._heed_signals(narration)
                narration.begin(self._stores.told, self._size, url)
                await asyncio.gather(*(self._ready(name) for name in self._workers))
                try:
                    await self._play(narration, audit, sender)
                finally:
                    sender.cancel()
                await self._end()
                audit.hear(self.minutes.new())
                return audit.close()
            finally:
                for worker in (*self._workers.values(), *filter(None, [self._front])):
                    worker.kill()
                self.minutes.close()

    def _heed_signals(self, narration: Narration) -> None:
        """End gracefully at the first signal, immediately at the second."""
        loop = asyncio.get_running_loop()
        running = asyncio.current_task()
        assert running is not None

        def on_signal() -> None:
            if self._stop.is_set():
                running.cancel()
            else:
                self._stop.set()
                narration.say("ending: accepted work is handled first; press Ctrl-C again to stop immediately")

        for number in stop_signals():
            loop.add_signal_handler(number, on_signal)

    # -- the run --------------------------------------------------------------------------------------------------

    async def _play(self, narration: Narration, audit: Audit, sender: Sender) -> None:
        """Run until the time is over or a signal arrives, and then until everything accepted is handled."""
        begun = time.monotonic()
        sender.start()
        while not self._stop.is_set():
            now = time.monotonic() - begun
            if self._seconds is not None and now >= self._seconds:
                self._stop.set()
                narration.say("time is over: accepted work is handled first")
            await self._tick(now, narration, audit)
            await self._do_harm(now, narration, sender)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._stop.wait()
        finishing = asyncio.create_task(sender.finish())
        await self._let_go(narration)
        patience = time.monotonic() + _PATIENCE
        try:
            while (audit.under_way or not finishing.done()) and time.monotonic() < patience:
                await self._tick(time.monotonic() - begun, narration, audit)
                await asyncio.sleep(_TICK)
            if finishing.done():
                finishing.result()  # a failed forge would prove nothing
        finally:
            finishing.cancel()
        await self._tick(time.monotonic() - begun, narration, audit)

    async def _tick(self, now: float, narration: Narration, audit: Audit) -> None:
        self._thaw(now)
        self._check_processes()
        for record in self.minutes.new():
            if record["what"] == "frozen":
                self._frozen[record["who"]] = now + FROZEN_SECONDS
            narration.hear([record])
            audit.hear([record])
        await self._look(now, narration)
        narration.see(now, self._seconds, self._states, list(self._workers))

    async def _look(self, now: float, narration: Narration) -> None:
        """The number of jobs in each state, only for the screen."""
        if now < self._looked + _LOOK_EVERY:
            return
        self._looked = now
        try:
            self._states = (await self._app.insight.pulse())["states"]
        except StoreUnavailableError as error:
            narration.say(error.message)

    # -- faults ----------------------------------------------------------------------------------------------------

    async def _do_harm(self, now: float, narration: Narration, sender: Sender) -> None:
        if self._held is not None and now >= self._held[1]:
            await self._let_go(narration)
        if self._held is None and (lane := self._harm.hold(now, sender.open_lanes)):
            self._held = lane, now + HOLD_SECONDS
            narration.held = f"{lane}: {HOLD_REASON}"
            with contextlib.suppress(StoreUnavailableError):
                await self._app.lanes.hold(lane, reason=HOLD_REASON, by="ann")
                narration.say(f"ann holds {lane}: its jobs wait")
        if self._seconds is not None and now > self._seconds - SESSION_SECONDS and self._started > self._size:
            return  # leave time for the takeover
        at_hand = [name for name in self._workers if name not in self._frozen]
        chosen = self._harm.victim(now, narration.holders, at_hand)
        if chosen is None:
            return
        how, name = chosen
        if how == "kill":
            self._kill(name)
            self._start()
        else:
            self._frozen[name] = math.inf  # it suspends itself when it holds a lock, and records that
            self._workers[name].send("freeze")

    async def _let_go(self, narration: Narration) -> None:
        """Release the held lane; at the end, also lanes that are held at the dashboard."""
        lanes = [] if self._held is None else [self._held[0]]
        if self._stop.is_set():
            with contextlib.suppress(StoreUnavailableError):
                lanes += [row.lane.lane for row in await self._app.insight.lanes(show="held")]
        for lane in dict.fromkeys(lanes):
            with contextlib.suppress(StoreUnavailableError):
                if await self._app.lanes.release(lane, by="ann"):
                    narration.say(f"{lane} is released")
        self._held, narration.held = None, ""

    def _kill(self, name: str) -> None:
        worker = self._workers.pop(name)
        os.kill(worker.pid, signal.SIGKILL)
        sent = time.monotonic()
        worker.kill()
        self.minutes.note("director", "killed", victim=name, sent=sent)

    def _thaw(self, now: float) -> None:
        for name, at in list(self._frozen.items()):
            if now >= at:
                del self._frozen[name]
                if name in self._workers:
                    self._workers[name].resume()

    # -- processes -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._started += 1
        name = f"worker-{self._started}"
        self._workers[name] = self._spawn("work", name)
        self.minutes.note("director", "started", worker=name, again=self._started > self._size)

    def _spawn(self, role: str, name: str, *more: str) -> Worker:
        args = [name, self._locations.namespace, self._locations.directory, *more]
        return Worker.spawn(f"interlock.cli.demo.worker:{role}", args, env=self._locations.environment)

    async def _open_front(self) -> str | None:
        """The dashboard's URL."""
        if self._listen is None:
            return None
        self._front = self._spawn("serve", _FRONT, self._listen)
        try:
            said = await self._front.wait_for(lambda message: message["name"] in ("ready", "refused"), _READY_SECONDS)
        except WorkerFailedError:
            self._check_processes()
            raise StoreError(f"The web app did not start within {_READY_SECONDS:g} s.") from None
        if said["name"] == "refused":
            raise MisuseError(said["message"], remedy=f"{said['remedy']} Or serve nothing: --no-web.")
        return str(said["dashboard"])

    async def _ready(self, name: str) -> None:
        try:
            await self._workers[name].wait_for("ready", _READY_SECONDS)
        except WorkerFailedError:
            self._check_processes()
            raise StoreError(f"{name} did not start within {_READY_SECONDS:g} s.") from None

    def _check_processes(self) -> None:
        """Replace workers that ended as designed; any other exit ends the demo."""
        for name, worker in list(self._workers.items()):
            if worker.returncode == _EXIT_STUCK:
                del self._workers[name]
                self._frozen.pop(name, None)
                worker.kill()
                self.minutes.note("director", "killed", victim=name, sent=time.monotonic(), itself=True)
                self._start()
        front = {} if self._front is None else {_FRONT: self._front}
        for name, worker in {**self._workers, **front}.items():
            if worker.returncode is not None:
                said = worker.stderr.strip().rpartition("\n")[2] or "nothing"
                raise StoreError(f"{name} ended by itself with status {worker.returncode}; its last output: {said}")

    async def _end(self) -> None:
        """Stop every process gracefully; the caller kills those that do not stop in time."""
        processes = [*self._workers.values(), *filter(None, [self._front])]
        for worker in processes:
            worker.resume()
            with contextlib.suppress(WorkerFailedError):
                worker.send("stop")
        await asyncio.gather(*(worker.wait(_STOP_SECONDS) for worker in processes), return_exceptions=True)
