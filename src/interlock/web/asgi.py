"""The ASGI application: routing, access control, and lifespan."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interlock.errors import InterlockError
from interlock.telemetry.log import emit
from interlock.telemetry.web import WebMetrics
from interlock.web.answers import answer, closing
from interlock.web.health import Health, Metrics
from interlock.web.links import path_of, root_of
from interlock.web.security import Gate, SecurityHeaders
from interlock.web.stream import Hub
from interlock.web.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from interlock.app import App
    from interlock.web.credentials import Credentials

__all__ = ["Web"]

_log = logging.getLogger("interlock.web")
_WEBHOOKS = "/webhooks/"


class Web:
    """An app's web app, created by :meth:`App.web`.

    Public: ``GET /health`` and ``POST /webhooks/{source}``, which checks signatures. With access control:
    ``GET /metrics``, ``GET /stream``, and the dashboard with its API.
    """

    def __init__(
        self,
        app: App,
        *,
        credentials: Credentials | None = None,
        dashboard: bool = True,
        allowed_hosts: Iterable[str] = (),
        token: str | None = None,
    ) -> None:
        self.app = app
        self.credentials = credentials
        self.hub = Hub(self._pulse)
        """Streams of changes to browsers."""
        self.metrics = WebMetrics(app.settings.metrics_prefix, self.hub.__len__)
        """Metrics of the web app, which are part of ``GET /metrics``."""
        self.error_handlers: dict[Any, Any] = {Exception: _failed}
        """Starlette's error handlers, by class or status."""
        self._webhooks = Webhooks(app, self.metrics)
        self._health = SecurityHeaders(Health(app))
        routes: list[BaseRoute] = [Route("/metrics", Metrics(app, self.metrics), methods=["GET"])]
        if dashboard:
            from interlock.web.pages import routes as pages

            routes += [Route("/stream", self.hub, methods=["GET"]), *pages(self)]
        inside = Starlette(routes=routes, exception_handlers=self.error_handlers)
        inside.router.redirect_slashes = False  # it would contain a scheme, which only the proxy knows
        gate = Gate(inside, credentials, allowed_hosts, metrics=self.metrics, token=token)
        self.token = gate.token
        """The token that gives access without credentials; empty if credentials are required."""
        self._guarded = SecurityHeaders(gate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI 3 request."""
        kind = scope["type"]
        if kind == "http":
            path = path_of(scope)
            if path.startswith(_WEBHOOKS):
                await self._webhooks(scope, receive, send, path[len(_WEBHOOKS) :])
            elif path == "/health":
                await self._answer_health(scope, receive, send)
            elif path:
                await self._guarded(scope, receive, send)
            else:
                await answer(
                    send, 308, b"", more=[(b"location", quote(f"{root_of(scope)}/").encode()), *closing(scope)]
                )
        elif kind == "lifespan":
            await self._live(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": ""})

    def login_url(self, base: str) -> str:
        """The URL to open in a browser, given that of the web app: ``login_url("http://localhost:8000/prefix")``.

        Without credentials it contains the token, so show it only to people who may see the dashboard.
        """
        return f"{base.rstrip('/')}/" + (f"?token={self.token}" if self.token else "")

    def by(self, request: Request) -> str:
        """The actor: the authenticated user, or "dashboard"."""
        return request.state.user or "dashboard"

    def close(self) -> None:
        """End all streams, so that a server that waits for them can end, and accept no more."""
        self.hub.close()

    async def _answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD"):
            await self._health(scope, receive, send)
        else:
            await answer(send, 405, b"Use GET.\n", more=[(b"allow", b"GET, HEAD"), *closing(scope)])

    async def _live(self, receive: Receive, send: Send) -> None:
        """Handle the lifespan: open the app unless it is open, and close it at the end."""
        opened = False
        await receive()
        try:
            if not self.app.is_open:
                await self.app.__aenter__()
                opened = True
        except InterlockError as error:
            await send({"type": "lifespan.startup.failed", "message": f"Error ({error.code}): {error}"})
            return
        self.hub.reopen()
        if opened and self.token:
            print(f"To open the dashboard, add ?token={self.token} to its URL.", file=sys.stderr)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.hub.close()
        try:
            if opened:
                await self.app.__aexit__(None, None, None)
        except InterlockError as error:
            await send({"type": "lifespan.shutdown.failed", "message": f"Error ({error.code}): {error}"})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _pulse(self) -> Mapping[str, Any]:
        pulse: Mapping[str, Any] = await self.app.insight.pulse()
        return pulse


async def _failed(request: Request, error: Exception) -> Response:
    emit(_log, logging.ERROR, "web_failed", path=path_of(request.scope), error=repr(error))
    return PlainTextResponse("This page failed. See the log for details.\n", 500)
