"""Live updates for browsers: one hub for all streams of a process (Server-Sent Events).

While at least one stream is open, the hub queries the current state once a second and sends it to all streams. A slow
browser gets the latest state and not those that it missed. When the server shuts down, all streams end immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError
from interlock.telemetry.log import emit
from interlock.web.answers import answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

__all__ = ["HEADERS", "STALLED_SECONDS", "Hub", "event_bytes", "left"]

_log = logging.getLogger("interlock.web")
MAX_STREAMS = 100
_EVERY = 1.0
_LOOK_EVERY = 0.2
"""How often to check whether the server is about to end; not every server notifies the app."""
_HEARTBEAT_SECONDS = 15.0
STALLED_SECONDS = 30.0
_PARTING_SECONDS = 0.5
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # otherwise nginx would buffer it
]


class _Stream:
    """The stream of one browser."""

    __slots__ = ("news", "sending", "sent")

    def __init__(self, sent: int) -> None:
        self.news = asyncio.Event()
        self.sent = sent
        """The number of the latest update that was sent."""
        self.sending: asyncio.Future[None] | None = None


class Hub:
    """All streams of a process."""

    def __init__(
        self,
        pulse: Callable[[], Awaitable[Mapping[str, Any]]],
        *,
        limit: int = MAX_STREAMS,
        every: float = _EVERY,
        heartbeat: float = _HEARTBEAT_SECONDS,
    ) -> None:
        self._pulse = pulse
        self._limit = limit
        self._every = every
        self._heartbeat = heartbeat
        self._streams: set[_Stream] = set()
        self._asking: asyncio.Task[None] | None = None
        self._newest = b""
        self._number = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether all streams are to end."""
        return self._closed

    def __len__(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        """End all streams, and accept no more until :meth:`reopen`."""
        self._closed = True
        for stream in self._streams:
            stream.news.set()
            if stream.sending is not None:  # a browser that does not read cannot be notified
                stream.sending.get_loop().call_later(_PARTING_SECONDS, stream.sending.cancel)

    def reopen(self) -> None:
        """Accept streams again."""
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until the browser leaves, or the server does."""
        if self._closed or len(self._streams) >= self._limit:
            why = b"The server is shutting down.\n" if self._closed else b"Too many streams are open.\n"
            await answer(send, 503, why, more=[(b"retry-after", b"5")])
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        stream = _Stream(sent=-1 if self._newest else self._number)
        sending = stream.sending = asyncio.ensure_future(self._send_all(stream, send))
        leaving = asyncio.ensure_future(left(receive))
        self._streams.add(stream)
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="interlock-web-pulse")
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(stream)
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            if not self._streams:
                self._ask_no_more()

    async def _send_all(self, stream: _Stream, send: Send) -> None:
        """Send each update, and a comment if there has been none for a while."""
        part = b"retry: 1000\n\n"
        with contextlib.suppress(TimeoutError):  # it no longer reads: treat it as gone
            while not self._closed:
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                part = b": still here\n\n"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._heartbeat):
                        while stream.sent == self._number and not self._closed:
                            stream.news.clear()
                            await stream.news.wait()
                        stream.sent, part = self._number, self._newest
            await send({"type": "http.response.body", "body": b""})

    def _ask_no_more(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
        self._newest = b""  # it would be outdated for the next stream

    async def _ask(self) -> None:
        """Query the state while any stream is open."""
        loop = asyncio.get_running_loop()
        while not self._closed:
            due = loop.time() + self._every
            asked = asyncio.ensure_future(self._asked())
            try:
                while not asked.done() and not self._closed:
                    await asyncio.wait((asked,), timeout=_LOOK_EVERY)
                    self.look_at_server()
                if asked.done():
                    self._newest = asked.result()
                    self._number += 1
                    for stream in self._streams:
                        stream.news.set()
            finally:
                asked.cancel()
            while (left := due - loop.time()) > 0 and not self._closed:
                await asyncio.sleep(min(_LOOK_EVERY, left))
                self.look_at_server()

    async def _asked(self) -> bytes:
        """The current state as an event, or that the store is unavailable."""
        try:
            return event_bytes("pulse", await self._pulse())
        except InterlockError as error:
            return event_bytes("away", {"reason": error.code})
        except Exception as error:  # noqa: BLE001 - the streams go on, and the next time it may work
            emit(_log, logging.ERROR, "pulse_failed", error=repr(error))
            return event_bytes("away", {"reason": "failed"})

    def look_at_server(self) -> None:
        """Whether the uvicorn server is shutting down. It waits for open streams without notifying the app."""
        server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if type(server).__module__.startswith("uvicorn.") and getattr(server, "should_exit", False):
            self.close()


def event_bytes(name: str, data: Mapping[str, Any]) -> bytes:
    """One Server-Sent Event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def left(receive: Receive) -> None:
    """Wait until the browser disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
