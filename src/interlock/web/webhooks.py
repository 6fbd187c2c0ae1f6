"""The webhook endpoint: ``POST /webhooks/{source}``.

A body is read completely and within bounds, then passed to the app's events, which verify, route and store it. Unsigned
requests never reach the store, and no input leads to a 500.

    404 unknown source · 405 not a POST · 413 too large · 408 too slow · 401 signature mismatch · 400 malformed
    422 a lane= or ignore= of the app failed · 503 cannot be stored now, send it again
    200 ignored or duplicate · 202 accepted, and on disk
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Any

from interlock.errors import (
    CapabilityError,
    EventError,
    EventRefusedError,
    InterlockError,
    MalformedEventError,
    SignatureError,
    StoreError,
)
from interlock.telemetry.budget import LogBudget
from interlock.telemetry.log import emit
from interlock.web.answers import JSON, answer, answer_json, closing
from interlock.web.bodies import Bodies, BodyRefusedError, ClientGoneError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from starlette.types import Receive, Scope, Send

    from interlock.app import App
    from interlock.events import Receipt
    from interlock.telemetry.web import WebMetrics
    from interlock.web.answers import Headers

__all__ = ["Webhooks"]

_log = logging.getLogger("interlock.web")
MAX_BYTES = 5_000_000
_TOGETHER = 100_000_000
_SECONDS = 8.0
"""From the head to the response. Senders wait a little longer, and a 503 is better for them than no response."""
_STORE_SECONDS = 6.0
"""The part of it in which the app has to accept the event."""
_RETRY_AFTER = (b"retry-after", b"5")
_CLOSE = (b"connection", b"close")
_UNKNOWN = ""
_BY_ERROR: dict[type[EventError], int] = {SignatureError: 401, MalformedEventError: 400, EventRefusedError: 422}
_BY_STATUS = {"accepted": 202, "duplicate": 200, "ignored": 200}


class Webhooks:
    """Handles webhooks."""

    def __init__(self, app: App, metrics: WebMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._bodies = Bodies(MAX_BYTES, _TOGETHER)
        self._budget = LogBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send, source: str) -> None:
        """Handle a request."""
        begun = time.monotonic()
        try:
            status = await self._answer(scope, receive, send, source)
        except ClientGoneError:
            return
        self._metrics.answered(source if status != 404 else _UNKNOWN, status, time.monotonic() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, source: str) -> int:
        if source not in self._sources():
            return await _refuse(send, 404, "Unknown source.", *closing(scope))
        if scope["method"] != "POST":
            return await _refuse(send, 405, "Use POST.", (b"allow", b"POST"), *closing(scope))
        headers = list(scope["headers"])  # servers append trailers to the original list
        body = None
        try:
            async with asyncio.timeout(_SECONDS) as bound:
                body = await self._bodies.read(headers, receive)
                bound.reschedule(min(bound.when() or 0.0, asyncio.get_running_loop().time() + _STORE_SECONDS))
                receipt = await self._app.events.receive(source, _decoded(headers), body)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever failed here, the sender is to send it again
            if isinstance(error, TimeoutError) and body is None:
                error = BodyRefusedError(408, f"The body did not arrive within {_SECONDS:g} s.")
            return await self._refused(scope, send, source, error)
        status = _BY_STATUS[receipt.status]
        await answer(send, status, _receipt(receipt), JSON)
        return status

    def _sources(self) -> Container[str]:
        try:
            return self._app.events.sources
        except CapabilityError:  # a store without events
            return ()

    async def _refused(self, scope: Scope, send: Send, source: str, error: Exception) -> int:
        if isinstance(error, BodyRefusedError):
            # The rest of the body is not read, so the connection cannot be reused.
            more: Headers = [_CLOSE] if scope.get("http_version", "1.1").startswith("1") else []
            if error.status == 503:
                more.append(_RETRY_AFTER)
            return await _refuse(send, error.status, error.reason, *more)
        if isinstance(error, EventError):
            return await _refuse(send, _BY_ERROR.get(type(error), 422), error.message)
        if not isinstance(error, (StoreError, TimeoutError)):  # the app is not open, is closing, or has a bug
            failure = error if isinstance(error, InterlockError) else repr(error)
            suppressed = self._budget.admit()
            if suppressed is not None:
                emit(_log, logging.ERROR, "webhook_failed", source=source, error=str(failure), suppressed=suppressed)
        return await _refuse(send, 503, "The webhook cannot be stored at the moment. Send it again.", _RETRY_AFTER)


def _decoded(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as text, with stripped values. If a header is repeated, the first one counts."""
    return {name.decode("latin-1"): value.strip(b" \t").decode("latin-1") for name, value in reversed(headers)}


def _receipt(receipt: Receipt) -> bytes:
    """The receipt as JSON."""
    if not receipt.cause:  # only numbers, so nothing needs escaping
        jobs = ", ".join(map(str, receipt.jobs))
        text = f'{{"status": "{receipt.status}", "event": {receipt.event or "null"}, "jobs": [{jobs}], "cause": ""}}'
        return text.encode()
    data = {"status": receipt.status, "event": receipt.event, "jobs": receipt.jobs, "cause": receipt.cause}
    return json.dumps(data).encode()


async def _refuse(send: Send, status: int, reason: str, *more: tuple[bytes, bytes]) -> int:
    data: dict[str, Any] = {"status": "refused", "event": None, "jobs": [], "cause": reason}
    await answer_json(send, status, data, more)
    return status
