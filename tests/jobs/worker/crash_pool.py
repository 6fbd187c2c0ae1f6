"""Workers as real processes, which are replaced when a job kills them: ``python -m … URL WORKERS``.

Forked, so that a new one costs no start of an interpreter. What a dead one had is rescued at once instead of when its
session has run out, so that nothing here depends on how fast the machine is. Ends when its input does, and prints how
many workers died, and after how many seconds each.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from interlock import App, Settings
from interlock.backends import from_url

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from interlock.jobs import Job

__all__ = ["SETTINGS", "define"]

SETTINGS = Settings(session_ttl=120, recheck_interval=60, store_wait=30, stuck_work="report")
_KILLED = 9
_MAX_SECONDS = 240.0


def define(app: App) -> Job[[int, bool, float], int]:
    """The job that all of them know."""

    @app.job()
    async def build(number: int, poison: bool, seconds: float) -> int:
        await asyncio.sleep(seconds / 2)  # so that those beside it have started
        if poison:
            os._exit(_KILLED)
        await asyncio.sleep(seconds / 2)
        return number

    return build


async def _work(url: str) -> None:
    app = App(url, settings=SETTINGS)
    define(app)
    async with app, app.worker(concurrency=50):
        await asyncio.Event().wait()


async def _rescue(url: str, pid: int) -> None:
    store = from_url(url, settings=SETTINGS)
    await store.open()
    try:
        for found in await store.insight.workers(limit=100):
            if found.worker.pid == pid:
                await store.sessions.end(found.worker.session)
        await store.jobs.rescue()
    finally:
        await store.close()


def _fork(work: Coroutine[Any, Any, None]) -> int:
    pid = os.fork()
    if pid:
        work.close()
        return pid
    code = 1
    try:
        asyncio.run(work)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main(url: str, workers: int) -> None:
    """Keep so many workers alive."""
    began = time.monotonic()
    crashes: list[float] = []
    alive = {_fork(_work(url)) for _ in range(workers)}
    try:
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            if time.monotonic() - began > _MAX_SECONDS:
                raise TimeoutError
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                alive.remove(pid)
                assert os.waitstatus_to_exitcode(status) == _KILLED, status
                crashes.append(round(time.monotonic() - began, 2))
                assert os.waitpid(_fork(_rescue(url, pid)), 0)[1] == 0
                alive.add(_fork(_work(url)))
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    print(json.dumps(crashes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
