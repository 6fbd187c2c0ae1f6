"""Cooldowns of accounts: the gap between two reports of one account, in every process.

The gap is a :class:`~interlock.Cooldown` with the name that the reports' job uses too, so a check, a wait and a report
are counted together. Reading the configuration and waiting happen outside any lock; a turn is reserved in one step of
the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from interlock import FOREVER, Cooldown
from interlock.errors import InterlockError
from sentinel.config import get_config
from sentinel.current import current_console

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from interlock import Reservation

__all__ = ["NAME", "Turns", "account_cooldown", "check_and_wait_cooldown", "check_cooldown"]

NAME = "account"
STALE_SECONDS = 3600
"""How long an unused turn is kept after its time."""


def account_cooldown(seconds: float) -> Cooldown:
    """Return the limit of reports per account."""
    return Cooldown(NAME, seconds, key="{account_id}")


async def check_cooldown(account_id: int) -> float:
    """Reserve the account's next turn and return the seconds until it; 0 means now.

    Nothing sleeps meanwhile: the turn is a row in the store and a timer in this process. If the calling task is
    cancelled before its time, the turn goes to the next caller.
    """
    config = await get_config()
    console = current_console()
    cooldown = account_cooldown(config["cooldown"])
    reservation = await console.app.limits.reserve(cooldown, account_id=account_id)
    try:
        started = await reservation.start()
    except BaseException:
        await asyncio.shield(reservation.finish())
        raise
    if started:
        await reservation.finish()  # the start counts; a cooldown has nothing to hold
        return 0.0
    return console.turns.add(reservation)


async def check_and_wait_cooldown(account_id: int) -> datetime:
    """Wait for the account's next turn and return when it came, by the store's clock.

    If the caller is cancelled, the turn goes to the next one.
    """
    config = await get_config()
    limits = current_console().app.limits
    async with limits.acquire(account_cooldown(config["cooldown"]), wait=FOREVER, account_id=account_id) as turn:
        assert turn.starts_at is not None
        return turn.starts_at


async def _cleanup_stale_cooldowns() -> int:  # pyright: ignore[reportUnusedFunction]
    """Give up turns of this process whose time passed more than an hour ago. Returns how many."""
    return await current_console().turns.cleanup(STALE_SECONDS)


class Turns:
    """The turns that :func:`check_cooldown` promised. Each is started when its time comes, so that it counts."""

    def __init__(self) -> None:
        self._waiting: dict[Reservation, asyncio.TimerHandle] = {}
        self._starting: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._starting)

    def add(self, reservation: Reservation) -> float:
        """Keep a turn until its time and return the seconds until then."""
        seconds = self._seconds_until(reservation)
        loop = asyncio.get_running_loop()
        self._waiting[reservation] = loop.call_later(seconds, self._begin, reservation)
        caller = asyncio.current_task()
        assert caller is not None
        caller.add_done_callback(lambda task: self._release(reservation) if task.cancelled() else None)
        return seconds

    def _release(self, reservation: Reservation) -> None:
        timer = self._waiting.pop(reservation, None)
        if timer is not None:
            timer.cancel()
            self._run(reservation.finish())

    def _begin(self, reservation: Reservation) -> None:
        del self._waiting[reservation]
        self._run(self._start(reservation))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._starting.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._starting.discard)

    async def _start(self, reservation: Reservation) -> None:
        with contextlib.suppress(InterlockError):  # the store drops a turn that cannot be started
            await reservation.start(wait=5)
            await reservation.finish()

    async def cleanup(self, older_than: float) -> int:
        """Give up what should have started this many seconds ago."""
        limit = datetime.now(UTC) - timedelta(seconds=older_than)
        stale = [one for one in self._waiting if one.starts_at is not None and one.starts_at <= limit]
        for reservation in stale:
            self._waiting.pop(reservation).cancel()
            await reservation.finish()
        return len(stale)

    async def close(self) -> None:
        """Give up every turn: with its process, the work for it ends too."""
        for timer in self._waiting.values():
            timer.cancel()
        waiting = list(self._waiting)
        self._waiting.clear()
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for reservation in waiting:
            with contextlib.suppress(InterlockError):
                await reservation.finish()

    @staticmethod
    def _seconds_until(reservation: Reservation) -> float:
        assert reservation.starts_at is not None  # a cooldown depends on the time alone
        return max(0.0, (reservation.starts_at - datetime.now(UTC)).total_seconds())
