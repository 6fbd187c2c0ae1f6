"""Huey on SQLite at its best: without fsync, results not kept. A job is acknowledged when taken, before it runs."""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
from typing import Any

from huey import SqliteHuey
from huey.consumer import Consumer, Worker

from benchmarks.jobs.worker_side import START, Acks
from interlock.testing.processes import receive, wait_at_barrier

__all__ = ["fill", "left", "prepare", "work"]

STEP = 100


def _opened(path: str) -> tuple[SqliteHuey, Any]:
    huey = SqliteHuey("bench", filename=path, fsync=False, results=False)

    @huey.task()
    def noop(number: int) -> None:
        return

    return huey, noop


async def prepare(path: str) -> None:
    _opened(path)


async def fill(path: str, jobs: int) -> None:
    huey, noop = _opened(path)
    connection = sqlite3.connect(path)
    rows = [(huey.name, huey.serialize_task(noop.s(number)), 0) for number in range(jobs)]
    with connection:
        connection.executemany("insert into task (queue, data, priority) values (?, ?, ?)", rows)
    connection.close()


async def left(path: str) -> int:
    connection = sqlite3.connect(path)
    try:
        count: int = connection.execute("select count(*) from task").fetchone()[0]
        return count
    finally:
        connection.close()


def work(path: str, workers: int = 1) -> None:
    logging.getLogger("huey").setLevel(logging.WARNING)
    huey, _ = _opened(path)
    acks = Acks()
    ended = itertools.count(1)
    reporting = threading.Lock()

    class Counting(Worker):  # type: ignore[misc]
        def loop(self, now: Any = None) -> None:
            before = self.task_count
            super().loop(now)
            if self.task_count > before and next(ended) % STEP == 0:
                with reporting:
                    acks.record_acknowledgements(STEP)

    class Bench(Consumer):  # type: ignore[misc]
        worker_class = Counting

    consumer = Bench(huey, workers=workers, periodic=False, initial_delay=0.005, max_delay=0.05)
    wait_at_barrier(START)
    acks.record_fetch()
    consumer.start()
    receive("stop")
    consumer.stop(graceful=True)
