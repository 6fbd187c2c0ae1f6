"""A simulated process as the event loop sees it: a queue of callbacks that is running, suspended or gone."""

from __future__ import annotations

from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from interlock.testing.simulator.handles import Handle

__all__ = ["PROCESS", "Process"]


class Process:
    """One process. The context in which a callback runs determines its process."""

    __slots__ = ("__weakref__", "_context", "crashed", "name", "number", "paused_until", "queue", "tasks")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.paused_until = 0.0
        self.crashed = False
        self.queue: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self._context = copy_context()
        self._context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name}{' crashed' if self.crashed else ''}>"

    def context(self) -> Context:
        """A new context whose callbacks and tasks belong to this process."""
        return self._context.copy()


PROCESS: ContextVar[Process] = ContextVar("interlock_simulated_process")
"""The process that the running callback belongs to."""
