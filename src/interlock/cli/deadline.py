"""A process that shuts down exits in time, even if its event loop or its output is blocked."""

from __future__ import annotations

import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from interlock.cli.output import say
from interlock.exits import exit_process

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Deadline"]


class Deadline:
    """Waits on a thread of its own, and exits with ``code`` when the time is up.

    Once it is armed only the end of the process ends it: a thread of a handler can hold up the interpreter's own end.
    """

    def __init__(self, code: int) -> None:
        self._code = code
        self._orders: SimpleQueue[tuple[float, Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._wait, name="interlock-deadline", daemon=True)

    def __enter__(self) -> Deadline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(None)

    def arm(self, seconds: float, act: Callable[[], None]) -> None:
        """Have ``act`` called on the thread, and exit after so many seconds. Safe in a signal handler.

        An earlier deadline stays.
        """
        self._orders.put((seconds, act))

    def _wait(self) -> None:
        exit_at: float | None = None
        while True:
            try:
                order = self._orders.get(timeout=None if exit_at is None else max(0.0, exit_at - time.monotonic()))
            except Empty:
                break
            if order is None:
                if exit_at is None:
                    return
                continue  # what is left in threads may still keep the interpreter from ending
            seconds, act = order
            asked = time.monotonic() + seconds
            exit_at = asked if exit_at is None else min(exit_at, asked)
            act()
        exit_process(self._code, partial(say, "Did not end in time; exits now."))
