"""Judges a limits run by the journals of the processes.

Everything here is a pure function of a `LimitHistory`. At no time may more be at work than there are slots, where only
processes paused past their session do not count; in no span may more have started than a pace allows, by the times that
the store gave; and these times must lie between request and answer, by the clock that all on a machine share.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interlock.ports.limits import Use
from tests.chaos.faults import Fault, Pauses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["LimitHistory", "LimitVerdict", "Start", "judge_limits", "read_starts"]

_ROUNDING = 2e-6
"""The store's times are whole microseconds."""
_CLOCKS = 0.02
"""How far a server's reading of the machine's clock may differ from ours."""


@dataclass
class Start:
    """One turn that started."""

    name: str
    who: str
    uses: tuple[Use, ...]
    ask: float
    asked_at: float
    """By the wall clock, as the next two."""
    ttl: float
    enter: float | None = None
    at: float = 0.0
    """By the store."""
    heard_at: float = 0.0
    exit: float | None = None
    died: float | None = None

    @property
    def left(self) -> float:
        """When it was at work no longer."""
        return self.exit if self.exit is not None else self.died if self.died is not None else float("inf")


@dataclass
class LimitHistory:
    """All that is known about a run."""

    starts: list[Start]
    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    oddities: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    """What could not be had in the end, when everybody was gone."""
    session_ttl: float = 3.0


@dataclass
class LimitVerdict:
    """Counts of what happened, and every violation in words."""

    counts: Counter[str] = field(default_factory=Counter)
    too_many: list[str] = field(default_factory=list)
    too_often: list[str] = field(default_factory=list)
    untrue_times: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[str]]:
        return {
            "too many at once": self.too_many,
            "too many in a span": self.too_often,
            "times that cannot be": self.untrue_times,
            "slots never free again": self.stuck,
            "oddities": self.oddities,
        }

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())


def judge_limits(history: LimitHistory) -> LimitVerdict:
    """Check every promise."""
    verdict = LimitVerdict(Counter(history.counts), oddities=list(history.oddities), stuck=list(history.stuck))
    pauses = Pauses(history.faults, history.session_ttl)
    by_use: dict[Use, list[Start]] = {}
    for start in history.starts:
        for use in start.uses:
            by_use.setdefault(use, []).append(start)
    for use in sorted(by_use):
        verdict.counts[f"starts under {use.key}"] = len(by_use[use])
        if use.per:
            _check_span(use, by_use[use], verdict)
        else:
            _check_at_once(use, by_use[use], pauses, verdict)
    for start in history.starts:
        if not start.asked_at - _CLOCKS <= start.at <= start.heard_at + _CLOCKS:
            verdict.untrue_times.append(
                f"{_told(start)}, asked for at {start.asked_at:.6f} and heard of at {start.heard_at:.6f}"
            )
    verdict.counts["starts"] = len(history.starts)
    return verdict


def _check_at_once(use: Use, starts: Iterable[Start], pauses: Pauses, verdict: LimitVerdict) -> None:
    at_work: list[Start] = []
    max_count = verdict.counts[f"most at once under {use.key}"]
    for start in sorted(starts, key=lambda start: start.enter or 0.0):
        assert start.enter is not None
        at_work = [*(one for one in at_work if one.left > start.enter), start]
        if len(at_work) > use.max_count:
            rightful = [one for one in at_work if not _excused(one, start.enter, pauses)]
            verdict.counts["too many because of a pause"] += len(rightful) <= use.max_count
            if len(rightful) > use.max_count:
                verdict.too_many.append(f"{use.key}: {'; '.join(map(_told, rightful))}")
            max_count = max(max_count, len(rightful))
        max_count = max(max_count, min(len(at_work), use.max_count))
    verdict.counts[f"most at once under {use.key}"] = max_count


def _excused(one: Start, moment: float, pauses: Pauses) -> bool:
    pause = pauses.excuse(one)
    return pause is not None and pause.begin < moment


def _check_span(use: Use, starts: Iterable[Start], verdict: LimitVerdict) -> None:
    in_order = sorted(starts, key=lambda start: start.at)
    for first, beyond in zip(in_order, in_order[use.max_count :], strict=False):
        span = beyond.at - first.at
        if span < use.per - _ROUNDING:
            verdict.too_often.append(
                f"{use.key}: {use.max_count + 1} starts in {span:.6f} s, from {_told(first)} to {_told(beyond)}"
            )


def _told(start: Start) -> str:
    span = f"{start.enter or 0.0:.3f}..{start.left:.3f}"
    return f"{start.name} (started {start.at:.6f}, at work {span})"


# -- reading -----------------------------------------------------------------------------------------------------------


def read_starts(events: Iterable[dict[str, Any]], ended: Mapping[str, float], session_ttl: float) -> dict[str, Any]:
    """Put journals together. ``ended`` says when processes were ended that could not write it down themselves."""
    turns: dict[str, Start] = {}
    counts: Counter[str] = Counter()
    oddities: list[str] = []
    stopped: dict[str, float] = dict(ended)
    last_seen: dict[str, float] = {}
    for event in events:
        at, who, what = event["t"], event["who"], event["event"]
        last_seen[who] = at
        if what == "ask":
            uses = tuple(Use(*use) for use in event["uses"])
            turns[event["turn"]] = Start(event["turn"], who, uses, at, event["wall"], session_ttl)
        elif what in ("oops", "background_task_failed"):
            oddities.append(f"{who} at {at:.3f}: {event.get('what') or event.get('error')}\n{event.get('trace', '')}")
        elif what == "work_overran_session":
            stopped.setdefault(who, at)
        elif what == "session_lost":
            counts["sessions lost"] += 1
        elif (turn := turns.get(event.get("turn", ""))) is None:
            continue
        elif what == "enter":
            turn.enter, turn.at, turn.heard_at = at, event["at"], event["wall"]
        elif what == "exit":
            turn.exit = at
        elif what == "over":
            counts[f"ended by {event['kind']}"] += 1
    starts = [turn for turn in turns.values() if turn.enter is not None]
    for start in starts:
        if start.exit is None:
            start.died = max(start.enter or 0.0, stopped.get(start.who, last_seen[start.who]))
    counts["asked"] = len(turns)
    counts["died at work"] = sum(start.exit is None for start in starts)
    return {"starts": starts, "counts": counts, "oddities": oddities}
