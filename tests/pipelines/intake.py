"""A pipeline over intents, and the processes that run it and are killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from interlock import App
from interlock.backends import from_url
from interlock.errors import LockTimeoutError
from interlock.records import Machine
from interlock.settings import Settings
from interlock.testing.processes import receive_async, report
from tests.journal.operator import dying_steps

if TYPE_CHECKING:
    from interlock.pipelines import Pipeline
    from interlock.records import Records

STAGES = ("input", "normalize", "feedback", "output")
STATUSES = {"input": "normalized", "normalize": "processed", "output": "completed"}
TTL = 3.0
"""Seconds until what a dead process had goes to another one."""


class Intent(BaseModel):
    """A record that counts what its stages do."""

    id: str
    status: str = "received"
    version: int = 0
    count: int = 0
    payload: dict[str, Any] = Field(default_factory=dict)


MACHINE = Machine(
    initial="received",
    transitions={
        "received": ["normalized", "processed", "failed"],
        "normalized": ["processed", "completed", "failed"],
        "processed": ["corrected", "completed", "failed"],
        "corrected": ["completed", "failed"],
    },
    corrected="corrected",
)


class Step:
    """A stage that counts its effect; the one named feedback also corrects its own record."""

    def __init__(self, name: str, intents: Records[Intent], reached: dict[str, asyncio.Event] | None = None) -> None:
        self.name = name
        self._intents = intents
        self._reached = reached or {}

    async def run(self, intent: Intent) -> None:
        if self.name in self._reached:
            self._reached[self.name].set()
        await asyncio.sleep(0.002)  # so that others can change the record meanwhile
        intent.count += 1
        intent.payload[self.name] = intent.payload.get(self.name, 0) + 1
        if self.name == "feedback":
            await self._intents.correct(intent.id, {"payload.own": 1}, source="stage", reason="feedback")
        if self.name in STATUSES:
            intent.status = STATUSES[self.name]


async def broken(intent: Intent) -> None:
    """A stage that fails."""
    intent.count = 99
    raise ValueError("out of order")


def declare(
    app: App, reached: dict[str, asyncio.Event] | None = None, *, fails: bool = False
) -> tuple[Records[Intent], Pipeline[Intent]]:
    """The records and the pipeline of an app. One that ``fails`` does so at its last stage."""
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])
    stages: list[object] = [Step(name, intents, reached) for name in STAGES]
    return intents, app.pipeline("intake", intents, stages=[*stages[:-1], broken] if fails else stages)


# -- killed processes --------------------------------------------------------------------------------------------------


def run_rounds(url: str, steps: list[int | None], seed: int, fails: bool = False, planted: bool = False) -> None:
    """Fork a process for each round, which is killed at a step or, for None, at an arbitrary moment.

    A step of 0 means every step from 1 on, each in a round of its own, until a process ends before it. ``planted``
    breaks the promise on SQLite.
    """
    if planted:
        _write_records_apart()
    dice = random.Random(seed)
    from_url(url, settings=Settings())  # imports what the processes need
    killed = number = 0
    for step in steps:
        at = step or None
        while True:
            number += 1
            chosen = 1 if step == 0 and at is None else at
            was_killed = _killed(url, f"r{number:04}", chosen, dice.uniform(0.0, 0.08), fails)
            killed += was_killed
            if step != 0 or not was_killed:
                break
            at = (at or 1) + 1
    report("killed", count=killed, rounds=number)


def _write_records_apart() -> None:
    """The planted bug: the change of the record and the checkpoint are two transactions."""
    from interlock.backends.sqlite.pipelines import SqlitePipelines
    from interlock.ports.records import Written

    save = SqlitePipelines.save

    async def apart(self: Any, checkpoint: Any) -> Any:
        if checkpoint.change is not None:
            (answer,) = await self._records.write([checkpoint.change])
            if not isinstance(answer, Written):
                return answer
            checkpoint = checkpoint._replace(change=None, version=answer.version)
        return await save(self, checkpoint)

    SqlitePipelines.save = apart  # type: ignore[method-assign]


def _killed(url: str, record_id: str, step: int | None, moment: float, fails: bool) -> bool:
    ready, started = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(_victim(url, record_id, step, started, fails))
        finally:
            os._exit(0)
    os.close(started)
    os.read(ready, 1)
    os.close(ready)
    if step is None:
        time.sleep(moment)  # an arbitrary moment, not a wait for something
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


async def _victim(url: str, record_id: str, step: int | None, started: int, fails: bool) -> None:
    """Run the pipeline while somebody corrects the record."""
    die_at = dying_steps()
    app = App(url, session_ttl=TTL)
    reached = {"normalize": asyncio.Event()}
    intents, pipeline = declare(app, reached, fails=fails)

    async def correct() -> None:
        await reached["normalize"].wait()
        await intents.correct(record_id, {"payload.fixed": 1}, source="kana", reason="wrong")

    async with app:
        await intents.create(Intent(id=record_id))
        correcting = asyncio.create_task(correct())
        os.write(started, b".")
        if step is not None:
            die_at(step)
        await pipeline.run(record_id)
        await correcting


# -- processes that meet -----------------------------------------------------------------------------------------------


async def run_slowly(url: str) -> dict[str, Any]:
    """Run the pipeline for the record ``a``, with a stage that waits for the test."""
    app = App(url, session_ttl=TTL)
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])

    async def slow(intent: Intent) -> None:
        intent.count += 1
        intent.status = "normalized"
        report("begun")
        await receive_async("go on")

    async def finish(intent: Intent) -> None:
        intent.status = "completed"

    pipeline = app.pipeline("meeting", intents, stages=[slow, finish])
    async with app:
        run = await pipeline.run("a", 30)
        return {"state": run.state, "count": run.record.count, "status": run.record.status}


async def run_meanwhile(url: str, wait: float) -> dict[str, Any]:
    """Run the same pipeline in another process, whose stages would count too."""
    app = App(url)
    intents = app.records(Intent, machine=MACHINE, correctable=["payload"])

    async def slow(intent: Intent) -> None:
        intent.count += 1
        intent.status = "normalized"

    async def finish(intent: Intent) -> None:
        intent.status = "completed"

    pipeline = app.pipeline("meeting", intents, stages=[slow, finish])
    async with app:
        report("running")
        try:
            run = await pipeline.run("a", wait)
        except LockTimeoutError as error:
            return {"error": str(error)}
        return {"state": run.state, "count": run.record.count, "status": run.record.status}
