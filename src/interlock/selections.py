"""Selections: the subjects that an operation on "all that match" applies to.

A selection combines a filter with what its operation can change: holding applies to lanes that are not held yet, a
retry to jobs that wait for a later time, are parked, or ended without success. :meth:`Selection.refs` finds the
subjects page by page. :meth:`Selection.matches` looks at one of them again directly before it is changed, because a
person may take a while to confirm. docs/decisions/0052 says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from interlock.arguments import checked_prefix
from interlock.errors import InvalidArgumentError
from interlock.ports.claims import ClaimFilter
from interlock.ports.events import EventFilter
from interlock.ports.insight import LaneShow
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import Action

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from interlock.ports.job_views import LaneView
    from interlock.ports.store import Store

__all__ = [
    "BulkResult",
    "ClaimFilter",
    "Filter",
    "LaneFilter",
    "LockFilter",
    "Ref",
    "Selection",
    "may_apply",
    "selection",
]

Ref = TypeVar("Ref", int, str)
_PAGE = 1000
_RETRYABLE = frozenset(
    {
        JobState.SCHEDULED,
        JobState.PARKED,
        JobState.FAILED,
        JobState.DISCARDED,
        JobState.CANCELLED,
        JobState.QUARANTINED,
        JobState.EXPIRED,
    }
)
_POSSIBLE_STATES: Mapping[Action | None, frozenset[JobState]] = {
    Action.JOB_RETRY: _RETRYABLE,
    Action.JOB_CANCEL: frozenset(state for state in JobState if not state.final),
}
_POSSIBLE_LANES: Mapping[Action | None, Callable[[LaneView], bool]] = {
    Action.LANE_HOLD: lambda view: view.held_since is None,
    Action.LANE_RELEASE: lambda view: view.held_since is not None or view.parked_since is not None,
}


class LaneFilter(NamedTuple):
    """Which lanes. Empty means any."""

    prefix: str = ""
    show: LaneShow = LaneShow.ALL


class LockFilter(NamedTuple):
    """Which locks. Empty means any."""

    prefix: str = ""


Filter = JobFilter | LaneFilter | LockFilter | ClaimFilter | EventFilter
_SUBJECTS: Mapping[Action, type[Filter]] = {
    Action.JOB_RETRY: JobFilter,
    Action.JOB_CANCEL: JobFilter,
    Action.LANE_HOLD: LaneFilter,
    Action.LANE_RELEASE: LaneFilter,
    Action.LOCK_FORCE_RELEASE: LockFilter,
    Action.CLAIM_FORGET: ClaimFilter,
    Action.EVENT_REPLAY: EventFilter,
}


class BulkResult(NamedTuple, Generic[Ref]):
    """The outcome of an operation on everything that matched a filter."""

    changed: tuple[Ref, ...]
    """The subjects that were changed, in order. Each has its own journal entry."""
    unchanged: tuple[Ref, ...]
    """The subjects that were left alone: when their turn came, they no longer matched."""

    @property
    def matched(self) -> int:
        """How many subjects the operation went through."""
        return len(self.changed) + len(self.unchanged)


class Selection(Generic[Ref]):
    """The subjects in one store that match a filter and that one operation can change."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refs(self, limit: int | None = None) -> AsyncIterator[Ref]:
        """Find the subjects, page by page. Stop reading after about ``limit``, which are the newest jobs or events."""
        raise NotImplementedError

    async def matches(self, ref: Ref) -> bool:
        """Whether a subject exists and still matches."""
        raise NotImplementedError


class _Jobs(Selection[int]):
    def __init__(self, store: Store, wanted: JobFilter, possible: frozenset[JobState]) -> None:
        super().__init__(store)
        states = tuple(state for state in JobState if state in possible and state in (wanted.states or possible))
        self._wanted = wanted._replace(states=states)

    async def refs(self, limit: int | None = None) -> AsyncIterator[int]:
        more: int | None = None
        ids: list[int] = []
        while self._wanted.states:
            found = await self._store.insight.numbers(self._wanted, limit=_PAGE, before=more)
            ids += found.ids
            more = found.more
            if more is None or (limit is not None and len(ids) >= limit):
                break
        for id in reversed(ids):  # noqa: A001 - the oldest first, so that retried jobs keep their order
            yield id

    async def matches(self, ref: int) -> bool:
        view = await self._store.insight.get(ref)
        return view is not None and view.state in self._wanted.states


class _Lanes(Selection[str]):
    def __init__(self, store: Store, wanted: LaneFilter, possible: Callable[[LaneView], bool]) -> None:
        super().__init__(store)
        self._prefix = wanted.prefix
        self._show = wanted.show
        self._possible = possible

    async def refs(self, limit: int | None = None) -> AsyncIterator[str]:
        more: str | None = _before(self._prefix)
        while more is not None:
            found = await self._store.insight.lanes(show=self._show, limit=_PAGE, after=more)
            for view in found.lanes:
                if view.lane.startswith(self._prefix) and self._possible(view):
                    yield view.lane
            more = None if found.more is None or _beyond(found.more, self._prefix) else found.more

    async def matches(self, ref: str) -> bool:
        view = await self._store.insight.lane(ref)
        return view is not None and self._possible(view) and _shown(view, self._show)


class _Locks(Selection[str]):
    def __init__(self, store: Store, wanted: LockFilter) -> None:
        super().__init__(store)
        self._prefix = wanted.prefix

    async def refs(self, limit: int | None = None) -> AsyncIterator[str]:
        more: str | None = _before(self._prefix)
        while more is not None:
            views = await self._store.locks.list(limit=_PAGE, after=more, waiters=0)
            for view in views:
                if view.holder is not None and view.key.startswith(self._prefix):
                    yield view.key
            more = views[-1].key if len(views) == _PAGE and not _beyond(views[-1].key, self._prefix) else None

    async def matches(self, ref: str) -> bool:
        views = await self._store.locks.list(ref, waiters=0)
        return bool(views) and views[0].holder is not None


class _Claims(Selection[str]):
    def __init__(self, store: Store, wanted: ClaimFilter) -> None:
        super().__init__(store)
        self._wanted = wanted

    async def refs(self, limit: int | None = None) -> AsyncIterator[str]:
        more: str | None = ""
        while more is not None:
            views = await self._store.claims.list(None, self._wanted, limit=_PAGE, after=more)
            for view in views:
                yield view.key
            more = views[-1].key if len(views) == _PAGE else None

    async def matches(self, ref: str) -> bool:
        return bool(await self._store.claims.list(ref, self._wanted))


class _Events(Selection[int]):
    def __init__(self, store: Store, wanted: EventFilter) -> None:
        super().__init__(store)
        self._wanted = wanted

    async def refs(self, limit: int | None = None) -> AsyncIterator[int]:
        ids: list[int] = []
        views: Sequence[Any] = ()
        while not ids or len(views) == _PAGE:
            views = await self._store.events.list(self._wanted, limit=_PAGE, before=ids[-1] if ids else None)
            ids += [view.id for view in views]
            if not views or (limit is not None and len(ids) >= limit):
                break
        for id in reversed(ids):  # noqa: A001 - the oldest first, as they came in
            yield id

    async def matches(self, ref: int) -> bool:
        return await self._store.events.get(ref) is not None


def selection(store: Store, wanted: Filter, action: Action | None = None) -> Selection[Any]:
    """Select everything in a store that matches the filter and, if an action is given, that it can change."""
    if action is not None and _SUBJECTS.get(action) is not type(wanted):
        raise InvalidArgumentError(
            f"{action} does not apply to a {type(wanted).__name__}.", remedy="Pass the filter of its subjects."
        )
    match wanted:
        case JobFilter():
            return _Jobs(store, wanted, _POSSIBLE_STATES.get(action, frozenset(JobState)))
        case LaneFilter():
            checked_prefix(wanted.prefix)
            return _Lanes(store, wanted, _POSSIBLE_LANES.get(action, lambda _: True))
        case LockFilter():
            checked_prefix(wanted.prefix)
            return _Locks(store, wanted)
        case ClaimFilter():
            checked_prefix(wanted.prefix)
            return _Claims(store, wanted)
        case EventFilter():
            return _Events(store, wanted)


def may_apply(action: Action, wanted: Filter) -> bool:
    """Whether an operation could change anything that matches the filter."""
    match wanted:
        case JobFilter():
            return bool(_POSSIBLE_STATES[action].intersection(wanted.states or JobState))
        case LaneFilter():
            return wanted.show is not (LaneShow.HELD if action is Action.LANE_HOLD else LaneShow.WAITING)
        case _:
            return True


def _shown(view: LaneView, show: LaneShow) -> bool:
    match show:
        case LaneShow.HELD:
            return view.held_since is not None
        case LaneShow.PARKED:
            return view.parked_since is not None
        case LaneShow.RUNNING:
            return view.state is JobState.RUNNING
        case LaneShow.FETCHED:
            return view.state is JobState.FETCHED
        case LaneShow.WAITING:
            return not view.state.at_worker and view.held_since is None and view.parked_since is None
        case LaneShow.ALL:
            return True


def _before(prefix: str) -> str:
    """A position before the first name with the prefix. Lists continue after a position."""
    return prefix[:-1]


def _beyond(name: str, prefix: str) -> bool:
    """Whether every name from here on lies behind those with the prefix."""
    return name > prefix and not name.startswith(prefix)
