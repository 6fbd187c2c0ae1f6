"""A worker of the demo: a process that uses locks, claims and limits and runs jobs, and may be killed any time."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.backends import from_url
from interlock.claims import Claims
from interlock.cli.demo.comments import CONCURRENCY, define, witnessed
from interlock.cli.demo.containers import Containers
from interlock.cli.demo.deliveries import Deliveries
from interlock.cli.demo.pushes import Pushes
from interlock.cli.demo.records import Notebook
from interlock.cli.demo.target import Target
from interlock.jobs import Jobs
from interlock.limits import Limits
from interlock.locks import Locks
from interlock.parties import acting_as
from interlock.ports.store import Capability
from interlock.presence import Presence
from interlock.settings import Settings
from interlock.testing.processes import receive_async, report

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOG", "URL", "work"]

LOG = "log.jsonl"
URL = "INTERLOCK_URL"
_HEARD = {"lock_waiting": "queued", "session_lost": "session lost", "job_quarantined": "comment quarantined"}
"""What is written down of Interlock's own events, and as what."""


async def work(name: str, namespace: str, directory: str, keys: Sequence[str], session_seconds: float) -> None:
    """Work until told to stop. The store's URL comes by the environment, where nobody else sees it."""
    settings = Settings(namespace=namespace, session_seconds=session_seconds, recheck_seconds=1.0)
    log, target = Notebook(Path(directory) / LOG, name), Target(Path(directory), name)
    _listen(log)
    pushes = Pushes(log, target, keys)
    with acting_as(name):
        async with AsyncExitStack() as stack:
            locks, once, limits = await _open(stack, settings, log)
            report("ready")
            working = [
                asyncio.create_task(pushes.work(locks)),
                asyncio.create_task(Deliveries(log, target, Path(directory)).work(once)),
                asyncio.create_task(Containers(log).work(limits)),
            ]
            others = [asyncio.create_task(_freeze_when_told(pushes)), asyncio.create_task(receive_async("stop"))]
            await asyncio.wait([*working, others[-1]], return_when=asyncio.FIRST_COMPLETED)
            for task in (*working, *others):
                task.cancel()
            await asyncio.wait([*working, *others])
            for task in working:
                if not task.cancelled():
                    task.result()


async def _open(stack: AsyncExitStack, settings: Settings, log: Notebook) -> tuple[Locks, Claims, Limits]:
    """What an ``App`` would open, on a store that is listened to; jobs are worked on from here on."""
    store = from_url(os.environ[URL], settings=settings)
    with_jobs = Capability.JOBS in store.capabilities
    presence = Presence(witnessed(store, log) if with_jobs else store, settings)
    locks = await stack.enter_async_context(Locks(presence))
    once = await stack.enter_async_context(Claims(presence))
    limits = await stack.enter_async_context(Limits(presence))
    if with_jobs:
        jobs = await stack.enter_async_context(Jobs(presence))
        define(jobs, log)
        await stack.enter_async_context(jobs.worker(concurrency=CONCURRENCY))
    return locks, once, limits


async def _freeze_when_told(pushes: Pushes) -> None:
    await receive_async("freeze")
    pushes.freeze = True


def _listen(log: Notebook) -> None:
    logger = logging.getLogger("interlock")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Listener(log))
    logger.propagate = False


class _Listener(logging.Handler):
    """Writes down what only Interlock itself knows, such as from when on a request stands in the queue."""

    def __init__(self, log: Notebook) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        what = _HEARD.get(getattr(record, "event", ""))
        if what is not None:
            fields = getattr(record, "fields", {})
            self._log.write(what, key=fields.get("key"), job=fields.get("id"))
