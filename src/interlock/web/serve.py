"""Run a web app on this event loop, next to other tasks.

Signals are left to the program. During shutdown, the server accepts no more connections, ends all streams, and lets
current requests finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import socket
from asyncio import FIRST_COMPLETED
from typing import TYPE_CHECKING, NamedTuple, Self

import uvicorn

from interlock.errors import InvalidArgumentError, MisuseError
from interlock.telemetry.budget import LogBudget
from interlock.telemetry.log import emit
from interlock.web.protocol import BoundedProtocol
from interlock.web.security import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import TracebackType

    from interlock.web.asgi import Web
    from interlock.web.credentials import Credentials

__all__ = ["Address", "Serving", "check_exposure", "listening"]

_log = logging.getLogger("interlock.web")
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/@]+)):([0-9]{1,5})")
_FINISH_SECONDS = 10
_BACKLOG = 1024


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int
    """0 selects a free port."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``HOST:PORT``; an IPv6 address is in brackets."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match[3]) > 65535:
            raise InvalidArgumentError(
                f"Invalid address {text!r}.",
                remedy="Use HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080.",
            )
        return cls(match[1] or match[2], int(match[3]))


def check_exposure(address: Address, credentials: Credentials | None, *, file_option: str = "") -> None:
    """Refuse to listen for other machines without credentials. ``file_option`` is the option for a credentials file."""
    if credentials is None and not is_loopback(address.host):
        file = f" or use {file_option}" if file_option else ""
        raise MisuseError(
            f"Listening on {address.host} would expose the dashboard to other machines without credentials.",
            remedy=f"Set INTERLOCK_WEB_CREDENTIALS=user:password{file}, or listen on 127.0.0.1.",
        )


def listening(address: Address) -> list[socket.socket]:
    """Listening sockets: one for each address that the name resolves to on this machine."""
    sockets: list[socket.socket] = []
    failures: list[OSError] = []
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, place in dict.fromkeys((family, place) for family, _, _, _, place in found):
            if is_loopback(address.host) and not is_loopback(str(place[0])):
                raise OSError(None, f"it resolves to {place[0]}, which is not an address of this machine")
            port = sockets[0].getsockname()[1] if sockets else address.port  # all on the same
            try:
                sockets.append(_listening(family, (place[0], port, *place[2:])))
            except OSError as error:
                failures.append(error)
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # the other family may do
                    raise
        if not sockets:
            raise failures[0] if failures else OSError(None, "it does not resolve to an address")
    except OSError as error:
        for one in sockets:
            one.close()
        raise MisuseError(
            f"Cannot listen on {address.host}:{address.port}: {error.strerror or error}.",
            remedy="Choose another address, or stop the process that listens there.",
        ) from None
    return sockets


def _listening(family: int, place: tuple[str | int, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


_INVALID = "Invalid HTTP request received."
_invalid_budget = LogBudget()


def _bound_invalid_requests(record: logging.LogRecord) -> bool:
    """Keep clients that do not speak HTTP from filling the log."""
    if record.msg != _INVALID:
        return True
    suppressed = _invalid_budget.admit()
    if suppressed:
        record.msg = f"{_INVALID} ({suppressed} more were not logged.)"
    return suppressed is not None


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers, which reports when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Serving:
    """A web app that is served inside ``async with``."""

    def __init__(
        self, web: Web, sockets: Sequence[socket.socket], *, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self._web = web
        self._sockets = list(sockets)
        self._on_failure = on_failure
        self.failed = False
        """Whether it ended unexpectedly."""
        self._server = _Server(
            uvicorn.Config(
                web,
                lifespan="off",  # the caller has opened the app
                interface="asgi3",
                log_config=None,
                access_log=False,
                http=BoundedProtocol,
                ws="none",
                server_header=False,
                proxy_headers=False,  # the client's address is that of the connection
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_FINISH_SECONDS,
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def urls(self) -> list[str]:
        """The addresses that it listens on."""
        names = [one.getsockname() for one in self._sockets]
        return [f"http://[{name[0]}]:{name[1]}" if ":" in name[0] else f"http://{name[0]}:{name[1]}" for name in names]

    @property
    def login_url(self) -> str:
        """The URL to open in a browser."""
        return self._web.login_url(self.urls[0])

    async def __aenter__(self) -> Self:
        errors = logging.getLogger("uvicorn.error")
        errors.setLevel(logging.WARNING)
        errors.addFilter(_bound_invalid_requests)
        self._web.hub.reopen()
        self._task = asyncio.create_task(self._server.serve(sockets=self._sockets), name="interlock-web")
        self._task.add_done_callback(self._ended)
        await asyncio.wait((self._task, asyncio.ensure_future(self._server.up.wait())), return_when=FIRST_COMPLETED)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self.wind_down()
        await asyncio.wait((self._task,))
        for one in self._sockets:
            one.close()

    def wind_down(self) -> None:
        """Accept no more connections, end streams, and let current requests finish. Returns immediately."""
        self._web.close()
        self._server.should_exit = True

    def halt(self) -> None:
        """Stop waiting for current requests."""
        self.wind_down()
        self._server.force_exit = True

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._server.should_exit:
            error = None if task.cancelled() else task.exception()
            emit(_log, logging.CRITICAL, "web_server_failed", error=repr(error))
            self.failed = True
            self._on_failure()
        elif not task.cancelled() and task.exception() is not None:
            emit(_log, logging.ERROR, "web_server_failed", error=repr(task.exception()))
