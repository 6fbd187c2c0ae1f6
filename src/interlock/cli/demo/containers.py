"""What a worker does under limits: it runs containers, only so many at once, and for each account only so often."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.limits import Cooldown, Slots

if TYPE_CHECKING:
    from interlock.cli.demo.records import Notebook
    from interlock.limits import Limits, Reservation

__all__ = ["ACCOUNTS", "COOLDOWN_SECONDS", "MOST_CONTAINERS", "Containers", "account_key", "containers_key"]

MOST_CONTAINERS = 2
COOLDOWN_SECONDS = 1.5
ACCOUNTS = ("acme", "globex", "initech")
_CONTAINERS = Slots("containers", MOST_CONTAINERS)
_ACCOUNT = Cooldown("account", COOLDOWN_SECONDS, key="{account}")
_MOST_PAUSE = 0.1


def containers_key() -> str:
    """The key of the one limit."""
    return _CONTAINERS.use({}).key


def account_key(account: str) -> str:
    """The key of the other, for an account."""
    return _ACCOUNT.use({"account": account}).key


class Containers:
    """Runs one container after the other."""

    def __init__(self, log: Notebook) -> None:
        self._log = log
        self._random = random.Random()  # noqa: S311 - nothing here is a secret

    async def work(self, limits: Limits) -> None:
        """Go on until cancelled."""
        while True:
            account = self._random.choice(ACCOUNTS)
            try:
                async with await limits.reserve(_CONTAINERS, _ACCOUNT, account=account) as reservation:
                    asked = await self._turn(reservation)
                    self._log.write("container started", account=account, asked=asked)
                    try:
                        await asyncio.sleep(self._random.uniform(0.6, 1.3))
                    finally:
                        self._log.write("container ended", account=account)
            except (LeaseLostError, StoreUnavailableError) as error:
                self._log.write("container lost", account=account, why=error.message)
            await asyncio.sleep(self._random.uniform(0.1, 0.4))

    async def _turn(self, reservation: Reservation) -> float:
        """Ask until it may start. Says when the last question was asked: it did not start before, whoever says so.

        ``limits.acquire(…)`` would do all of this, but would leave that moment to be believed.
        """
        while True:
            asked = time.monotonic()
            if await reservation.start():
                return asked
            starts_at = reservation.starts_at
            pause = _MOST_PAUSE if starts_at is None else starts_at.timestamp() - time.time()
            await asyncio.sleep(min(max(0.0, pause), _MOST_PAUSE))
