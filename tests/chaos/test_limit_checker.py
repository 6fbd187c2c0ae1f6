"""The checker of limits on histories made by hand: what it must report, and what it must not."""

from __future__ import annotations

import pytest

from interlock.ports.limits import Use
from tests.chaos.faults import Fault
from tests.chaos.limit_checker import LimitHistory, LimitVerdict, Start, judge_limits, read_starts

CREW = Use("slots:crew", 2, 0.0)
API = Use("rate:api", 2, 1.0)


def at_work(name: str, enter: float, left: float) -> Start:
    """Something under slots. Its process is the part of its name before the colon."""
    return Start(name, name.partition(":")[0], (CREW,), enter - 0.01, 100.0, 3.0, enter, 100.0, 100.0, left)


def started(at: float, use: Use = API) -> Start:
    return Start(f"a:{at}", "a", (use,), 0.0, at, 3.0, 0.0, at, at, 0.0)


def verdict_of(*starts: Start, **more: object) -> LimitVerdict:
    return judge_limits(LimitHistory(list(starts), **more))  # type: ignore[arg-type]


def found_in(verdict: LimitVerdict) -> set[str]:
    return {name for name, found in verdict.violations.items() if found}


def test_as_many_as_there_are_slots_is_clean() -> None:
    verdict = verdict_of(at_work("a:1", 0.0, 2.0), at_work("b:1", 1.0, 3.0), at_work("c:1", 2.0, 4.0))
    assert verdict.clean
    assert verdict.counts["most at once under slots:crew"] == 2


def test_one_too_many_is_reported_unless_one_was_paused_past_its_session() -> None:
    starts = (at_work("a:1", 0.0, 4.6), at_work("b:1", 1.0, 9.0), at_work("c:1", 3.9, 5.0))
    assert found_in(verdict_of(*starts)) == {"too many at once"}
    excused = verdict_of(*starts, faults=[Fault("long pause", 0.5, 4.5, "a")])
    assert excused.clean
    assert excused.counts["too many because of a pause"] == 1
    for pause in (Fault("short pause", 0.5, 0.9, "a"), Fault("long pause", 4.2, 8.9, "b")):
        assert found_in(verdict_of(*starts, faults=[pause])) == {"too many at once"}


def test_the_dead_are_at_work_no_longer_than_they_live() -> None:
    events = [
        {"t": 0.0, "who": "a", "event": "ask", "turn": "a:1", "uses": [CREW], "wall": 100.0},
        {"t": 0.1, "who": "a", "event": "enter", "turn": "a:1", "at": 100.0, "wall": 100.0},
    ]
    others = (at_work("b:1", 1.0, 9.0), at_work("c:1", 3.0, 4.0))
    for ended, expected in ((2.0, set()), (3.5, {"too many at once"})):
        found = read_starts(events, {"a": ended}, 3.0)
        assert found_in(verdict_of(*found["starts"], *others)) == expected


@pytest.mark.parametrize("ats", [(5.0, 5.5, 6.0, 6.5), (5.0, 5.0, 6.0, 6.0), (6.5, 5.5, 6.0, 5.0)])
def test_starts_as_far_apart_as_they_have_to_be_are_clean(ats: tuple[float, ...]) -> None:
    assert verdict_of(*map(started, ats)).clean


@pytest.mark.parametrize("ats", [(5.0, 5.5, 5.9), (5.9, 5.0, 5.5), (5.0, 6.0, 6.5, 6.99), (5.0, 5.0, 5.0)])
def test_one_start_too_many_in_a_span_is_reported(ats: tuple[float, ...]) -> None:
    assert found_in(verdict_of(*map(started, ats))) == {"too many in a span"}


def test_keys_are_apart() -> None:
    other = Use("rate:other", 2, 1.0)
    assert verdict_of(started(5.0), started(5.1), started(5.2, other), started(5.3, other)).clean


@pytest.mark.parametrize("at", [4.9, 6.1])
def test_a_start_before_it_was_asked_for_or_after_it_was_heard_of_is_reported(at: float) -> None:
    start = started(5.5)
    start.asked_at, start.heard_at = 5.0, 6.0
    assert verdict_of(start).clean
    start.at = at
    assert found_in(verdict_of(start)) == {"times that cannot be"}


def test_slots_that_stay_taken_and_oddities_are_violations() -> None:
    assert found_in(verdict_of(stuck=["no"], oddities=["a worker crashed"])) == {"slots never free again", "oddities"}
