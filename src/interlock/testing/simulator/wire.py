"""The connection from one process to its store, with its faults.

Each operation travels by itself, outside the process: once started, it continues even if its caller is cancelled,
suspended or killed. Operations on one key take effect in the order in which they were started, as the store's contract
requires, except for those that failed for their caller, which may take effect late.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.errors import StoreUnavailableError
from interlock.testing.simulator.errors import Crashed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from interlock.testing.simulator.faults import Dice, Plan
    from interlock.testing.simulator.loop import SeededLoop
    from interlock.testing.simulator.processes import Process

__all__ = ["Wire"]

T = TypeVar("T")


class Wire:
    """Carry the operations of one process to the store, and replies and messages back."""

    def __init__(
        self,
        loop: SeededLoop,
        process: Process,
        dice: Dice,
        *,
        pause: Callable[[Process, float], None],
        crash: Callable[[Process], None],
    ) -> None:
        self._loop = loop
        self._process = process
        self._dice = dice
        self._pause = pause
        self._crash = crash
        self._last: dict[str, asyncio.Future[None]] = {}

    async def call(
        self,
        name: str,
        lanes: Iterable[str],
        operation: Callable[[], Awaitable[T]],
        *,
        last_counts: bool = False,
        once: bool = False,
    ) -> T:
        """Perform an operation after earlier ones on the same lanes, with the faults drawn for it.

        If it is executed twice, the first answer is returned before the second execution. With ``last_counts``, the
        second answer is returned, as if the connection had retried by itself: for operations that may take something,
        and so must not take effect after their caller has gone. With ``once``, it is never executed twice, because a
        connection does not repeat operations that return something different each time.
        """
        process = self._process
        loop = self._loop
        if process.crashed:
            if loop.is_closed():
                raise Crashed  # its tasks are being cleaned up
            # The crash came in the middle of a step: the rest of the step ends here.
            return await loop.create_future()  # type: ignore[no-any-return]
        plan = self._dice.plan(loop.time())
        if once:
            plan.again_after = None
        if plan.pause:
            self._pause(process, plan.pause)
        if plan.crash == "crashed_before":
            self._crash(process)
            return await loop.create_future()  # type: ignore[no-any-return]
        answer: asyncio.Future[T] = loop.create_future()
        done: asyncio.Future[None] = loop.create_future()
        earlier = []
        for lane in lanes:
            before = self._last.get(lane)
            if before is not None and not before.done():
                earlier.append(before)
            self._last[lane] = done
        if last_counts and plan.again_after is not None:
            operation = _twice(operation, plan.again_after)
            plan.again_after = None
        loop.create_task(self._carry(plan, earlier, operation, answer, done), name=name, context=loop.world.context())
        return await answer

    def post(self, callback: Callable[..., None], *args: Any) -> None:
        """Deliver a message to the process."""
        for delay in self._dice.deliveries(self._loop.time()):
            self._loop.call_later(delay, callback, *args, context=self._process.context())

    async def _carry(
        self,
        plan: Plan,
        earlier: list[asyncio.Future[None]],
        operation: Callable[[], Awaitable[T]],
        answer: asyncio.Future[T],
        done: asyncio.Future[None],
    ) -> None:
        if plan.before:
            await asyncio.sleep(plan.before)
        for other in earlier:
            await other
        if self._process.crashed and plan.dropped_by_crash:
            done.set_result(None)
        elif plan.error == "refused":
            done.set_result(None)
            await self._fail(plan, answer)
        elif plan.error == "late":
            await self._fail(plan, answer)
            if answer.cancelled():  # its caller did not see a failure, so it has to keep its order
                await operation()
            done.set_result(None)
            if not answer.cancelled():
                await asyncio.sleep(plan.effect_after)
                await operation()
        else:
            await self._execute(plan, operation, answer, done)

    async def _execute(
        self,
        plan: Plan,
        operation: Callable[[], Awaitable[T]],
        answer: asyncio.Future[T],
        done: asyncio.Future[None],
    ) -> None:
        try:
            result = await operation()
        except Exception as error:  # noqa: BLE001 - an error of the store is the caller's
            done.set_result(None)
            if not answer.done():
                answer.set_exception(error)
            return
        if plan.again_after is None:
            done.set_result(None)
        else:
            self._loop.create_task(self._repeat(plan.again_after, operation, done))
        if plan.crash:
            self._crash(self._process)
        elif plan.error:
            await self._fail(plan, answer)
        else:
            if plan.after:
                await asyncio.sleep(plan.after)
            if not answer.done():
                answer.set_result(result)

    async def _repeat(self, after: float, operation: Callable[[], Awaitable[T]], done: asyncio.Future[None]) -> None:
        await asyncio.sleep(after)
        await operation()
        done.set_result(None)

    async def _fail(self, plan: Plan, answer: asyncio.Future[T]) -> None:
        await asyncio.sleep(plan.error_after + plan.after)
        if not answer.done():
            answer.set_exception(StoreUnavailableError(f"The simulated store failed: {plan.error}."))


def _twice(operation: Callable[[], Awaitable[T]], pause: float) -> Callable[[], Awaitable[T]]:
    async def again() -> T:
        await operation()
        await asyncio.sleep(pause)
        return await operation()

    return again
