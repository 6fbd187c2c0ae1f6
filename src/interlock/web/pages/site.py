"""The frame that all pages share: templates, links, who asks, and what becomes of errors.

A page is a function from a request to what its template needs. It answers a browser with a whole page, and htmx with
the part of it that lives. Errors become pages that say what happened and what to do, never a stack of details.
"""

from __future__ import annotations

import json
import re
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup
from starlette.responses import HTMLResponse

from interlock.clock import as_datetime, as_text
from interlock.errors import CapabilityError, InterlockError
from interlock.jobs.causes import read_cause
from interlock.jobs.options import after_in
from interlock.limits.explain import figure
from interlock.ports.jobs import JobState
from interlock.web.links import check_path, has_controls, url
from interlock.web.pages import charts, formatting
from interlock.web.pages.faults import fault_of
from interlock.web.pages.icons import LOGO, icon
from interlock.web.pages.log_lines import shown_lines
from interlock.web.pages.markup import json_html, sentence
from interlock.web.pages.related import related
from interlock.web.pages.static import static_version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jinja2.runtime import Context
    from starlette.requests import Request
    from starlette.responses import Response

    from interlock.app import App
    from interlock.explanation import Subject
    from interlock.web.asgi import Web

__all__ = ["Site", "is_part", "numbers_of", "record_url", "subject_url", "thing_url"]

_TEMPLATES = Path(__file__).parent.parent / "templates"
_SUBJECTS = frozenset({"job", "lane", "queue", "lock", "claim", "limit", "event", "schedule"})
_RECORD_LOCK = re.compile(r"record:[A-Za-z][A-Za-z0-9_.-]*:.")
_UNROUTABLE = frozenset({"", ".", ".."})


class Site:
    """The dashboard of one web app."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.app: App = web.app
        self._environment = _environment()

    async def page(self, request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
        """A page; only its living part if htmx asks."""
        part = is_part(request)
        if not part:
            context["numbers"] = await self._numbers()
        return self.html(request, template, status=status, layout="part.html" if part else "base.html", **context)

    def html(self, request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
        """The template's text, as an answer."""
        common: dict[str, Any] = {
            "request": request,
            "url": partial(url, request),
            "thing": partial(thing_url, request),
            "record_url": partial(record_url, request),
            "subject_url": partial(subject_url, request),
            "locked_record_url": partial(locked_record_url, request),
            "csrf": getattr(request.state, "csrf", ""),
            "user": getattr(request.state, "user", ""),
            "parts": self.app.insight.parts,
            "namespace": self.app.settings.namespace,
            "store": self.app.store_name,
            "layout": "base.html",
            "numbers": {},
            "seen_at": None,
            "fault": None,
            "said": None,
            "still": False,
        }
        text = self._environment.get_template(template).render(common | context)
        return HTMLResponse(text, status, headers={"vary": "HX-Request"})

    async def _numbers(self) -> dict[str, int]:
        """The counts next to the links; empty if the store does not respond, because the page itself reports that."""
        try:
            return numbers_of(await self.app.insight.pulse())
        except InterlockError:
            return {}

    def handles(self, page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The page, with its errors turned into pages."""

        @wraps(page)
        async def handled(request: Request) -> Response:
            try:
                check_path(request.scope)
                return await page(request)
            except CapabilityError as error:
                return await self.page(request, "absent.html", error=error, title="Not here", at=_section(request))
            except InterlockError as error:
                if fault_of(error).status == 500:  # none that a page should meet: reported like any other
                    raise
                return self.error(request, error)

        return handled

    def error(self, request: Request, error: Exception) -> Response:
        """A page about an error. Nothing is asked of the store for it."""
        fault = fault_of(error)
        answer = self.html(
            request, "error.html", status=fault.status, error=fault, title=fault.title, at=_section(request), still=True
        )
        answer.headers.update(fault.headers)
        return answer


def thing_url(request: Request, kind: str, ref: object, **query: object) -> str:
    """A link to one thing by its name. Names that no path can carry go into the query."""
    name = str(ref)
    if name in _UNROUTABLE or has_controls(name):
        return url(request, kind, "", query=[("key", name), *query.items()])
    return url(request, kind, name, query=query.items())


def record_url(request: Request, kind: str, id: str, api: str = "", **query: object) -> str:  # noqa: A002
    """A link to one record, or to its JSON. An ID that no path can carry goes into the query."""
    path = [*([api] if api else []), "records", kind]
    if id in _UNROUTABLE or has_controls(id):
        return url(request, *path, "", query=[("key", id), *query.items()])
    return url(request, *path, id, query=query.items())


def subject_url(request: Request, kind: str, key: str) -> str:
    """A link to the subject of a journal entry; empty if it has no page."""
    if kind == "record":
        record_kind, _, record_id = key.partition(":")
        return record_url(request, record_kind, record_id) if record_id else ""
    return thing_url(request, f"{kind}s", key) if kind in _SUBJECTS else ""


def locked_record_url(request: Request, key: str) -> str:
    """A link to the record that a lock protects; empty for other locks."""
    return subject_url(request, "record", key.removeprefix("record:")) if _RECORD_LOCK.match(key) else ""


def numbers_of(pulse: dict[str, Any]) -> dict[str, int]:
    """The counts next to the links, from a pulse. The script in the browser does the same."""
    states: dict[str, int] = pulse.get("states", {})
    return {
        **{f"states.{state}": number for state, number in states.items()},
        "open": sum(states.get(str(state), 0) for state in formatting.OPEN),
        "failed": states.get("failed", 0) + states.get("quarantined", 0),
        "problems": pulse.get("problems", 0),
    }


def is_part(request: Request) -> bool:
    """Whether htmx asks for the live part of a page only."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def _section(request: Request) -> str:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return str(path).strip("/").partition("/")[0]


# -- templates ---------------------------------------------------------------------------------------------------------


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
        auto_reload=False,
    )
    environment.filters |= {
        "brief": formatting.brief,
        "count": formatting.count,
        "count_status": formatting.count_status,
        "number": formatting.number,
        "plural": formatting.plural,
        "span": formatting.long_span,
        "exact": Markup.escape,
        "json": json_html,
        "tojson_text": partial(json.dumps, ensure_ascii=False),
    }
    environment.globals |= {
        "LOGO": LOGO,
        "FINAL": frozenset(state for state in JobState if state.final),
        "STATES": formatting.STATES,
        "ago": _ago,
        "figure": figure,
        "lasting": _lasting,
        "icon": icon,
        "parts_of": charts.parts_of,
        "read_cause": read_cause,
        "read_after": after_in,
        "related": related,
        "sentence": _sentence,
        "shown_lines": shown_lines,
        "squares": charts.squares,
        "time_of_day": _time_of_day,
        "version": static_version,
    }
    return environment


def _finalized(value: object) -> object:
    """Every text on its way into a page, but not what is HTML already."""
    return formatting.visible(value) if type(value) is str else value


@pass_context
def _ago(context: Context, at: float | None) -> Markup:
    """A moment relative to now, with the exact one to hover."""
    if at is None:
        return Markup('<span class="zero">-</span>')
    past = (context["seen_at"] or at) - at
    text = (
        f"in {formatting.short_span(-past)}"
        if past < 0
        else "now"
        if past < 1
        else f"{formatting.short_span(past)} ago"
    )
    return _time(at, "ago", text)


@pass_context
def _lasting(context: Context, since: float) -> Markup:
    """How long something lasts already; it goes on counting in the browser."""
    return _time(since, "for", formatting.long_span((context["seen_at"] or since) - since))


def _time_of_day(at: float) -> Markup:
    """The time of a log line, with the date to hover."""
    moment = as_datetime(at)
    return Markup('<time datetime="{}" title="{:%Y-%m-%d %H:%M:%S} UTC">{:%H:%M:%S}.{:03d}</time>').format(
        as_text(at), moment, moment, moment.microsecond // 1000
    )


def _time(at: float, form: str, text: str) -> Markup:
    exact = f"{as_datetime(at):%Y-%m-%d %H:%M:%S}.{int(at % 1 * 1000):03d} UTC"
    return Markup('<time datetime="{}" data-at="{:.3f}" data-form="{}" title="{}">{}</time>').format(
        as_text(at), at, form, exact, text
    )


@pass_context
def _sentence(context: Context, text: str, subject: Subject | None = None) -> Markup:
    def job_link(number: str) -> str:
        """Nothing for the job that the sentence is about."""
        return "" if subject == ("job", number) else str(context["url"]("jobs", number))

    return sentence(text, job_link, context["seen_at"] or 0.0)
