"""The same answers as JSON, under ``/api``."""

from __future__ import annotations

import json
import math
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from interlock.errors import InterlockError, InvalidArgumentError
from interlock.insight import data
from interlock.insight.insight import Kind
from interlock.web.links import check_path
from interlock.web.log_stream import after_of
from interlock.web.pages.bulk import asked
from interlock.web.pages.details import looked_up, number_of, record_of
from interlock.web.pages.faults import fault_of
from interlock.web.pages.lists import listed, record_list

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from interlock.web.pages.site import Site

__all__ = ["Api", "api_error", "handles_api"]

_MAX_SECONDS = 24 * 3600.0
_MAX_BUCKETS = 1000
_MAX_LOG_LINES = 10_000
_MAX_RUNS = 200


class Api:
    """Answers with data."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def overview(self, request: Request) -> Response:
        """How everything stands."""
        return _json(data(await self.site.app.insight.overview()))

    async def activity(self, request: Request) -> Response:
        """Activity: ``?seconds=600&buckets=60``."""
        seconds = _figure(request, "seconds", 600.0, _MAX_SECONDS)
        buckets = _figure(request, "buckets", 60.0, _MAX_BUCKETS)
        return _json(data(await self.site.app.insight.activity(seconds, int(buckets))))

    async def queues(self, request: Request) -> Response:
        """All queues."""
        return _json(data(await self.site.app.insight.queues()))

    async def list(self, request: Request, kind: str) -> Response:
        """A list, filtered and in parts as on its page; with ``act``, how many an operation on all of it concerns."""
        app = self.site.app
        if "act" in request.query_params and kind != "journal":
            question = await asked(app, kind, request, request.query_params["act"])
            return _json({"act": question.act.name, "count": question.matching, "more": question.too_many})
        return _json(data(await (app.insight.workers() if kind == "workers" else listed(app.insight, kind, request))))

    async def thing(self, request: Request, kind: str) -> Response:
        """One thing."""
        return _json(data(await looked_up(self.site.app.insight, kind, request)))

    async def log(self, request: Request) -> Response:
        """A part of a job's log: ``?after=0&limit=1000``."""
        limit = int(_figure(request, "limit", 1000.0, _MAX_LOG_LINES))
        found = await self.site.app.insight.job_log(number_of(request, "job"), after=after_of(request), limit=limit)
        return _json(data(found))

    async def journal_entry(self, request: Request) -> Response:
        """One journal entry, with the difference that the change made."""
        return _json(data(await self.site.app.insight.journal_page(number_of(request, "journal entry"))))

    async def explain_journal(self, request: Request) -> Response:
        """How far the journal is sealed and verified, and what to do."""
        return _json(data(await self.site.app.insight.explain(Kind.JOURNAL)))

    async def records(self, request: Request) -> Response:
        """The kinds of records, or with ``kind`` the records of one."""
        insight, kind = self.site.app.insight, request.query_params.get("kind", "")
        return _json(data(await (record_list(insight, kind, request) if kind else insight.record_kinds())))

    async def record(self, request: Request) -> Response:
        """One record."""
        return _json(data(await record_of(self.site.app.insight, request)))

    async def runs(self, request: Request) -> Response:
        """Runs of pipelines: ``?pipeline=&record=KIND/ID&state=&before=&limit=50``."""
        names = ("pipeline", "record", "state", "before")
        wanted = {name: request.query_params.get(name, "") for name in names}
        limit = int(_figure(request, "limit", 50.0, _MAX_RUNS))
        return _json(data(await self.site.app.insight.runs(**wanted, limit=limit)))

    async def run(self, request: Request) -> Response:
        """One run."""
        return _json(data(await self.site.app.insight.run(number_of(request, "run"))))

    async def explain(self, request: Request) -> Response:
        """Why something is as it is."""
        kind = request.path_params["kind"]
        if kind not in set(Kind):
            raise InvalidArgumentError(f"Nothing explains a {kind[:40]!r}.", remedy=f"Use {', '.join(Kind)}.")
        ref = request.path_params["ref"] or request.query_params.get("key", "")
        return _json(data(await self.site.app.insight.explain(kind, ref)))


def handles_api(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint, with its errors turned into data."""

    @wraps(endpoint)
    async def handled(request: Request) -> Response:
        try:
            check_path(request.scope)
            return await endpoint(request)
        except InterlockError as error:
            if fault_of(error).status == 500:
                raise
            return api_error(error)

    return handled


def api_error(error: Exception) -> Response:
    """An error as data: a stable code for programs, words for people."""
    fault = fault_of(error)
    answer = _json({"error": fault.code, "message": fault.message, "remedy": fault.remedy}, fault.status)
    answer.headers.update(fault.headers)
    return answer


def _json(answer: Any, status: int = 200) -> Response:
    """What was stored may be more than JSON is strict about; nothing of it may fail here."""
    try:
        text = _dumps(answer)
    except ValueError:
        text = _dumps(_finite(answer))
    return Response(text.encode(errors="replace"), status, media_type="application/json")


_dumps = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    """The same with words for numbers that JSON has not got."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _figure(request: Request, name: str, usual: float, limit: float) -> float:
    given = request.query_params.get(name, "")
    if not given:
        return usual
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 1 <= value <= limit:
        raise InvalidArgumentError(f"{name} is {given[:20]!r}.", remedy=f"Use 1 to {limit:g}.")
    return value
