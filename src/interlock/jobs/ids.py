"""Numbers for jobs, asked for in blocks so that one round trip serves many."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Ids"]

_LEAST = 100
_MOST = 10_000
_SOON = 1.0
_KEPT = 10.0


class Ids:
    """What this process may call its jobs. A block that is used up within a second is followed by a larger one.

    One that lasts for long is dropped, so that the order of numbers is about the order of time, which lists rely on.
    """

    def __init__(self, ask: Callable[[int], Awaitable[range]], monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._blocks: deque[range] = deque()
        self._left = 0
        self._size = _LEAST
        self._asked_at = float("-inf")
        self._turnstile = asyncio.Lock()

    async def take(self, count: int) -> list[int]:
        """So many numbers, each given once."""
        if self._left and self._monotonic() - self._asked_at > _KEPT:
            self._blocks.clear()
            self._left = 0
        while self._left < count:
            async with self._turnstile:  # those who come meanwhile share the block
                if self._left < count:
                    await self._fill(count)
        self._left -= count
        taken: list[int] = []
        while len(taken) < count:
            block = self._blocks.popleft()
            part, rest = block[: count - len(taken)], block[count - len(taken) :]
            taken.extend(part)
            if rest:
                self._blocks.appendleft(rest)
        return taken

    async def _fill(self, count: int) -> None:
        now = self._monotonic()
        self._size = min(self._size * 2, _MOST) if now - self._asked_at < _SOON else _LEAST
        self._asked_at = now
        block = await self._ask(max(self._size, count - self._left))
        self._blocks.append(block)
        self._left += len(block)
