"""A worker of the demo: a process of its own that works under locks, claims and limits, and may be killed any time."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.app import App
from interlock.cli.demo.containers import Containers
from interlock.cli.demo.deliveries import Deliveries
from interlock.cli.demo.pushes import Pushes
from interlock.cli.demo.records import Notebook
from interlock.cli.demo.target import Target
from interlock.parties import acting_as
from interlock.settings import Settings
from interlock.testing.processes import receive_async, report

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOG", "URL", "work"]

LOG = "log.jsonl"
URL = "INTERLOCK_URL"


async def work(name: str, namespace: str, directory: str, keys: Sequence[str], session_seconds: float) -> None:
    """Work until told to stop. The store's URL comes by the environment, where nobody else sees it."""
    settings = Settings(namespace=namespace, session_seconds=session_seconds, recheck_seconds=1.0)
    log, target = Notebook(Path(directory) / LOG, name), Target(Path(directory), name)
    _listen(log)
    pushes = Pushes(log, target, keys)
    with acting_as(name):
        async with App(os.environ[URL], settings=settings) as app:
            report("ready")
            working = [
                asyncio.create_task(pushes.work(app.locks)),
                asyncio.create_task(Deliveries(log, target, Path(directory)).work(app.once)),
                asyncio.create_task(Containers(log).work(app.limits)),
            ]
            others = [asyncio.create_task(_freeze_when_told(pushes)), asyncio.create_task(receive_async("stop"))]
            await asyncio.wait([*working, others[-1]], return_when=asyncio.FIRST_COMPLETED)
            for task in (*working, *others):
                task.cancel()
            await asyncio.wait([*working, *others])
            for task in working:
                if not task.cancelled():
                    task.result()


async def _freeze_when_told(pushes: Pushes) -> None:
    await receive_async("freeze")
    pushes.freeze = True


def _listen(log: Notebook) -> None:
    logger = logging.getLogger("interlock")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Listener(log))
    logger.propagate = False


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
