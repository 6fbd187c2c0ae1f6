"""Complete responses in two ASGI messages, where they are faster, or needed earlier, than those of a framework."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope, Send

__all__ = ["JSON", "TEXT", "Headers", "answer", "answer_json", "closing", "header"]

Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


async def answer(
    send: Send, status: int, body: bytes, kind: bytes = TEXT, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send a complete response."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_json(send: Send, status: int, data: Any, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send data as JSON."""
    await answer(send, status, json.dumps(data).encode(), JSON, more)


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The value of a header that may occur once; None if it is missing or repeated."""
    found = [value for key, value in headers if key == name]
    return found[0] if len(found) == 1 else None


def closing(scope: Scope) -> Headers:
    """Headers for a response to a request whose body is not read: the connection cannot be reused."""
    if not scope.get("http_version", "1.1").startswith("1"):
        return []
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0")):
            return [(b"connection", b"close")]
    return []
