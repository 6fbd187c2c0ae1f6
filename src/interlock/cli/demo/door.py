"""How a webhook reaches the bot: over HTTP, as a forge would send it, or by a direct call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from interlock.errors import EventRefusedError, MalformedEventError, SignatureError, StoreUnavailableError
from interlock.events import ReceiptStatus

if TYPE_CHECKING:
    from interlock.app import App

__all__ = ["Answer", "Door", "HandDoor", "HttpDoor"]

_SOURCE = "github"
_SECONDS = 10.0
_CODES = {SignatureError: 401, MalformedEventError: 400, EventRefusedError: 422, StoreUnavailableError: 503}


class Answer(NamedTuple):
    """The response to a webhook."""

    status: int
    """0 for no response."""
    verdict: str = ""
    jobs: tuple[int, ...] = ()


class Door(Protocol):
    """Accepts webhooks."""

    async def post(self, headers: dict[str, str], body: bytes) -> Answer:
        """Deliver a webhook."""
        ...


class HttpDoor:
    """``POST /webhooks/github``, each on its own connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._named = parts.netloc

    async def post(self, headers: dict[str, str], body: bytes) -> Answer:
        """Send it and read the response."""
        try:
            async with asyncio.timeout(_SECONDS):
                return _answer(await self._exchange(headers, body))
        except (OSError, TimeoutError, ValueError):
            return Answer(0)

    async def _exchange(self, headers: dict[str, str], body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        lines = {"Host": self._named, "Content-Length": str(len(body)), "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        try:
            writer.write(f"POST /webhooks/{_SOURCE} HTTP/1.1\r\n{head}\r\n".encode() + body)
            return await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class HandDoor:
    """``app.events.receive``, in an app that is open in this process."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def post(self, headers: dict[str, str], body: bytes) -> Answer:
        """Deliver it, and respond as the web app would."""
        try:
            receipt = await self._app.events.receive(
                _SOURCE, {name.lower(): text for name, text in headers.items()}, body
            )
        except tuple(_CODES) as error:
            return Answer(_CODES[type(error)], "refused")
        return Answer(202 if receipt.status is ReceiptStatus.ACCEPTED else 200, str(receipt.status), receipt.jobs)


def _answer(said: bytes) -> Answer:
    head, _, body = said.partition(b"\r\n\r\n")
    status = int(head.split(None, 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0
    try:
        told: Any = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return Answer(status)
    return Answer(status, str(told.get("status", "")), tuple(told.get("jobs") or ()))
