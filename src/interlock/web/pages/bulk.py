"""Operations on everything that a list shows: counted, confirmed with a reason, done in bounded batches, reported.

A list links to itself with ``act=hold``: the page then shows how many subjects match and asks. The form posts ``act``,
``reason`` and the confirmed ``count`` to the list's own address, filters included. The API does the same: a GET with
``act`` counts, a POST acts. A request without any filter has to say ``all=true``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import InvalidArgumentError
from interlock.ports.claims import ClaimFilter
from interlock.ports.journal import Action
from interlock.selections import LaneFilter, LockFilter, may_apply
from interlock.service import operations_of
from interlock.web.pages.filters import FILTERS, claim_state, event_filter, job_filter, lane_show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from interlock.app import App
    from interlock.operations import BulkResult, Operations
    from interlock.selections import Filter

__all__ = ["BulkAct", "Question", "apply", "asked", "offered"]

_BATCH = 1000
"""How many subjects one request changes at most, so that it ends before a proxy gives up."""
_MAX_COUNTED = 10_000


class BulkAct(NamedTuple):
    """An operation that a list offers."""

    name: str
    action: Action
    label: str
    """The button: "Hold all"."""
    verb: str
    """The question: "Hold 14 lanes?"."""
    noun: str
    text: str
    sign: str
    danger: bool = False
    needs_reason: bool = True
    kept: str = "Kept in the journal"
    """Says where the reason goes."""


class Question(NamedTuple):
    """What the page asks before an operation on everything that matches."""

    act: BulkAct
    matching: int
    too_many: bool
    """Whether more match than are counted."""

    @property
    def batch(self) -> int:
        """How many the next request changes."""
        return min(self.matching, _BATCH)


_ACTS: Mapping[str, tuple[BulkAct, ...]] = {
    "jobs": (
        BulkAct(
            "retry",
            Action.JOB_RETRY,
            "Retry all",
            "Retry",
            "job",
            "Each job runs as soon as its lane and its limits allow. The effects of earlier attempts remain.",
            "retry",
            needs_reason=False,
        ),
        BulkAct(
            "cancel",
            Action.JOB_CANCEL,
            "Cancel all",
            "Cancel",
            "job",
            "Running jobs are stopped by their workers; the others do not run.",
            "stop",
            danger=True,
            kept="Kept with each job and in the journal",
        ),
    ),
    "lanes": (
        BulkAct(
            "hold",
            Action.LANE_HOLD,
            "Hold all",
            "Hold",
            "lane",
            "Running jobs continue, and new jobs are accepted. No other job starts until its lane is released.",
            "hand",
            kept="Shown with each lane and kept in the journal",
        ),
        BulkAct(
            "release",
            Action.LANE_RELEASE,
            "Release all",
            "Release",
            "lane",
            "Held and parked lanes continue in order, starting with their first job.",
            "play",
            needs_reason=False,
        ),
    ),
    "locks": (
        BulkAct(
            "release",
            Action.LOCK_FORCE_RELEASE,
            "Force release all",
            "Force the release of",
            "lock",
            "The work of each holder is cancelled, and its fenced writes are refused. The next waiter gets the lock.",
            "locks",
            danger=True,
            kept="Sent to each holder and kept in the journal",
        ),
    ),
    "claims": (
        BulkAct(
            "forget",
            Action.CLAIM_FORGET,
            "Forget all",
            "Forget",
            "claim",
            "The keys become new: the next process that claims one does its work again. Work in progress is stopped.",
            "cross",
            danger=True,
            kept="Sent to each holder and kept in the journal",
        ),
    ),
    "events": (
        BulkAct(
            "replay",
            Action.EVENT_REPLAY,
            "Replay all",
            "Replay",
            "event",
            "The current handlers receive each event again, as a new event. The effects of the first delivery remain.",
            "retry",
            needs_reason=False,
        ),
    ),
}


def offered(kind: str, request: Request) -> list[BulkAct]:
    """The operations that could change anything in the list that a request asks for."""
    if kind not in _ACTS:
        return []
    wanted = _filter(kind, request)
    return [act for act in _ACTS[kind] if may_apply(act.action, wanted)]


async def asked(app: App, kind: str, request: Request, name: str) -> Question:
    """Count what an operation would change."""
    act = _act(kind, name)
    found = await _operations(app, kind).matching(_filter(kind, request), act.action, limit=_MAX_COUNTED + 1)
    return Question(act, min(len(found), _MAX_COUNTED), len(found) > _MAX_COUNTED)


async def apply(
    app: App, kind: str, request: Request, fields: Mapping[str, str], by: str
) -> tuple[BulkAct, BulkResult[Any], int]:
    """Perform an operation on at most as many subjects as were confirmed; also return how many still match."""
    act = _act(kind, fields.get("act", ""))
    if not any(request.query_params.get(name) for name in (*FILTERS[kind], "all")):
        raise InvalidArgumentError(
            "An operation on everything needs a filter.",
            remedy=f"Pass {', '.join(FILTERS[kind]) or 'no filter'}, or all=true for everything.",
        )
    wanted = _filter(kind, request)
    operations = _operations(app, kind)
    found = await operations.matching(wanted, act.action, limit=_MAX_COUNTED + 1)
    if len(found) > _MAX_COUNTED:
        raise InvalidArgumentError(
            f"More than {_MAX_COUNTED:,} {act.noun}s match.", remedy="Narrow the filter, or use the command line."
        )
    refs = found[: _count(fields)]
    reason = fields.get("reason", "").strip()
    if act.action is Action.EVENT_REPLAY:
        result = await app.events.replay_matching(event_filter(request), by=by, reason=reason, events=refs)
    else:
        result = await operations.apply(act.action, wanted, by=by, reason=reason, refs=refs)
    return act, result, len(found) - len(refs)


def _act(kind: str, name: str) -> BulkAct:
    acts = {act.name: act for act in _ACTS.get(kind, ())}
    if name not in acts:
        raise InvalidArgumentError(f"Invalid act {name[:40]!r}.", remedy=f"Valid values: {', '.join(acts) or 'none'}.")
    return acts[name]


def _count(fields: Mapping[str, str]) -> int:
    """How many subjects were confirmed, bounded by what one request may change."""
    given = fields.get("count", str(_BATCH))
    if not given.isascii() or not given.isdecimal() or not 1 <= len(given) <= 9:
        raise InvalidArgumentError(f"Invalid count {given[:20]!r}.", remedy="Pass the number that was confirmed.")
    return min(int(given), _BATCH)


def _operations(app: App, kind: str) -> Operations:
    match kind:
        case "locks":
            return operations_of(app.locks)
        case "claims":
            return operations_of(app.claims)
        case _:
            return operations_of(app.jobs)


def _filter(kind: str, request: Request) -> Filter:
    match kind:
        case "jobs":
            return job_filter(request)
        case "lanes":
            return LaneFilter(show=lane_show(request))
        case "locks":
            return LockFilter()
        case "claims":
            return ClaimFilter(request.query_params.get("prefix", ""), claim_state(request))
        case _:
            return event_filter(request)
