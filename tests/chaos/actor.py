"""What the processes of all runs have in common: they open a store, work in several tasks, and keep a journal."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from interlock import Settings
from interlock.errors import StoreUnavailableError
from interlock.testing.processes import report
from tests.chaos.records import Journal

if TYPE_CHECKING:
    from interlock.service import Service

__all__ = ["Actor", "BasePlan", "Ear", "current", "run_process"]

current: ContextVar[Actor | None] = ContextVar("chaos_actor", default=None)
"""Whose work this is, where several share a process."""


@dataclass(frozen=True, kw_only=True)
class BasePlan:
    """What every process of a run is told."""

    url: str
    folder: str
    tasks: int = 3
    session_ttl: float = 3.0
    recheck_interval: float = 1.0
    store_wait: float = 8.0
    seconds: float = 60.0
    """After so long it stops by itself, whatever happens."""
    sabotage: str = ""
    """Breaks a promise on purpose, to see the checker notice."""

    @property
    def settings(self) -> Settings:
        return Settings(
            session_ttl=self.session_ttl,
            recheck_interval=self.recheck_interval,
            store_wait=self.store_wait,
            stuck_work="exit",
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, plan: dict[str, Any]) -> Self:
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in plan.items()})


class Actor:
    """One process's worth of work: a few tasks that share one way to the store."""

    def __init__(self, plan: BasePlan, who: str, seed: int, face: Service[Any]) -> None:
        self._base = plan
        self._face = face
        self.who = who
        self.dice = random.Random(seed)
        self.stopping = asyncio.Event()
        self._journal = Journal(Path(plan.folder), who)

    def note(self, event: str, **fields: Any) -> None:
        self._journal.note(event, **fields)

    async def work(self, number: int) -> None:
        """Be one of the tasks, until cancelled."""
        raise NotImplementedError

    def opened(self) -> None:
        """The store is there."""

    async def run(self) -> None:
        """Work until stopped, or until the plan's time is over."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.work(number)) for number in range(self._base.tasks)]
            try:
                async with asyncio.timeout(self._base.seconds):
                    await self.stopping.wait()
            except TimeoutError:
                pass
            for task in tasks:
                task.cancel()

    def stop(self) -> None:
        """Cancel everything under way, as a process that shuts down does."""
        self.stopping.set()

    async def open(self) -> None:
        """Open the store, however long it is away."""
        current.set(self)
        give_up = time.monotonic() + self._base.seconds
        while True:
            try:
                await self._face.open()
            except StoreUnavailableError as error:
                self.note("open_failed", error=str(error))
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.1)
            else:
                break
        self.opened()

    async def close(self) -> None:
        await self._face.close()
        self.note("closed")

    def let_go(self) -> None:
        """Close the files."""
        self._journal.close()


class Ear(logging.Handler):
    """Turns the library's own events into events of the journal of the actor they are about."""

    _HEARD = frozenset(
        (
            "lease_lost",
            "claim_lost",
            "reservation_lost",
            "session_lost",
            "work_overran_session",
            "background_task_failed",
            "job_acknowledgement_refused",
            "job_rescued",
            "job_quarantined",
        )
    )

    _NEVER = frozenset(
        (
            "job_claim_failed",
            "job_settlement_failed",
            "job_settlement_dropped",
            "job_chore_failed",
            "job_runner_failed",
            "job_parked",
        )
    )
    """What no fault excuses, where it is reported as an error."""

    def __init__(self, only: Actor | None = None) -> None:
        super().__init__(logging.DEBUG)
        self._only = only
        self._logger = logging.getLogger("interlock")

    def __enter__(self) -> Ear:
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        actor = current.get() or self._only  # the heartbeat's thread has no context of ours
        event = getattr(record, "event", None)
        if actor is not None and event in self._HEARD:
            actor.note(event, **record.__dict__["fields"])
        if actor is not None and event in self._NEVER and record.levelno >= logging.ERROR:
            actor.note("oops", what=f"{event}: {record.__dict__['fields']}")


async def run_process(actor: Actor) -> None:
    """Be one process of a run until SIGTERM."""
    loop = asyncio.get_running_loop()

    def unhandled(_: object, context: dict[str, Any]) -> None:
        # asyncpg leaves a future behind when a server goes away in the middle of connecting; it raises as well.
        known = "unexpected connection_lost() call" in str(context.get("exception"))
        actor.note("noise" if known else "oops", what=context["message"], trace=repr(context.get("exception")))

    loop.set_exception_handler(unhandled)
    loop.add_signal_handler(signal.SIGTERM, actor.stop)
    with Ear(actor):
        await actor.open()
        report("ready")
        await actor.run()
        await actor.close()
