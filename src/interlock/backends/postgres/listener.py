"""One connection that listens for all waiters of a process.

Notifications are only hints, so the loss of the connection costs nothing but time: it is reopened, listens first, and
then all waiters ask again. Behind a pooler notifications do not arrive; that is detected at the start and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.server import answered
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.server import Server

__all__ = ["Listener"]

_log = logging.getLogger("interlock.postgres")
_BEAT = 5.0
_PROBE_AGAIN = 30.0
_QUIET = 5.0


class Listener:
    """Listens on a session's channel and on added ones, and passes on the notifications."""

    def __init__(
        self, server: Server, speaker: OrderedConnection, wait: float, hear: Callable[[str | None], None]
    ) -> None:
        self._server = server
        self._speaker = speaker
        self._wait = wait
        self._hear = hear
        self._task: asyncio.Task[None] | None = None
        self._channel = ""
        self._others: dict[str, Callable[[str | None], None]] = {}
        self._arrived = asyncio.Event()
        self._stir = asyncio.Event()
        self._connection: Any = None
        self._quiet_until = 0.0
        self._failure = LastingFailure()
        self.works: bool | None = None
        """Whether notifications arrive; None until it is known."""
        self.on_verdict: Callable[[], None] = lambda: None
        """Called when :attr:`works` was determined, or is not known any more."""
        self.ready = asyncio.Event()

    def start(self, channel: str) -> None:
        """Listen on a channel, and on those that were added."""
        self._channel = channel
        self._stop_task()
        # The event loop may be another one than before.
        self._arrived, self.ready, self._stir = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._listen(), name="interlock-listener")

    def add(self, channel: str, hear: Callable[[str | None], None]) -> None:
        """Listen on another channel whenever connected. ``hear`` gets None if notifications may have been missed."""
        self._others[channel] = hear
        self._stir.set()

    def remove(self, channel: str) -> None:
        """Stop listening on a channel."""
        self._others.pop(channel, None)
        self._stir.set()

    def missed(self) -> None:
        """Tell the callbacks of the added channels that notifications may have been missed."""
        for hear in list(self._others.values()):
            hear(None)

    def yield_connection(self) -> None:
        """Close the connection for a while: the process has no other one for its work."""
        self._quiet_until = asyncio.get_running_loop().time() + _QUIET
        if self._connection is not None:
            self._connection.terminate()

    async def stop(self) -> None:
        """Stop listening."""
        task = self._stop_task()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        await self._server.close()

    def _stop_task(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def _listen(self) -> None:
        pause = 0.05
        while True:
            try:
                if not await self._listen_once():
                    return
                pause = 0.05
            except Exception as error:  # noqa: BLE001 - notifications are only hints; the failure is retried
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    return  # stopping; the driver's own cleanup failed
                if self._failure.failed(error):
                    emit(
                        _log,
                        logging.WARNING,
                        "listen_failed",
                        error=self._failure.error,
                        times=self._failure.times,
                        seconds=self._failure.seconds,
                    )
            if self.works:
                self.works = None  # unknown until the next check
                self.on_verdict()  # meanwhile waiters poll, from now on
            await asyncio.sleep(max(pause, self._quiet_until - asyncio.get_running_loop().time()))
            pause = min(pause * 2, 1.0)

    async def _listen_once(self) -> bool:
        """Listen until the connection is lost. Return False if a retry would not help."""
        with translated():
            connection = await self._server.connect(self._wait)
            lost = asyncio.Event()
            stir = self._stir

            def end(_: Any) -> None:
                lost.set()
                stir.set()

            connection.add_termination_listener(end)
            self._connection = connection
            others: set[str] = set()
            try:
                async with asyncio.timeout(self._wait):
                    # In a transaction, so that a pooler sends the statement and its preparation to one server.
                    async with connection.transaction():
                        await connection.add_listener(self._channel, self._on_message)
                        direct = await connection.fetchval("select pg_backend_pid()") == connection.get_server_pid()
                await self._probe()
                if not self.works and not direct:
                    return False
                await self._follow(connection, others)
                # Notifications that were missed meanwhile are made up for by polling once.
                self._hear(None)
                self.missed()
                if self._failure.over():
                    emit(
                        _log,
                        logging.INFO,
                        "listen_failed_over",
                        times=self._failure.times,
                        seconds=self._failure.seconds,
                    )
                probe_at = asyncio.get_running_loop().time() + _PROBE_AGAIN
                while not lost.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_BEAT):
                            await stir.wait()
                    if lost.is_set():
                        break
                    stir.clear()
                    async with asyncio.timeout(self._wait):
                        await answered(connection, connection.execute(self._server.beat))
                    for channel in await self._follow(connection, others):
                        self._others[channel](None)
                    if not self.works and asyncio.get_running_loop().time() >= probe_at:
                        probe_at += _PROBE_AGAIN
                        await self._probe()
            finally:
                self._connection = None
                connection.terminate()
        return True

    async def _follow(self, connection: Any, others: set[str]) -> list[str]:
        """Listen on the added channels, and return the new ones."""
        added = [channel for channel in self._others if channel not in others]
        async with asyncio.timeout(self._wait):
            for channel in added:
                await connection.add_listener(channel, self._on_other)
                others.add(channel)
            for channel in others - set(self._others):
                await connection.remove_listener(channel, self._on_other)
                others.discard(channel)
        return [channel for channel in added if channel in self._others]

    async def _probe(self) -> None:
        """Send a notification to this connection and check whether it arrives.

        From another connection: a pooler would hand us what we say on this one, and nothing that others say.
        """
        self._arrived.clear()
        await self._speaker.fetch("select pg_notify($1, 'probe')", self._channel)
        works = True
        try:
            async with asyncio.timeout(min(2.0, self._wait / 2)):
                await self._arrived.wait()
        except TimeoutError:
            works = False
        if not works and self.works is not False:
            emit(_log, logging.WARNING, "notifications_do_not_arrive", remedy="set listen_url to a direct address")
        self.works = works
        self.on_verdict()
        self.ready.set()

    def _on_message(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        if payload == "probe":
            self._arrived.set()
        else:
            self._hear(payload)

    def _on_other(self, _connection: Any, _pid: int, channel: str, payload: str) -> None:
        hear = self._others.get(channel)
        if hear is not None:
            hear(payload)
