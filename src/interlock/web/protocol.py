"""HTTP connections with bounds that uvicorn does not set: how many there are, how slow and how large a head may be.

Without them a client that opens connections and says nothing would take what the process's workers need.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["MOST_CONNECTIONS", "BoundedProtocol"]

_HEAD_SECONDS = 10.0
_MOST_HEAD_BYTES = 64 * 1024


def _most_connections() -> int:
    """A thousand, unless the process may not open twice as many files."""
    may, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(1000, may // 2) if may != resource.RLIM_INFINITY else 1000


MOST_CONNECTIONS = _most_connections()


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _head: asyncio.TimerHandle | None = None
    """Ends the connection unless the head of its next request has come by then; None while none is awaited."""
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """A client connects."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._await_head()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._forget_head()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        super().data_received(data)
        if self._head is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._forget_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._forget_head()
        self._head_bytes = 0
        self._head = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _give_up(self) -> None:
        self.transport.abort()
