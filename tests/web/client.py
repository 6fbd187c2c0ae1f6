"""Asks an ASGI app directly, so that a test can say exactly what comes in, and in which pieces."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any

from interlock.web import Web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

HERE = ("127.0.0.1", 50000)
Message = dict[str, Any]


class Answer:
    """What came back."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.complete = False

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, f"{name} is there {len(found)} times"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def scope_of(
    method: str = "GET",
    path: str = "/",
    headers: Iterable[tuple[str, str | bytes]] = (),
    *,
    client: tuple[str, int] | None = HERE,
    root_path: str = "",
    host: str | None = "localhost:8080",
    scheme: str = "http",
) -> Message:
    path, _, query = path.partition("?")
    raw = [(name.lower().encode(), v if isinstance(v, bytes) else v.encode("latin-1")) for name, v in headers]
    if host is not None:
        raw.append((b"host", host.encode("latin-1")))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": root_path + path,
        "raw_path": (root_path + path).encode("utf-8", "replace"),
        "query_string": query.encode(),
        "root_path": root_path,
        "headers": raw,
        "client": client,
        "server": ("127.0.0.1", 8080),
        "state": {},
    }


async def ask(
    app: Callable[[Any, Any, Any], Awaitable[None]],
    method: str = "GET",
    path: str = "/",
    headers: Iterable[tuple[str, str | bytes]] = (),
    body: bytes | Sequence[bytes] = b"",
    *,
    hangs: bool = False,
    leaves: bool = False,
    signed_in: bool = True,
    **more: Any,
) -> Answer:
    """One request. ``body`` in several pieces comes in pieces; one that ``hangs`` never ends, one that ``leaves`` is
    cut off by the client. Where there are no credentials it comes from a browser that has the session's cookie."""
    pieces = [body] if isinstance(body, bytes) else list(body)
    unfinished = hangs or leaves
    messages = [
        {"type": "http.request", "body": piece, "more_body": unfinished or number < len(pieces) - 1}
        for number, piece in enumerate(pieces)
    ]
    answer = Answer()

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        if not leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert not answer.status
            answer.status = message["status"]
            answer.headers = [(name.decode().lower(), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            assert answer.status
            assert not answer.complete
            answer.body += message.get("body", b"")
            answer.complete = not message.get("more_body", False)

    scope = scope_of(method, path, headers, **more)
    if signed_in and isinstance(app, Web) and app.token:
        scope["headers"] += session_cookie(app, str(more.get("host", "localhost:8080")))
    await app(scope, receive, send)
    return answer


def session_cookie(web: Web, host: str = "localhost:8080") -> list[tuple[bytes, bytes]]:
    """The header of a browser that has opened the address with the token."""
    port = re.search(r":([0-9]+)$", host)
    name = f"interlock_session_{port[1]}" if port else "interlock_session"
    value = hmac.new(hashlib.sha256(web.token.encode()).digest(), b"session", hashlib.sha256).hexdigest()
    return [(b"cookie", f"{name}={value}".encode())]
