"""Writes together what was asked for while the last write was under way.

The writer's thread shares its commits between callers already. What this spares is the work for each of them, which
would have to take turns with a busy event loop, statement by statement.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Gathering"]

T = TypeVar("T")
R = TypeVar("R")
_BREATH = 2


class Gathering(Generic[T, R]):
    """Hands several callers' things to one call of ``write``, which answers for each thing.

    What was handed in is written also if its caller was cancelled meanwhile. One caller waits for one write of others
    at most before its own begins.
    """

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Sequence[T], asyncio.Future[Sequence[R]]]] = []
        self._work: asyncio.Task[None] | None = None

    async def do(self, things: Sequence[T]) -> Sequence[R]:
        """Write these; the answers in their order."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Sequence[R]] = loop.create_future()
        self._waiting.append((things, outcome))
        if self._work is None:
            self._work = loop.create_task(self._run())
        return await outcome

    async def close(self) -> None:
        """Write what was handed in, then stop."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _run(self) -> None:
        try:
            while self._waiting:
                for _ in range(_BREATH):  # what others are about to hand in goes along
                    await asyncio.sleep(0)
                batch, self._waiting = self._waiting, []
                await self._do(batch)
        finally:
            self._work = None

    async def _do(self, batch: list[tuple[Sequence[T], asyncio.Future[Sequence[R]]]]) -> None:
        try:
            answers = await self._write([thing for things, _ in batch for thing in things])
        except Exception as error:  # noqa: BLE001 - every caller hears what happened
            if len(batch) > 1 and not isinstance(error, StoreUnavailableError):
                for one in batch:  # one of them is at fault, and the others shall not suffer
                    await self._do([one])
                return
            for _, outcome in batch:
                if not outcome.done():
                    outcome.set_exception(error)
            return
        begin = 0
        for things, outcome in batch:
            if not outcome.done():
                outcome.set_result(answers[begin : begin + len(things)])
            begin += len(things)
