"""The dashboard: pages for people, the same as JSON for programs, and what can be done from both.

``routes(web)`` is what the web app mounts. Everything that is shown comes from ``app.insight``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.routing import Route

from interlock.web.links import path_of
from interlock.web.log_stream import LogStreams
from interlock.web.pages.actions import Actions
from interlock.web.pages.api import Api, api_error, handles_api
from interlock.web.pages.details import KINDS, Details
from interlock.web.pages.lists import Lists
from interlock.web.pages.site import Site
from interlock.web.pages.static import static

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from interlock.web.asgi import Web

__all__ = ["routes"]


def routes(web: Web) -> list[BaseRoute]:
    """Every page, the API, and the files that pages load."""
    site = Site(web)
    lists, details, api = Lists(site), Details(site), Api(site)
    actions = Actions(site, details, lists)
    pages: list[BaseRoute] = [
        Route("/", site.handles(lists.overview)),
        Route("/static/{name}", static),
        Route("/api/overview", handles_api(api.overview)),
        Route("/api/activity", handles_api(api.activity)),
        Route("/api/queues", handles_api(api.queues)),
        Route("/journal", site.handles(_named(partial(lists.show, kind="journal")))),
        Route("/journal/{ref}", site.handles(details.journal_entry)),
        Route("/api/journal/{ref}", handles_api(api.journal_entry)),
        Route("/api/journal", handles_api(_named(partial(api.list, kind="journal")))),
        Route("/api/jobs/{ref}/log", handles_api(api.log)),
        Route("/api/jobs/{ref}/log/stream", LogStreams(web), methods=["GET"]),
        Route("/records", site.handles(lists.records)),
        Route("/records/{ref:path}", site.handles(details.record)),
        Route("/api/records", handles_api(api.records)),
        Route("/api/records/{ref:path}", handles_api(api.record)),
        Route("/api/runs", handles_api(api.runs)),
        Route("/api/runs/{ref}", handles_api(api.run)),
        Route("/api/explain/journal", handles_api(api.explain_journal)),
        Route("/api/explain/{kind}/{ref:path}", handles_api(api.explain)),
    ]
    pages += [
        Route("/queues/{ref:path}", site.handles(_by_method(details.show, actions.from_page, "queues")), methods=_BOTH),
        Route("/api/queues/{ref:path}", handles_api(_by_method(api.thing, actions.from_api, "queues")), methods=_BOTH),
    ]
    for kind in KINDS:
        pages += [
            Route(f"/{kind}", site.handles(_by_method(lists.show, actions.all_from_page, kind)), methods=_BOTH),
            Route(
                f"/{kind}/{{ref:path}}", site.handles(_by_method(details.show, actions.from_page, kind)), methods=_BOTH
            ),
            Route(f"/api/{kind}", handles_api(_by_method(api.list, actions.all_from_api, kind)), methods=_BOTH),
            Route(
                f"/api/{kind}/{{ref:path}}", handles_api(_by_method(api.thing, actions.from_api, kind)), methods=_BOTH
            ),
        ]
    web.error_handlers |= {HTTPException: _errors(site), Exception: _errors(site, web.error_handlers.get(Exception))}
    return pages


_BOTH = ["GET", "POST"]


def _by_method(get: Any, post: Any, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        answer: Response = await (post if request.method == "POST" else get)(request, kind)
        return answer

    return endpoint


def _named(endpoint: Any) -> Callable[[Request], Awaitable[Response]]:
    async def named(request: Request) -> Response:
        answer: Response = await endpoint(request)
        return answer

    return named


def _errors(site: Site, report: Any = None) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        if report is not None:
            await report(request, error)
        if path_of(request.scope).startswith("/api/"):
            return api_error(error)
        return site.error(request, error)

    return answer
