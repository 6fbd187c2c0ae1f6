"""Operators that are killed: each performs operations in a process of its own until SIGKILL ends it.

:func:`run_rounds` runs in a fresh interpreter and forks an operator for each round, so that a round costs milliseconds.
An operator is killed either at an arbitrary moment or at a chosen step: before a statement on SQLite, after a write to
a socket elsewhere. Every operator goes through all subjects, so operations that an earlier one finished are repeated.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
import sqlite3
import time
from asyncio import selector_events
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.operations import Operations
from interlock.ports.events import NewEvent
from interlock.settings import Settings
from interlock.testing.processes import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.store import Store

__all__ = ["BY", "WHY", "Subjects", "dying_steps", "event", "run_rounds"]

Subjects = dict[str, list[Any]]
"""For each operation the jobs, lanes, locks, claims or events to perform it on, once each."""
BY, WHY = "operator", "killed in the middle"
_KEEP = 3600.0


def event(number: int, delivery: str, replay_of: int | None = None) -> NewEvent:
    """An event without jobs."""
    return NewEvent(number, "hook", delivery, "opened", "ann", "{}", _KEEP, replay_of, None, ())


def run_rounds(
    url: str, journal_url: str | None, subjects: Subjects, seed: int, rounds: int, planted: bool = False
) -> None:
    """Fork an operator for each round and have it killed; report how many were killed before they had finished."""
    dice = random.Random(seed)
    for place in filter(None, (url, journal_url)):
        from_url(place, settings=Settings())  # imports what the operators need
    killed = 0
    for n in range(rounds):
        step = dice.randrange(1, 120) if n % 2 else None
        order = dice.random()
        ready, started = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                asyncio.run(_operate(url, journal_url, subjects, order, step, started, planted))
            finally:
                os._exit(0)
        os.close(started)
        os.read(ready, 1)
        os.close(ready)
        if step is None:
            time.sleep(dice.uniform(0.0, 0.1))  # an arbitrary moment, not a wait for something
            os.kill(pid, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    report("killed", count=killed)


async def _operate(
    url: str,
    journal_url: str | None,
    subjects: Subjects,
    order: float,
    step: int | None,
    started: int,
    planted: bool,
) -> None:
    later = _plant() if planted else []
    die_at = dying_steps()
    store, durable = from_url(url, settings=Settings()), None
    await store.open()
    if journal_url is not None:
        durable = from_url(journal_url, settings=Settings())
        await durable.open()
    operations = Operations(store, None if durable is None else durable.journal)
    work = [(action, ref) for action, refs in subjects.items() for ref in refs]
    random.Random(order).shuffle(work)
    os.write(started, b".")
    if step is not None:
        die_at(step)
    for action, ref in work:
        await _perform(store, operations, action, ref)
        while later:
            await store.journal.add(later.pop())


async def _perform(store: Store, operations: Operations, action: str, ref: Any) -> None:
    how = {"by": BY, "reason": WHY}
    match action:
        case "job.retry":
            await operations.retry(ref, **how)
        case "job.cancel":
            await operations.cancel(ref, **how)
        case "lane.hold":
            await operations.hold(ref, **how)
        case "lane.release":
            await operations.release(ref, **how)
        case "lock.force_release":
            await operations.force_release(ref, **how)
        case "claim.forget":
            await operations.forget_claim(ref, **how)
        case _:
            (number,) = await store.jobs.ids(1)
            await operations.replay(event(number, f"replay of {ref}", ref), **how)


def dying_steps() -> Callable[[int], None]:
    """Count statements on SQLite and writes to sockets; return a function that chooses the one to die at."""
    left = 0

    def die_at(step: int) -> None:
        nonlocal left
        left = step

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    @functools.wraps(connect)
    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    write = transport.write

    def counted(self: Any, data: Any) -> None:
        write(self, data)
        count()

    transport.write = counted
    return die_at


def _plant() -> list[Any]:
    """Break the promise on SQLite: collect entries instead of writing them with their change."""
    from interlock.backends.sqlite import claims, job_rows, locks

    later: list[Any] = []
    for module in (claims, job_rows, locks):
        module.add_entry = lambda *given: later.append(given[-1])  # type: ignore[attr-defined,assignment]
    return later
