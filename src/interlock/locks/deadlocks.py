"""Trying again after a deadlock: whoever was told of a cycle gives back what it held, and starts over."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import random
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from interlock.errors import DeadlockError, InvalidArgumentError
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from interlock.telemetry.metrics import LockMetrics

__all__ = ["retry_on_deadlock"]

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("interlock.locks")


def retry_on_deadlock(
    metrics: Callable[[], LockMetrics], max_retries: int, base_delay: float, max_delay: float, jitter: float
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """A decorator that runs an async function again, up to ``max_retries`` times, when it ends in a deadlock.

    The delay doubles from ``base_delay`` up to ``max_delay``, with up to ``jitter`` seconds more or less.
    """
    for name, value in (("base_delay", base_delay), ("max_delay", max_delay), ("jitter", jitter)):
        if not (math.isfinite(value) and value >= 0):
            raise InvalidArgumentError(f"{name} is {value!r}.", remedy="Use a number of seconds from 0 up.")
    if max_retries < 0:
        raise InvalidArgumentError(f"max_retries is {max_retries!r}.", remedy="Use a whole number from 0 up.")

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(function)
        async def retrying(*args: P.args, **kwargs: P.kwargs) -> R:
            for attempt in range(max_retries + 1):
                try:
                    return await function(*args, **kwargs)
                except DeadlockError as error:
                    if attempt == max_retries:
                        raise DeadlockError(
                            f"{function.__qualname__} met a deadlock again after {max_retries} deadlock retries: "
                            f"{error.message}",
                            cycle=error.cycle,
                        ) from error
                    spread = random.uniform(-jitter, jitter)  # noqa: S311 - only keeps the callers apart
                    delay = max(0.0, min(base_delay * 2**attempt, max_delay) + spread)
                    metrics().deadlock_retries += 1
                    emit(_log, logging.WARNING, "deadlock_retry", attempt=attempt + 1, delay=delay, cycle=error.cycle)
                await asyncio.sleep(delay)
            raise AssertionError("unreachable")  # pragma: no cover

        return retrying

    return decorate
