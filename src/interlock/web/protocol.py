"""HTTP connections with bounds that uvicorn lacks: the number of connections, the time and size of a request head, the
number of pipelined requests, and how long a response may remain unread.

Without these bounds, a client that opens connections and sends or reads nothing would exhaust the process.

An offer to switch protocols (``Upgrade: h2c`` from Java's HttpClient and ``curl --http2``, ``Upgrade: websocket``) is
ignored, as RFC 9110 allows. httptools would drop the request's body instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["MAX_CONNECTIONS", "BoundedProtocol"]

_HEAD_SECONDS = 10.0
_WRITE_SECONDS = 30.0
_MAX_HEAD_BYTES = 64 * 1024
_MAX_AHEAD = 100
"""Maximum number of pipelined requests."""


def _max_connections() -> int:
    """A thousand, or half of the number of files that the process may open."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return 1000
    may, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(1000, may // 2) if may != resource.RLIM_INFINITY else 1000


MAX_CONNECTIONS = _max_connections()


class _TooMuchError(Exception):
    """Ends the parsing of a request."""


class _Parser:
    """A request parser that ignores ``Upgrade`` headers.

    httptools treats everything after such a head as another protocol and skips the body. So the head is parsed again
    without that header, by a new parser, which then reads the rest. Callbacks see ``should_upgrade()`` during the
    first pass.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self._use(self._new())

    def feed_data(self, data: bytes) -> None:
        """Parse received data."""
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                head = self._head()
                data = data[upgrade.args[0] :]
                self._use(self._new())
                self._parser.feed_data(head)
            else:
                return

    def _head(self) -> bytes:
        """The head that was just parsed, without its ``Upgrade`` header."""
        method = self._parser.get_method()
        if method == b"CONNECT":  # which switches protocols by itself
            raise httptools.HttpParserInvalidMethodError("CONNECT is for proxies")
        protocol = self._protocol
        lines = [b"%b %b HTTP/%b" % (method, protocol.url, self._parser.get_http_version().encode())]
        lines += [b"%b: %b" % pair for pair in protocol.headers if pair[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _new(self) -> Any:
        parser: Any = httptools.HttpRequestParser(self._protocol)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does, for pipelined requests
        return parser

    def _use(self, parser: Any) -> None:
        self._parser = parser
        self.get_method = parser.get_method
        self.get_http_version = parser.get_http_version
        self.should_keep_alive = parser.should_keep_alive
        self.should_upgrade = parser.should_upgrade


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _head: asyncio.TimerHandle | None = None
    """Timer that closes the connection unless the next request head has arrived; None while none is expected."""
    _head_bytes = 0
    """Bytes received while a head was expected."""
    _named_bytes = 0
    """Bytes of the path and the headers of a request, including trailers."""
    _unread: asyncio.TimerHandle | None = None
    """Timer that closes the connection unless the client has read; None while it reads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser: Any = _Parser(self)

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._await_head()

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        super().on_message_begin()
        self._named_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        """Handle a part of the path."""
        self._named_bytes += len(url)
        if self._named_bytes > _MAX_HEAD_BYTES:
            self._refuse()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header."""
        self._named_bytes += len(name) + len(value)
        if self._named_bytes > _MAX_HEAD_BYTES:
            self._refuse()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Handle the end of a request head."""
        if self.parser.should_upgrade():  # it is parsed again
            return
        self._forget_head()
        super().on_headers_complete()
        if len(self.pipeline) > _MAX_AHEAD:
            self._refuse()

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Handle received data."""
        super().data_received(data)
        if self._head is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self.transport.abort()
        elif getattr(self.cycle, "response_complete", False):  # uvicorn no longer waits for the next request
            self._await_head()

    def pause_writing(self) -> None:
        """Handle a client that reads too slowly."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Handle a client that has caught up."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._forget_reading()

    def on_response_complete(self) -> None:
        """Handle the end of a response."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()

    def timeout_keep_alive_handler(self) -> None:
        """Handle an idle connection that timed out."""
        super().timeout_keep_alive_handler()
        self._await_reading()

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid data."""
        super().send_400_response(msg)
        self._await_reading()

    def eof_received(self) -> None:
        """Handle the end of the client's data."""
        super().eof_received()
        self._await_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle a closed connection."""
        self._forget_head()
        self._forget_reading()
        super().connection_lost(exc)

    def _refuse(self) -> None:
        self.transport.abort()
        raise _TooMuchError

    def _await_head(self) -> None:
        self._forget_head()
        self._head_bytes = 0
        self._head = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _await_reading(self) -> None:
        if self._unread is None and self in self.connections:
            self._unread = self.loop.call_later(_WRITE_SECONDS, self._give_up)

    def _forget_reading(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self) -> None:
        self.transport.abort()
