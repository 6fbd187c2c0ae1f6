"""A decorator that runs a function again after a deadlock."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from bridge.core.errors import bridge_errors
from interlock import deadlocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["retry_on_deadlock"]

P = ParamSpec("P")
R = TypeVar("R")


def retry_on_deadlock(
    max_retries: int = 3,
    base_delay: float = 0.1,
    max_delay: float = 2.0,
    jitter: float = 0.05,
    *,
    lock_timeouts: bool = False,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Run a function again after a deadlock, ``max_retries`` times in all; then raise ``DeadlockError``.

    This is Interlock's decorator, which recognizes deadlocks of Interlock's locks and of PostgreSQL. With
    ``lock_timeouts`` a lock that was not free in time is retried too.
    """
    retry = deadlocks.retry_on_deadlock(max_retries, base_delay, max_delay, jitter, lock_timeouts=lock_timeouts)

    def decorator(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        async def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
            return await function(*args, **kwargs)

        retrying = retry(functools.wraps(function)(attempt))

        @functools.wraps(function)
        async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with bridge_errors():
                return await retrying(*args, **kwargs)

        return wrapper

    return decorator
