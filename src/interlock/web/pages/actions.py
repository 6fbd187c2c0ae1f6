"""Operations from a page or the API: on one subject, or on everything that a list shows.

A form posts ``act`` and ``reason`` to the address of the subject or of the list, and is redirected back to it. The API
takes the same as JSON. The actor is the user who signed in.
"""

from __future__ import annotations

import json
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import JSONResponse, RedirectResponse

from interlock.errors import InterlockError, InvalidArgumentError, StoreUnavailableError
from interlock.ports.jobs import JobState
from interlock.web.links import url
from interlock.web.pages.bulk import apply
from interlock.web.pages.details import key_of, number_of
from interlock.web.pages.faults import fault_of
from interlock.web.pages.filters import FILTERS
from interlock.web.pages.site import thing_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from interlock.app import App
    from interlock.web.pages.details import Details
    from interlock.web.pages.lists import Lists
    from interlock.web.pages.site import Site

__all__ = ["ACTS", "Actions", "Done", "Order"]


class Order(NamedTuple):
    """A requested operation."""

    ref: Any
    reason: str
    by: str
    fields: Mapping[str, str] = MappingProxyType({})
    """What else was sent."""


class Done(NamedTuple):
    """The result of an operation."""

    said: str
    """The code of the notice that the page shows; see notices.py."""
    data: dict[str, Any]
    ref: object = None
    """The subject to show next, if it is another one."""
    gone: bool = False
    """Whether the subject does not exist any more, so that the list is shown next."""


class Actions:
    """Handles posts."""

    def __init__(self, site: Site, details: Details, lists: Lists) -> None:
        self.site = site
        self.details = details
        self.lists = lists

    async def from_page(self, request: Request, kind: str) -> Response:
        """Perform an operation on one subject, and lead the browser back to it."""
        try:
            done, ref = await self._act(request, kind, request.state.form)
        except StoreUnavailableError:
            raise
        except InterlockError as error:
            return await self.details.show(request, kind, fault=fault_of(error))
        state = done.data.get("state")
        query = {"said": done.said} | ({"state": state} if state else {})
        if done.gone:
            return RedirectResponse(url(request, kind, said=done.said), 303)
        return RedirectResponse(thing_url(request, kind, done.ref or ref, **query), 303)

    async def from_api(self, request: Request, kind: str) -> Response:
        """Perform an operation on one subject, and return its outcome."""
        done, ref = await self._act(request, kind, await _fields(request))
        return JSONResponse({"ref": done.ref or ref, "done": done.said, **done.data})

    async def all_from_page(self, request: Request, kind: str) -> Response:
        """Perform an operation on everything that a list shows, and lead the browser back to the list."""
        fields: Mapping[str, str] = request.state.form
        try:
            act, result, left = await apply(self.site.app, kind, request, fields, self.site.web.by(request))
        except StoreUnavailableError:
            raise
        except InterlockError as error:
            return await self.lists.show(request, kind, fault=fault_of(error), act=fields.get("act", ""))
        filters = [(name, value) for name, value in request.query_params.multi_items() if name in FILTERS[kind]]
        report = {"changed": len(result.changed), "unchanged": len(result.unchanged), "left": left}
        return RedirectResponse(url(request, kind, query=filters, said=f"all-{kind}-{act.name}", **report), 303)

    async def all_from_api(self, request: Request, kind: str) -> Response:
        """Perform an operation on everything that a list shows, and return what was changed."""
        fields = await _fields(request)
        act, result, left = await apply(self.site.app, kind, request, fields, self.site.web.by(request))
        return JSONResponse({"done": act.name, **result._asdict(), "left": left})

    async def _act(self, request: Request, kind: str, fields: Mapping[str, str]) -> tuple[Done, object]:
        acts = ACTS.get(kind, {})
        act = acts.get(fields.get("act", ""))
        if act is None:
            raise InvalidArgumentError(
                f"Invalid act {fields.get('act', '')[:40]!r}.", remedy=f"Valid values: {', '.join(acts) or 'none'}."
            )
        ref = number_of(request, kind[:-1]) if kind in ("jobs", "events") else key_of(request)
        order = Order(ref, fields.get("reason", "").strip(), self.site.web.by(request), fields)
        return await act(self.site.app, order), ref


async def _fields(request: Request) -> dict[str, str]:
    if "json" not in request.headers.get("content-type", "json"):
        form: dict[str, str] = request.state.form
        return form
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidArgumentError(
            "The body is not a JSON object of strings.", remedy='Send {"act": "…", "reason": "…"}.'
        ) from None
    return given


# -- the acts ----------------------------------------------------------------------------------------------------------


async def _retry(app: App, order: Order) -> Done:
    state = await app.jobs.retry(order.ref, by=order.by, reason=order.reason)
    return Done("ended" if state is JobState.DONE else "retried", {"state": str(state)})


async def _cancel(app: App, order: Order) -> Done:
    state = await app.jobs.cancel(order.ref, reason=order.reason, by=order.by)
    said = "cancelling" if state.at_worker else "cancelled" if state is JobState.CANCELLED else "ended"
    return Done(said, {"state": str(state)})


async def _hold(app: App, order: Order) -> Done:
    await app.lanes.hold(order.ref, reason=order.reason, by=order.by)
    return Done("held", {})


async def _release(app: App, order: Order) -> Done:
    return Done("released" if await app.lanes.release(order.ref, by=order.by, reason=order.reason) else "not-held", {})


async def _pause(app: App, order: Order) -> Done:
    await app.queues.pause(order.ref, by=order.by, reason=order.reason)
    return Done("paused", {})


async def _resume(app: App, order: Order) -> Done:
    resumed = await app.queues.resume(order.ref, by=order.by, reason=order.reason)
    return Done("resumed" if resumed else "not-paused", {})


async def _force_release(app: App, order: Order) -> Done:
    holder = await app.locks.force_release(order.ref, reason=order.reason, by=order.by)
    if holder is None:
        return Done("lock-free", {"holder": None})
    return Done("lock-released", {"holder": holder.caller, "fence": holder.fence})


async def _resize(app: App, order: Order) -> Done:
    size, per = _number(order, "size"), order.fields.get("per", "").strip()
    if size is None:
        raise InvalidArgumentError("The size is missing.", remedy="Send how many, or the seconds of a cooldown.")
    await app.limits.resize(
        order.ref, size, per=_number(order, "per") if per else None, by=order.by, reason=order.reason
    )
    return Done("resized", {"size": size})


async def _reset(app: App, order: Order) -> Done:
    before = await app.limits.reset(order.ref, by=order.by, reason=order.reason)
    return Done("not-resized" if before is None else "reset", {})


def _number(order: Order, name: str) -> float | None:
    """Return a number from the request; None if there is none."""
    text = order.fields.get(name, "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        raise InvalidArgumentError(f"Invalid {name} {text[:40]!r}.", remedy="Use a number.") from None
    return int(number) if number.is_integer() else number


async def _forget(app: App, order: Order) -> Done:
    claim = await app.claims.forget(order.ref, reason=order.reason, by=order.by)
    return Done("no-claim" if claim is None else "forgotten", {})


async def _replay(app: App, order: Order) -> Done:
    receipt = await app.events.replay(order.ref, by=order.by, reason=order.reason)
    data = {"status": str(receipt.status), "event": receipt.event, "jobs": list(receipt.jobs)}
    if receipt.event is None:
        return Done("replay-ignored", data)
    return Done("replayed", data, receipt.event)


async def _pause_schedule(app: App, order: Order) -> Done:
    schedule = await app.schedules.pause(order.ref, by=order.by, reason=order.reason)
    return Done("schedule-paused", {"version": schedule.version})


async def _resume_schedule(app: App, order: Order) -> Done:
    schedule = await app.schedules.resume(order.ref, by=order.by, reason=order.reason)
    return Done("schedule-resumed", {"version": schedule.version})


async def _trigger_schedule(app: App, order: Order) -> Done:
    handle = await app.schedules.trigger(order.ref, by=order.by, reason=order.reason)
    return Done("schedule-triggered", {"job": handle.id})


async def _delete_schedule(app: App, order: Order) -> Done:
    await app.schedules.delete(order.ref, by=order.by, reason=order.reason)
    return Done("schedule-deleted", {}, gone=True)


async def _save_schedule(app: App, order: Order) -> Done:
    """Create or replace a schedule; its fields are strings, and ``arguments`` is JSON."""
    texts = ("job", "cron", "timezone", "misfire", "overlap")
    given: dict[str, Any] = {name: order.fields[name] for name in texts if order.fields.get(name)}
    for name in ("every", "grace", "jitter", "version"):
        if order.fields.get(name):
            given[name] = _figure(name, order.fields[name])
    if order.fields.get("arguments"):
        given["arguments"] = _object(order.fields["arguments"])
    if "active" in order.fields:
        given["active"] = order.fields["active"] != "false"
    if "job" not in given:
        raise InvalidArgumentError("The schedule has no job.", remedy='Send {"job": "NAME", …}.')
    schedule = await app.schedules.save(order.ref, by=order.by, reason=order.reason, **given)
    return Done("schedule-saved", {"version": schedule.version})


async def _backfill_schedule(app: App, order: Order) -> Done:
    start, end = (_moment(name, order.fields.get(name, "")) for name in ("start", "end"))
    handles = await app.schedules.backfill(order.ref, start, end, by=order.by, reason=order.reason)
    return Done("schedule-backfilled", {"jobs": [handle.id for handle in handles]})


def _figure(name: str, text: str) -> float:
    try:
        return int(text) if name == "version" else float(text)
    except ValueError:
        raise InvalidArgumentError(f"Invalid {name} {text[:40]!r}.", remedy="Send a number as a string.") from None


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgumentError("Invalid arguments.", remedy="Send a JSON object as a string.")
    return found


def _moment(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(
            f"Invalid {name} {text[:40]!r}.", remedy="Use ISO 8601 with an offset, such as 2027-01-01T00:00+00:00."
        ) from None


ACTS: Mapping[str, Mapping[str, Callable[[App, Order], Awaitable[Done]]]] = {
    "jobs": {"retry": _retry, "cancel": _cancel},
    "lanes": {"hold": _hold, "release": _release},
    "queues": {"pause": _pause, "resume": _resume},
    "locks": {"release": _force_release},
    "claims": {"forget": _forget},
    "limits": {"resize": _resize, "reset": _reset},
    "events": {"replay": _replay},
    "schedules": {
        "pause": _pause_schedule,
        "resume": _resume_schedule,
        "trigger": _trigger_schedule,
        "delete": _delete_schedule,
        "save": _save_schedule,
        "backfill": _backfill_schedule,
    },
}
"""The operations on one subject of each kind."""
