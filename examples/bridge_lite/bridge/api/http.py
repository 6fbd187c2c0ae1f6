"""The HTTP API: ``POST /api/v1/intent/reeval``, with Interlock's dashboard, health and metrics beside it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from bridge.core.errors import (
    BridgeError,
    ConcurrencyConflictError,
    DeadlockError,
    IntentNotFoundError,
    InvalidCorrectionError,
    InvalidStatusTransitionError,
    LockTimeoutError,
    SourceNotAllowedError,
)
from bridge.core.models.reeval_model import ReEvaluationRequest
from interlock.errors import InterlockError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from bridge.factory import Bridge

__all__ = ["REEVAL_PATH", "create_api"]

REEVAL_PATH = "/api/v1/intent/reeval"
_MAX_BODY = 64 * 1024
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (SourceNotAllowedError, 403),
    (InvalidCorrectionError, 400),
    (IntentNotFoundError, 404),
    (InvalidStatusTransitionError, 409),
    (ConcurrencyConflictError, 409),
    (LockTimeoutError, 409),
    (DeadlockError, 409),
    (StoreUnavailableError, 503),
)


def create_api(
    bridge: Bridge,
    *,
    tokens: Mapping[str, str] | None = None,
    dashboard: ASGIApp | None = None,
    lifespan: Callable[[Starlette], Any] | None = None,
) -> Starlette:
    """Return the ASGI application. The bridge has to be open while it runs.

    ``tokens`` has a secret for each actor: then a request needs ``Authorization: Bearer …``, and its source has to be
    the actor of the token. Without tokens the API believes what a request says, so serve it only where you trust
    everyone. ``dashboard`` is ``bridge.app.web()``, served under ``/``.
    """

    async def reeval(request: Request) -> JSONResponse:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                return _refusal(413, "too-large", "The body is too large.", f"Send at most {_MAX_BODY:,} bytes.")
        actor = None if tokens is None else _actor(tokens, request.headers.get("authorization", ""))
        if tokens is not None and actor is None:
            return _refusal(401, "unauthorized", "The token is missing or unknown.", "Send Authorization: Bearer ….")
        try:
            wanted = ReEvaluationRequest.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "body"
            return _refusal(400, "invalid-request", f"{place}: {first['msg']}.", "Fix the request.")
        if actor is not None and wanted.source.value != actor:
            return _refusal(403, "source-not-allowed", f"This token is not {wanted.source.value}'s.", "Use your own.")
        try:
            answer = await bridge.reeval_client.reeval(wanted)
        except (BridgeError, InterlockError) as error:
            return _failure(error)
        return JSONResponse(answer.model_dump(mode="json"))

    routes: list[Route | Mount] = [Route(REEVAL_PATH, reeval, methods=["POST"])]
    if dashboard is not None:
        routes.append(Mount("/", dashboard))
    return Starlette(routes=routes, lifespan=lifespan)


def _actor(tokens: Mapping[str, str], header: str) -> str | None:
    """The actor whose token a request has. All tokens are compared, so the time says nothing."""
    scheme, _, given = header.partition(" ")
    found = [actor for actor, token in tokens.items() if token and hmac.compare_digest(token.encode(), given.encode())]
    return found[0] if found and scheme.lower() == "bearer" else None


def _failure(error: Exception) -> JSONResponse:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    code = getattr(error, "reason", "") or getattr(error, "code", "bridge")
    return _refusal(status, code, getattr(error, "message", str(error)), getattr(error, "remedy", ""))


def _refusal(status: int, code: str, message: str, remedy: str) -> JSONResponse:
    return JSONResponse({"error": code, "message": message, "remedy": remedy}, status)
