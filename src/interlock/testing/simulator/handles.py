"""A scheduled callback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from interlock.testing.simulator.processes import Process

__all__ = ["Handle"]


class Handle(asyncio.TimerHandle):
    """The result of ``call_soon`` and ``call_at``. It shares only the interface with asyncio's handles."""

    __slots__ = ("args", "at", "callback", "context", "dropped", "process")

    def __init__(
        self,
        at: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        process: Process,
    ) -> None:
        self.at = at
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.dropped = False

    def __repr__(self) -> str:
        return f"<Handle of {self.process.name} at {self.at:.6f}: {self.callback!r}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def cancel(self) -> None:
        """Cancel the callback."""
        self.dropped = True
        self.args = ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.dropped

    def when(self) -> float:
        """The loop's time at which it is due."""
        return self.at
