"""What a worker does under locks: it changes a repository, which one may do at a time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING

from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.locks import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.cli.demo.records import Notebook
    from interlock.cli.demo.target import Target
    from interlock.locks import Lease, Locks

__all__ = ["Pushes"]

_STEP = 0.12


class Pushes:
    """Takes one lock after the other, and may freeze while it holds one."""

    def __init__(self, log: Notebook, target: Target, keys: Sequence[str]) -> None:
        self._log = log
        self._target = target
        self._keys = keys
        self._random = random.Random()  # noqa: S311 - nothing here is a secret
        self.freeze = False
        """Whether to stand still, as if suspended, at the next step."""

    async def work(self, locks: Locks) -> None:
        """Go on until cancelled."""
        weights = range(len(self._keys), 0, -1)  # the first keys are the busier ones
        while True:
            (key,) = self._random.choices(self._keys, weights)
            self._log.write("asked", key=key)
            try:
                async with locks.acquire(key, wait=FOREVER) as lease:
                    lease.ensure()  # a process that stood still meanwhile would write down a grant long gone
                    self._log.write("granted", key=key, fence=lease.fence)
                    try:
                        await self._change(key, lease)
                    finally:
                        self._log.write("done", key=key, fence=lease.fence)
            except LeaseLostError as error:
                self._log.write("lost", key=key, why=error.message)
            except StoreUnavailableError as error:
                self._log.write("store away", key=key, why=error.message)
            await asyncio.sleep(self._random.uniform(0.02, 0.15))

    async def _change(self, key: str, lease: Lease) -> None:
        for _ in range(self._random.randint(2, 6)):
            if not self._target.write(key, lease.fence):
                self._log.write("refused", key=key, fence=lease.fence)
                return
            await asyncio.sleep(_STEP)
            if self.freeze:
                self.freeze = False
                self._log.write("frozen", key=key, fence=lease.fence)
                os.kill(os.getpid(), signal.SIGSTOP)
                self._log.write("thawed", key=key, fence=lease.fence)
