"""The log of a job as Server-Sent Events, until the job ends.

``line`` has one line of the log, and its number as the event's ID, so that a client that reconnects continues where it
was. ``progress`` has a new progress. ``end`` has the state of the job when it has ended; it is the last event, at which
a client closes the stream. Each stream reads the store once a second, so there are only a few at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from interlock.errors import InterlockError, InvalidArgumentError
from interlock.insight import data
from interlock.web.answers import answer
from interlock.web.stream import HEADERS, STALLED_SECONDS, event_bytes, left

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from interlock.insight import JobLog
    from interlock.web.asgi import Web

__all__ = ["LogStreams", "after_of"]

MAX_STREAMS = 20
_EVERY = 1.0
_LOOK_EVERY = 0.2
_PART = 500
_MAX_DIGITS = 18
_HEARTBEAT_ROUNDS = 15


class LogStreams:
    """All log streams of a web app."""

    def __init__(self, web: Web, *, limit: int = MAX_STREAMS, every: float = _EVERY) -> None:
        self._web = web
        self._limit = limit
        self._every = every
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until the job has ended, the client leaves, or the server does."""
        from interlock.web.pages.api import api_error
        from interlock.web.pages.details import number_of

        request = Request(scope, receive)
        try:
            number, after = number_of(request, "job"), after_of(request)
            first = await self._read(number, after)
        except InterlockError as error:
            await api_error(error)(scope, receive, send)
            return
        if self._web.hub.closed or self._open >= self._limit:
            await answer(send, 503, b"Too many streams are open.\n", more=[(b"retry-after", b"5")])
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        self._open += 1
        sending = asyncio.ensure_future(self._send_all(number, after, first, send))
        leaving = asyncio.ensure_future(left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= 1
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _read(self, number: int, after: int) -> JobLog:
        return await self._web.app.insight.job_log(number, after=after, limit=_PART)

    async def _send_all(self, number: int, after: int, part: JobLog, send: Send) -> None:
        progress, quiet = None, 0
        with contextlib.suppress(TimeoutError):  # it no longer reads: treat it as gone
            while not self._web.hub.closed:
                body = [_line(data(row)) for row in part.rows]
                after = part.rows[-1].number if part.rows else after
                if part.progress is not None and part.progress != progress:
                    progress = part.progress
                    body.append(event_bytes("progress", data(progress)))
                ended = part.state.final and not part.more
                if ended:
                    body.append(event_bytes("end", {"state": str(part.state), "dropped": part.dropped}))
                quiet = 0 if body else quiet + 1
                if body or quiet % _HEARTBEAT_ROUNDS == 0:
                    async with asyncio.timeout(STALLED_SECONDS):
                        chunk = b"".join(body) or b": still here\n\n"
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if ended:
                    break
                if not part.more:
                    await self._pause()
                try:
                    part = await self._read(number, after)
                except InterlockError:  # the store does not respond, or the job is gone; the client connects again
                    break
            await send({"type": "http.response.body", "body": b""})

    async def _pause(self) -> None:
        """Wait until the log is to be read again, or the server is about to end."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._every
        while (rest := due - loop.time()) > 0 and not self._web.hub.closed:
            await asyncio.sleep(min(_LOOK_EVERY, rest))
            self._web.hub.look_at_server()


def after_of(request: Request) -> int:
    """The number of the line after which to continue: of the last event, or else in the query."""
    given = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not given.isascii() or not given.isdecimal() or len(given) > _MAX_DIGITS:
        raise InvalidArgumentError(f"after is {given[:40]!r}.", remedy="Use the number of a line, 0 for all.")
    return int(given)


def _line(row: dict[str, Any]) -> bytes:
    return f"id: {row['number']}\n".encode() + event_bytes("line", row)
