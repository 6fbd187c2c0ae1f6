"""Retries after a deadlock: the caller that gets the error releases what it holds and starts over."""

from __future__ import annotations

import asyncio
import functools
import logging
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
    """Return a decorator that runs an async function again, up to ``max_retries`` times, after a deadlock.

    The delay doubles from ``base_delay`` up to ``max_delay``, with up to ``jitter`` seconds more or less.
    """
    if max_retries < 0:
        raise InvalidArgumentError(f"Invalid max_retries {max_retries!r}.", remedy="Use a whole number from 0 up.")

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(function)
        async def retrying(*args: P.args, **kwargs: P.kwargs) -> R:
            for attempt in range(max_retries + 1):
                try:
                    return await function(*args, **kwargs)
                except DeadlockError as error:
                    if attempt == max_retries:
                        raise DeadlockError(
                            f"{function.__qualname__} still met a deadlock after {max_retries} retries: "
                            f"{error.message}",
                            cycle=error.cycle,
                        ) from error
                    spread = random.uniform(-jitter, jitter)  # noqa: S311 - only spreads the callers
                    delay = max(0.0, min(base_delay * 2**attempt, max_delay) + spread)
                    metrics().deadlock_retries += 1
                    emit(_log, logging.WARNING, "deadlock_retry", attempt=attempt + 1, delay=delay, cycle=error.cycle)
                await asyncio.sleep(delay)
            raise AssertionError("unreachable")  # pragma: no cover

        return retrying

    return decorate
