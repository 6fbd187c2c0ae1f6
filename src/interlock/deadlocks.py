"""Recognize deadlocks and run functions again after one. One implementation for locks, records and users' own tables.

A deadlock is found in one of two places. Interlock's wait graph refuses the wait that would close a cycle, at once.
PostgreSQL looks for a deadlock among its row locks when a statement has waited for ``deadlock_timeout`` (1 s by
default), and ends one of the transactions with SQLSTATE 40P01. SQLite has one writer at a time and so reports no
deadlocks: its "database is locked" means that a wait timed out, and is not recognized here.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import random
import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from interlock.arguments import Seconds, checked_seconds
from interlock.errors import DeadlockError, InvalidArgumentError, LockTimeoutError, MisuseError
from interlock.telemetry.log import emit
from interlock.telemetry.metrics import PROCESS_DEADLOCKS, DeadlockCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DeadlockError", "is_deadlock_error", "retry_on_deadlock", "sqlstate_of"]

P = ParamSpec("P")
R = TypeVar("R")

_DEADLOCK_DETECTED = "40P01"
_PHRASES = ("deadlock detected", "40p01")
_MAX_CAUSES = 16
_log = logging.getLogger("interlock.deadlocks")


def is_deadlock_error(error: BaseException) -> bool:
    """Return whether an error reports a deadlock: of Interlock's own waits, or of PostgreSQL's row locks.

    An error of a PostgreSQL driver is judged by its SQLSTATE, and by its message only if it has none. Errors that wrap
    a driver's error are followed to it: SQLAlchemy's by ``orig``, those of Django and Interlock by ``__cause__``. An
    exception group is a deadlock if all its errors are.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_deadlock_error(member) for member in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    return any(_reports_deadlock(cause) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and the errors that it wraps."""
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):  # a chain of causes can be a cycle
        if current is None:
            return
        yield current
        wrapped = getattr(current, "orig", None)
        current = wrapped if isinstance(wrapped, BaseException) else current.__cause__


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of the driver's error that an error is or wraps; None if there is none."""
    return next((code for code in map(_sqlstate, _causes(error)) if code is not None), None)


def _sqlstate(error: BaseException) -> str | None:
    for attribute in ("sqlstate", "pgcode"):  # asyncpg and psycopg 3; psycopg 2
        code = getattr(error, attribute, None)
        if isinstance(code, str):
            return code
    return None


def _reports_deadlock(error: BaseException) -> bool:
    if isinstance(error, DeadlockError):
        return True
    code = _sqlstate(error)
    if code is not None:
        return code == _DEADLOCK_DETECTED
    if all(kind.__name__ != "DatabaseError" for kind in type(error).__mro__):
        return False  # every DB API driver has a class of this name (PEP 249); other errors may quote anything
    text = str(error).lower()
    return any(phrase in text for phrase in _PHRASES)


def retry_on_deadlock(
    max_retries: int = 3,
    base_delay: Seconds = 0.1,
    max_delay: Seconds = 2.0,
    jitter: Seconds = 0.05,
    *,
    lock_timeouts: bool = False,
    counts: Callable[[], DeadlockCounts] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that runs a function again after a deadlock, ``max_retries`` times in all.

    The function is ``async def`` or plain ``def``. It has to release everything it holds when it raises, and begin its
    own transaction each time. The delay doubles from ``base_delay`` up to ``max_delay``, give or take ``jitter``.
    Each retry is logged and counted. After the last attempt the decorator raises :class:`DeadlockError`, whose
    ``deadlock_info`` has ``max_retries``, ``last_error`` and, if Interlock found the deadlock, the ``cycle``. Other
    errors propagate at once.

    With ``lock_timeouts=True`` it also runs the function again after a :class:`LockTimeoutError`, which means that
    nothing was granted and nothing was written. After the last attempt that error is raised as it is.

    ``counts`` returns the counts to add to; the default is those of the process, which are part of every app's
    metrics.
    """
    if not _is_count(max_retries):
        raise InvalidArgumentError(
            f"Invalid max_retries {max_retries!r}.",
            remedy="It counts attempts: use a whole number from 1 up, as in @retry_on_deadlock(max_retries=3).",
        )
    delays = _Delays(
        max_retries,
        checked_seconds("base_delay", base_delay),
        checked_seconds("max_delay", max_delay),
        checked_seconds("jitter", jitter),
        counts,
        lock_timeouts=lock_timeouts,
    )

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidArgumentError(
                f"{_name(function)} is a generator, which cannot be run again.", remedy="Decorate a function."
            )
        if _is_async(function):
            return cast("Callable[P, R]", _retry_async(cast("Callable[..., Any]", function), delays))
        return _retry_sync(function, delays)

    return decorate


def _retry_async(function: Callable[..., Any], delays: _Delays) -> Callable[..., Any]:
    @functools.wraps(function)
    async def retrying(*args: Any, **kwargs: Any) -> Any:
        attempt = 1
        while True:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                delay = delays.after(attempt, error, function)
                if delay is None:
                    raise
            await asyncio.sleep(delay)
            attempt += 1

    return retrying


def _retry_sync(function: Callable[P, R], delays: _Delays) -> Callable[P, R]:
    @functools.wraps(function)
    def retrying(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = 1
        while True:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                delay = delays.after(attempt, error, function)
                if delay is None:
                    raise
            else:
                if inspect.iscoroutine(result):
                    result.close()
                    raise MisuseError(
                        f"{_name(function)} returned a coroutine, whose deadlocks would not be retried.",
                        remedy="Declare it with async def.",
                    )
                return result
            time.sleep(delay)
            attempt += 1

    return retrying


class _Delays:
    """How often and after which delays to try again."""

    def __init__(
        self,
        max_retries: int,
        base_delay: float,
        max_delay: float,
        jitter: float,
        counts: Callable[[], DeadlockCounts] | None,
        *,
        lock_timeouts: bool = False,
    ) -> None:
        self._max_retries = max_retries
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._jitter = jitter
        self._counts = counts
        self._lock_timeouts = lock_timeouts

    def after(self, attempt: int, error: Exception, function: Callable[..., Any]) -> float | None:
        """The delay after an attempt that failed; None if its error is not retried.

        Raises ``DeadlockError`` after the last attempt that met a deadlock.
        """
        if self._lock_timeouts and isinstance(error, LockTimeoutError):
            if attempt >= self._max_retries:
                return None
            delay = self._delay(attempt)
            emit(
                _log,
                logging.WARNING,
                "lock_timeout_retry",
                function=_name(function),
                attempt=attempt,
                max_retries=self._max_retries,
                delay=delay,
                error=str(error),
            )
            return delay
        if not is_deadlock_error(error):
            return None
        counts = PROCESS_DEADLOCKS if self._counts is None else self._counts()
        own = _own_error(error)
        if own is None:  # Interlock counts its own where it finds them
            counts.count_detection()
        if attempt >= self._max_retries:
            raise DeadlockError(
                f"Operation failed after {self._max_retries} deadlock retries.",
                {"max_retries": self._max_retries, "last_error": str(error)},
                cycle=() if own is None else own.cycle,
            ) from error
        counts.count_retry()
        delay = self._delay(attempt)
        emit(
            _log,
            logging.WARNING,
            "deadlock_retry",
            function=_name(function),
            attempt=attempt,
            max_retries=self._max_retries,
            delay=delay,
            error=str(error),
        )
        return delay

    def _delay(self, attempt: int) -> float:
        spread = random.uniform(-self._jitter, self._jitter)  # noqa: S311 - only spreads the callers
        return max(0.0, min(self._base_delay * 2.0 ** min(attempt - 1, 64), self._max_delay) + spread)


def _own_error(error: BaseException) -> DeadlockError | None:
    """Interlock's own error among what an error wraps."""
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((own for own in map(_own_error, members) if own is not None), None)
    return next((cause for cause in _causes(error) if isinstance(cause, DeadlockError)), None)


def _is_count(value: object) -> bool:
    """Whether it is a whole number from 1 up. It is a function if the decorator's parentheses were forgotten."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))
