"""Webhooks: a sender that repeats itself until it hears that a delivery is handled, and workers that handle each once.

Every worker sees every delivery, as if a proxy had sent it to all of them.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING

from interlock.cli.demo.records import Notebook, Reader
from interlock.errors import LeaseLostError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from interlock.claims import Claims
    from interlock.cli.demo.records import Record
    from interlock.cli.demo.target import Target

__all__ = ["INBOX", "Deliveries", "Sender"]

INBOX = "inbox.jsonl"
_EVERY = 2.0  # seconds, shared by the workers
_LEAST_EVERY = 0.25
_AGAIN_AFTER = 0.8
_KEEP_SECONDS = 600.0
_TICK = 0.05


class Sender:
    """Sends, and sends again what nobody has called handled."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._every = max(_EVERY / workers, _LEAST_EVERY)
        self._run = secrets.token_hex(2)  # in a store of somebody's own, the last demo's deliveries are still known
        self._inbox = Notebook(directory / INBOX, "sender")
        self._due: dict[str, float] = {}
        """When each delivery that is not handled is to be sent again."""
        self._next = 0.0
        self.count = 0
        """How many different ones were sent."""

    @property
    def waiting(self) -> bool:
        """Whether any delivery is not handled yet."""
        return bool(self._due)

    def send(self, now: float, *, new: bool) -> None:
        """Send what is due, and something new if that is wanted."""
        if new and now >= self._next:
            self._next = now + self._every
            self.count += 1
            self._due[f"delivery:{self._run}-{self.count}"] = now
        for delivery, at in self._due.items():
            if now >= at:
                self._inbox.write("sent", delivery=delivery)
                self._due[delivery] = now + _AGAIN_AFTER

    def hear(self, records: Iterable[Record]) -> None:
        """Stop repeating what was handled."""
        for record in records:
            if record["what"] == "handled" or (record["what"] == "duplicate" and record["state"] == "done"):
                self._due.pop(record["delivery"], None)

    def close(self) -> None:
        """Close the file."""
        self._inbox.close()


class Deliveries:
    """Handles what comes in, one after the other."""

    def __init__(self, log: Notebook, target: Target, directory: Path) -> None:
        self._log = log
        self._target = target
        self._inbox = Reader(directory / INBOX)
        self._random = random.Random()  # noqa: S311 - nothing here is a secret

    async def work(self, once: Claims) -> None:
        """Go on until cancelled."""
        self._inbox.skip()
        while True:
            for record in list(self._inbox.new()):
                await self._handle(once, record["delivery"])
            await asyncio.sleep(_TICK)

    async def _handle(self, once: Claims, delivery: str) -> None:
        try:
            async with once.claim(delivery, keep_seconds=_KEEP_SECONDS) as claim:
                if not claim.new:
                    self._log.write("duplicate", delivery=delivery, state=claim.state)
                    return
                self._log.write("claimed", delivery=delivery, attempt=claim.attempt, fence=claim.fence)
                await asyncio.sleep(self._random.uniform(0.8, 1.4))
                self._target.write(delivery, claim.fence)
        except (LeaseLostError, StoreUnavailableError) as error:
            self._log.write("gave up", delivery=delivery, why=error.message)
        else:
            self._log.write("handled", delivery=delivery, attempt=claim.attempt)
