"""A worker of the demo: a process of its own that takes locks, works under them, and may be killed at any point."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.demo.records import Notebook
from interlock.cli.demo.target import Target
from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.locks import FOREVER, Locks
from interlock.locks.parties import acting_as
from interlock.settings import Settings
from interlock.testing.processes import receive_async, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.locks import Lease

__all__ = ["LOG", "URL", "work"]

LOG = "log.jsonl"
URL = "INTERLOCK_URL"
_STEP = 0.12


async def work(name: str, namespace: str, directory: str, keys: Sequence[str], session_seconds: float) -> None:
    """Take locks and work until told to stop. The store's URL comes by the environment, where nobody else sees it."""
    settings = Settings(namespace=namespace, session_seconds=session_seconds, recheck_seconds=1.0)
    worker = _Worker(name, Path(directory))
    with acting_as(name):
        async with Locks.from_url(os.environ[URL], settings=settings) as locks:
            report("ready")
            working = asyncio.create_task(worker.work(locks, keys))
            freezing = asyncio.create_task(worker.freeze_when_told())
            stopping = asyncio.create_task(receive_async("stop"))
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            freezing.cancel()
            stopping.cancel()
            working.cancel()
            await asyncio.wait([working, freezing, stopping])
            if not working.cancelled():
                working.result()


class _Worker:
    def __init__(self, name: str, directory: Path) -> None:
        self._log = Notebook(directory / LOG, name)
        self._target = Target(directory, name)
        self._freeze = False
        self._random = random.Random()  # noqa: S311 - nothing here is a secret
        logger = logging.getLogger("interlock")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_Listener(self._log))
        logger.propagate = False

    async def freeze_when_told(self) -> None:
        await receive_async("freeze")
        self._freeze = True

    async def work(self, locks: Locks, keys: Sequence[str]) -> None:
        weights = range(len(keys), 0, -1)  # the first keys are the busier ones
        while True:
            (key,) = self._random.choices(keys, weights)
            self._log.write("asked", key=key)
            try:
                async with locks.acquire(key, wait=FOREVER) as lease:
                    lease.ensure()  # a process that stood still meanwhile would write down a grant long gone
                    self._log.write("granted", key=key, fence=lease.fence)
                    try:
                        await self._change(key, lease)
                    finally:
                        self._log.write("done", key=key, fence=lease.fence)
            except LeaseLostError as error:
                self._log.write("lost", key=key, why=error.message)
            except StoreUnavailableError as error:
                self._log.write("store away", key=key, why=error.message)
            await asyncio.sleep(self._random.uniform(0.02, 0.15))

    async def _change(self, key: str, lease: Lease) -> None:
        for _ in range(self._random.randint(2, 6)):
            if not self._target.write(key, lease.fence):
                self._log.write("refused", key=key, fence=lease.fence)
                return
            await asyncio.sleep(_STEP)
            if self._freeze:
                self._freeze = False
                self._log.write("frozen", key=key, fence=lease.fence)
                os.kill(os.getpid(), signal.SIGSTOP)
                self._log.write("thawed", key=key, fence=lease.fence)


class _Listener(logging.Handler):
    """Writes down what only Interlock itself knows: from when on a request stands in the queue."""

    _EVENTS = ("lock_waiting", "session_lost")

    def __init__(self, log: Notebook) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", "")
        if event in self._EVENTS:
            key = getattr(record, "fields", {}).get("key")
            self._log.write("queued" if event == "lock_waiting" else "session lost", key=key)
