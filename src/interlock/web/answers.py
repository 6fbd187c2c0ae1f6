"""Whole answers in two messages, for what is quicker or needed sooner than a framework's responses."""

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
    """Send one whole answer."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_json(send: Send, status: int, data: Any, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send data."""
    await answer(send, status, json.dumps(data).encode(), JSON, more)


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The value of a header that may be there once; None if it is not there, or more often than that."""
    found = [value for key, value in headers if key == name]
    return found[0] if len(found) == 1 else None


def closing(scope: Scope) -> Headers:
    """For an answer to a request whose body is not read: nothing else can come on its connection."""
    if not scope.get("http_version", "1.1").startswith("1"):
        return []
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0")):
            return [(b"connection", b"close")]
    return []
