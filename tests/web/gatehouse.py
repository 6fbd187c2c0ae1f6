"""A web app with a few pages that stand for all, and how to come to them."""

from __future__ import annotations

import base64
from typing import Any
from unittest.mock import patch

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Route

from interlock.web import Credentials, Web
from tests.web.stand_in import StandIn

USERS = Credentials({"ann": "päss:wörd", "bob": "b"})
SAME = ("Sec-Fetch-Site", "same-origin")


def made(credentials: Credentials | None = None, *allowed_hosts: str) -> Web:
    with patch("interlock.web.pages.routes", _routes):
        return Web(StandIn(), credentials=credentials, allowed_hosts=allowed_hosts)  # type: ignore[arg-type]


def basic(text: str | bytes) -> tuple[str, str]:
    raw = text.encode() if isinstance(text, str) else text
    return "Authorization", "Basic " + base64.b64encode(raw).decode()


def _routes(web: Web) -> list[Route]:
    return [
        Route("/", _page),
        Route("/act", _act, methods=["POST"]),
        Route("/fail", _fail),
        Route("/style", lambda _: PlainTextResponse("", headers={"Cache-Control": "max-age=9"})),
    ]


async def _page(request: Any) -> Any:
    return HTMLResponse(f"{request.state.user}|{request.state.csrf}")


async def _act(request: Any) -> Any:
    form = request.state.form
    assert "csrf" not in form or request.state.user
    return JSONResponse({"by": request.state.user, "why": form.get("why", ""), "body": len(await request.body())})


async def _fail(request: Any) -> Any:
    raise RuntimeError("a secret of ours")
