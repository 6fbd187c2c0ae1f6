"""One process of a records run: it changes shared records in every way, and notes each change before and after it."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from interlock import App
from interlock.errors import (
    ConcurrencyConflictError,
    DeadlockError,
    LeaseLostError,
    LockTimeoutError,
    StoreUnavailableError,
)
from tests.chaos.actor import Actor, BasePlan, run_process

if TYPE_CHECKING:
    from interlock.records import Records

__all__ = ["INCREMENTS", "Counted", "RecordPlan", "declare", "increments_of", "run"]

INCREMENTS = ("edit", "update")
_KINDS = ("edit",) * 4 + ("update",) * 4 + ("correct", "transition")
_NOT_MADE = (LockTimeoutError, ConcurrencyConflictError, DeadlockError)
_UNKNOWN = (StoreUnavailableError, LeaseLostError)
_SEAL_SECONDS = 0.5
_CALM_SECONDS = 0.3


class Counted(BaseModel):
    """A shared record. It has no machine, so each transition can give it a status of its own."""

    id: str
    version: int = 0
    status: str = "new"
    count: int = 0
    mark: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordPlan(BasePlan):
    """The work of every process of a records run."""

    records: int = 10
    increments: int = 1000
    """How many increments the processes of one slot acknowledge at least."""
    tasks: int = 4
    """One of them seals."""


def declare(app: App) -> Records[Counted]:
    return app.records(Counted, wait=20)


def increments_of(folder: Path, slot: str) -> int:
    """How many increments the processes of a slot have acknowledged."""
    journals = (path.read_bytes() for path in folder.glob(f"{slot}.*.journal"))
    return sum(text.count(b'"event": "done", "increment": true') for text in journals)


class _Face:
    """An app, opened and closed like a service."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def open(self) -> None:
        await self._app.__aenter__()

    async def close(self) -> None:
        await self._app.__aexit__(None, None, None)


class Changer(Actor):
    """One process's worth of changes."""

    def __init__(self, plan: RecordPlan, who: str, seed: int) -> None:
        self.app = App(plan.url, settings=plan.settings)
        self.records = declare(self.app)
        super().__init__(plan, who, seed, _Face(self.app))  # type: ignore[arg-type]
        self.plan = plan
        self._count = 0
        # A change that a predecessor had under way when it was killed may have been made. It is not counted here.
        self._left = plan.increments - increments_of(Path(plan.folder), who.partition(".")[0])

    async def work(self, number: int) -> None:
        if number == 0:
            await self._seal()
        while True:
            await self._turn(self.dice.choice(_KINDS))
            if self._left <= 0:
                await asyncio.sleep(_CALM_SECONDS)  # others are not done, and faults need something to hit

    async def _seal(self) -> None:
        """Seal again and again; other processes do the same at the same time."""
        while True:
            try:
                await self.app.journal.seal()
            except StoreUnavailableError:
                pass
            except Exception as error:
                self.note("oops", what=repr(error), trace=traceback.format_exc())
            await asyncio.sleep(_SEAL_SECONDS * self.dice.random())

    async def _turn(self, kind: str) -> None:
        """Make one change, with a name that its journal entry has as its actor."""
        self._count += 1
        name, id_ = f"{self.who}:{self._count}", f"r{self.dice.randrange(self.plan.records)}"
        increment = kind in INCREMENTS
        self._left -= increment
        self.note("try", change=name, kind=kind, record=id_)
        try:
            await self._change(kind, id_, name)
        except _NOT_MADE as error:
            self.note("refused", change=name, error=type(error).__name__)
        except _UNKNOWN as error:
            self.note("unknown", change=name, error=type(error).__name__)
            await asyncio.sleep(0.05)
        except Exception as error:
            self.note("oops", what=repr(error), trace=traceback.format_exc())
        else:
            self.note("done", increment=increment, change=name)
            return
        self._left += increment

    async def _change(self, kind: str, id_: str, name: str) -> None:
        if kind == "edit":
            async with self.records.edit(id_, by=name) as counted:
                await asyncio.sleep(0.005 * self.dice.random())
                counted.count += 1
        elif kind == "update":
            await self.records.update(id_, _add, by=name)
        elif kind == "correct":
            done = await self.records.correct(id_, {"mark": name}, source=name, reason="chaos", key=name)
            assert not done.already_applied
        else:
            await self.records.transition(id_, name, by=name)


def _add(counted: Counted) -> None:
    counted.count += 1


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one process of a records run until SIGTERM."""
    await run_process(Changer(RecordPlan.from_json(plan), who, seed))
