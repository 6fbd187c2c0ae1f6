"""Background work of a worker that is repeated for as long as the worker lives, whatever fails."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol, TypeVar

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    class Health(Protocol):
        """How well this process reaches the store."""

        @property
        def sound(self) -> bool:
            """Whether the store has been reachable for a while."""
            ...

        def note_trouble(self) -> None:
            """Note that the store was unavailable or slow."""
            ...


__all__ = ["Chore"]

_log = logging.getLogger("interlock.jobs")
T = TypeVar("T")


class Chore:
    """One kind of background work. Its failures are logged and it is tried again; none of them ends the worker.

    While the store is unavailable, that is logged when it begins and every 30 seconds; any other error every time.
    """

    def __init__(self, name: str, monotonic: Callable[[], float], health: Health | None = None) -> None:
        self._name = name
        self._health = health
        self._failure = LastingFailure(monotonic)

    @property
    def unavailable(self) -> bool:
        """Whether the last attempt failed because the store was unavailable."""
        return bool(self._failure.error)

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do the work once. Returns its result; None if it failed."""
        try:
            result = await work()
        except StoreUnavailableError as error:
            if self._health is not None:
                self._health.note_trouble()
            if self._failure.failed(error):
                emit(_log, logging.WARNING, "job_chore_failed", chore=self._name, error=one_line(error))
            return None
        except Exception as error:  # noqa: BLE001 - the work is tried again, whatever the error
            self._failure.over()
            emit(_log, logging.ERROR, "job_chore_failed", chore=self._name, error=one_line(error))
            return None
        self._failure.over()
        return result

    async def pause(self, seconds: float) -> None:
        """Wait about this long: a random factor keeps the workers of several processes apart."""
        await asyncio.sleep(seconds * random.uniform(0.75, 1.25))  # noqa: S311 - not for cryptography
