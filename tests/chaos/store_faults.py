"""What can be done to each kind of store while processes use it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from interlock.testing.proxy import ThreadedFaultProxy
    from interlock.testing.servers import LocalServer, RedisServer

    Card = tuple[str, Callable[[], Awaitable[int]]]

__all__ = ["FLUSH", "FileFaults", "FlushFaults", "ServerFaults", "StoreFaults"]

FLUSH = "flush, data lost"
_SILENCE_SECONDS = 5.0


class StoreFaults(Protocol):
    """What can be done to one kind of store. Each card does it, undoes it, and says how often it fired."""

    def deck(self, dice: random.Random) -> Sequence[Card]:
        """All kinds of faults, each once."""
        ...

    def heal(self) -> None:
        """End whatever is under way."""
        ...


class FileFaults:
    """Someone else's long transaction on an SQLite file. ``scale`` makes all faults shorter or longer."""

    def __init__(self, path: Path, scale: float = 1.0) -> None:
        self._path = path
        self._scale = scale

    def deck(self, dice: random.Random) -> Sequence[Card]:
        return [
            ("write lock held", lambda: asyncio.to_thread(self._hold, dice.uniform(0.2, 1.0))),
            ("write lock held", lambda: asyncio.to_thread(self._hold, dice.uniform(1.0, 2.5))),
        ]

    def heal(self) -> None:
        pass

    def _hold(self, seconds: float) -> int:
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None, timeout=10)) as connection:
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError:
                return 0  # busy, and SQLite keeps no queue
            time.sleep(seconds * self._scale)
            connection.execute("rollback")
        return 1


class ServerFaults:
    """Restarts and crashes of the server, and proxies on the ways to it: one is cut while the other works, or both."""

    restart_name, crash_name = "server restart", "server crash"

    def __init__(self, server: LocalServer, proxies: Sequence[ThreadedFaultProxy], scale: float = 1.0) -> None:
        self._server = server
        self._proxies = proxies
        self._scale = scale

    def deck(self, dice: random.Random) -> Sequence[Card]:
        def cut(name: str, seconds: float, begin: Callable[[ThreadedFaultProxy], object]) -> tuple[str, Any]:
            chosen = dice.choice([*self._proxies, None])
            return name, lambda: self._cut(chosen, seconds * self._scale, name, begin)

        return [
            (self.restart_name, self._restart),
            (self.crash_name, self._crash),
            cut("reset", 0.0, lambda proxy: proxy.reset()),
            cut("blackhole", dice.uniform(0.3, 2.0), lambda proxy: proxy.blackhole()),
            cut("half_open", dice.uniform(0.5, 3.8), lambda proxy: proxy.half_open()),
            cut("drop_replies", 0.5, lambda proxy: proxy.drop_replies(dice.randint(1, 5))),
            cut("delay", 1.0, lambda proxy: proxy.delay(dice.uniform(0.05, 0.4))),
            cut("refuse", dice.uniform(0.2, 1.0), lambda proxy: (proxy.refuse(), proxy.reset())),
        ]

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.heal()
        self._server.start()

    async def _restart(self) -> int:
        await asyncio.to_thread(self._server.restart)
        return 1

    async def _crash(self) -> int:
        await asyncio.to_thread(self._server.kill)
        await asyncio.to_thread(self._server.start)
        return 1

    async def _cut(
        self, only: ThreadedFaultProxy | None, seconds: float, name: str, begin: Callable[[ThreadedFaultProxy], object]
    ) -> int:
        hit = list(self._proxies) if only is None else [only]
        before = sum(proxy.fired[name] for proxy in hit)
        fired, give_up = 0, time.monotonic() + _SILENCE_SECONDS
        while not fired and time.monotonic() < give_up:  # those behind a proxy may be dead, paused or connecting anew
            for proxy in hit:
                begin(proxy)
            await asyncio.sleep(seconds)
            fired = sum(proxy.fired[name] for proxy in hit) - before
            seconds = 0.05
        for proxy in hit:
            proxy.heal()
        return fired


class FlushFaults(ServerFaults):
    """A Redis that keeps nothing: it forgets everything whenever it ends, and is flushed besides."""

    restart_name, crash_name = "server restart, data lost", "server crash, data lost"
    _server: RedisServer

    def deck(self, dice: random.Random) -> Sequence[Card]:
        return [*super().deck(dice), (FLUSH, self._flush), (FLUSH, self._flush)]

    async def _flush(self) -> int:
        await asyncio.to_thread(self._server.flush)
        return 1
