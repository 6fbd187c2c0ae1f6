"""Health of the stores (``GET /health``) and metrics (``GET /metrics``).

Health is public, so it reveals little, and each store is checked at most once a second, however many requests arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import choose_encoder

from interlock.errors import CapabilityError, InterlockError
from interlock.telemetry.log import emit
from interlock.telemetry.metrics import Together
from interlock.web.answers import answer, answer_json, header

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from interlock.app import App
    from interlock.store_client import StoreClient
    from interlock.telemetry.web import WebMetrics

__all__ = ["Health", "Metrics"]

_log = logging.getLogger("interlock.web")
_GOOD_FOR = 1.0
_PATIENCE = 2.0
_PROBE = "interlock:health"


class Health:
    """Responds with 200 while every store of the app responds, otherwise with 503."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._last: tuple[float, dict[str, Any]] | None = None
        self._looking: asyncio.Future[dict[str, Any]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        found = await self.look()
        await answer_json(send, 200 if found["status"] == "ok" else 503, found)

    async def look(self) -> dict[str, Any]:
        """The state of the stores. Concurrent requests share one check."""
        if not self._app.is_open:
            return {"status": "closed", "stores": []}
        if self._last is not None and time.monotonic() - self._last[0] < _GOOD_FOR:
            return self._last[1]
        if self._looking is None or self._looking.done() or self._looking.get_loop() != asyncio.get_running_loop():
            self._looking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> dict[str, Any]:
        places = _places(self._app)
        stores = await asyncio.gather(*(_state(store_client, parts) for store_client, parts in places.items()))
        found = {
            "status": "ok" if all(store["state"] == "ok" for store in stores) else "away",
            "stores": stores,
        }
        self._last = time.monotonic(), found
        return found


class Metrics:
    """All metrics of the app and its web app, for Prometheus."""

    def __init__(self, app: App, metrics: WebMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if not self._app.is_open:
            await answer(send, 503, b"The app is not open.\n")
            return
        accept = header(scope["headers"], b"accept") or b""
        encode, kind = choose_encoder(accept.decode("latin-1"))
        await answer(send, 200, encode(Together(self._app.metrics, self._metrics)), kind.encode("latin-1"))


def _places(app: App) -> dict[StoreClient, list[str]]:
    """The app's stores, each with the concepts that it keeps."""
    parts: dict[str, Any] = {"locks": app.locks, "claims": app.claims, "cursors": app.cursors, "limits": app.limits}
    with contextlib.suppress(CapabilityError):
        parts["jobs"] = app.jobs
    places: dict[StoreClient, list[str]] = {}
    for name, part in parts.items():
        places.setdefault(part._store_client, []).append(name)  # noqa: SLF001 - the app tells nobody else where things are
    return places


async def _state(store_client: StoreClient, parts: list[str]) -> dict[str, Any]:
    """Check that the process has a session in the store, and that the store responds."""
    begun = time.monotonic()
    reason = ""
    try:
        if store_client.session.lost:
            reason = "no session"
        else:
            async with asyncio.timeout(_PATIENCE):
                await store_client.store.cursors.read(_PROBE)
    except TimeoutError:
        reason = f"no response within {_PATIENCE:g} s"
    except InterlockError as error:
        reason = error.code
    except Exception as error:  # noqa: BLE001 - whatever it is, that is not health
        reason = type(error).__name__
    if reason:
        emit(_log, logging.WARNING, "health_failed", store=store_client.store.name, reason=reason)
    return {
        "store": store_client.store.name,
        "parts": parts,
        "state": "away" if reason else "ok",
        "reason": reason,
        "milliseconds": round((time.monotonic() - begun) * 1000, 1),
    }
