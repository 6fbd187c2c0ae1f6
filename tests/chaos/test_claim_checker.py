"""The checker of claims on histories made by hand: what it must report, and what it must not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.claim_checker import Answer, ClaimHistory, ClaimVerdict, Final, Work, judge_claims, read_claims
from tests.chaos.faults import Fault

KEY = "k00000"


def worked(name: str, attempt: int, begin: float, end: float, how: str = "done", **more: object) -> Work:
    """Work that was finished at once when it ended. Its process is the part of its name before the colon."""
    one = Work(name, name.partition(":")[0], KEY, begin - 0.01, begin, attempt, attempt * 10, 5.0, end)
    one.finish, one.how, one.finished = end + 0.01, how, end + 0.02
    for field, value in more.items():
        setattr(one, field, value)
    return one


def done(attempt: int, name: str) -> dict[str, Final]:
    return {KEY: Final("done", attempt, attempt * 10, name)}


def verdict_of(*works: Work, **more: object) -> ClaimVerdict:
    last = works[-1]
    about = {"keys": [KEY], "final": done(last.attempt, last.name), "answered": Counter({KEY: 1}), **more}
    return judge_claims(ClaimHistory(list(works), **about))  # type: ignore[arg-type]


def found_in(verdict: ClaimVerdict) -> set[str]:
    return {name for name, found in verdict.violations.items() if found}


def test_one_after_the_other_until_it_is_done_is_clean() -> None:
    verdict = verdict_of(worked("a:1", 1, 0.0, 1.0, "failed"), worked("b:1", 2, 1.1, 2.0))
    assert verdict.clean
    assert verdict.counts["new"] == 2


def test_attempts_nobody_heard_of_leave_a_gap() -> None:
    assert verdict_of(worked("a:1", 1, 0.0, 1.0, "failed"), worked("b:1", 4, 9.0, 9.5)).clean


def test_two_at_once_are_reported_unless_one_was_paused_past_its_lease() -> None:
    works = (worked("a:1", 1, 0.0, 4.6, "failed", finished=None), worked("b:1", 2, 3.6, 5.0))
    assert found_in(verdict_of(*works)) == {"new to two at once"}
    excused = verdict_of(*works, faults=[Fault("long pause", 0.5, 4.5, "a")])
    assert excused.clean
    assert excused.counts["paused overlaps"] == 1
    assert found_in(verdict_of(*works, faults=[Fault("long pause", 0.5, 4.5, "b")])) == {"new to two at once"}


def test_one_attempt_given_twice_is_reported() -> None:
    twice = (worked("a:1", 1, 0.0, 1.0, "failed"), worked("b:1", 1, 2.0, 3.0, fence=11))
    assert "one attempt given twice" in found_in(verdict_of(*twice))


@pytest.mark.parametrize("change", [{"fence": 5}, {"fence": 10}, {"attempt": 0}])
def test_fences_and_attempts_that_do_not_grow_are_reported(change: dict[str, int]) -> None:
    later = worked("b:1", 2, 2.0, 3.0)
    for field, value in change.items():
        setattr(later, field, value)
    works = (worked("a:1", 1, 0.0, 1.0, "failed"), later)
    assert "fences going back" in found_in(verdict_of(*works))


def test_what_was_acknowledged_as_done_is_never_new_again() -> None:
    works = (worked("a:1", 1, 0.0, 1.0), worked("b:1", 2, 2.0, 3.0))
    assert found_in(verdict_of(*works)) == {"done, and new again"}
    never_told = worked("a:1", 1, 0.0, 1.0, finished=None)
    assert verdict_of(never_told, works[1]).clean


def test_what_was_acknowledged_as_done_is_done_for_everybody_who_asks_after() -> None:
    work = worked("a:1", 1, 0.0, 1.0)
    assert verdict_of(work, known={KEY: [Answer(1.01, 1.2, "in progress"), Answer(1.1, 1.2, "done")]}).clean
    late = {KEY: [Answer(1.1, 1.2, "in progress")]}
    assert found_in(verdict_of(work, known=late)) == {"done, and then not done"}
    assert found_in(verdict_of(work, final={})) == {"done, and then not done"}


def test_nobody_hears_that_it_is_done_before_it_was() -> None:
    early = {KEY: [Answer(0.1, 0.5, "done")]}
    assert found_in(verdict_of(worked("a:1", 1, 0.0, 1.0), known=early)) == {"done by nobody"}


@pytest.mark.parametrize("final", [{}, {KEY: Final("failed", 1, 10, None)}, {KEY: Final("in progress", 2, 20, None)}])
def test_a_key_that_failed_and_was_lost_is_reported(final: dict[str, Final]) -> None:
    assert found_in(verdict_of(worked("a:1", 1, 0.0, 1.0, "failed"), final=final)) == {"failed or left, and never done"}


def test_a_failure_that_became_a_success_is_reported() -> None:
    assert found_in(verdict_of(worked("a:1", 1, 0.0, 1.0, "failed"))) == {"done by nobody"}
    assert found_in(verdict_of(worked("a:1", 1, 0.0, 1.0), final=done(1, "b:1"))) == {"done by nobody"}
    assert "done by nobody" in found_in(verdict_of(worked("a:1", 1, 0.0, 1.0), final=done(2, "a:1")))


def test_settling_after_a_takeover_must_be_refused() -> None:
    late = worked("a:1", 1, 0.0, 1.0, "failed", finish=4.0, finished=4.1)
    after = worked("b:1", 2, 3.0, 5.0)
    assert found_in(verdict_of(late, after)) == {"finished after a takeover"}
    late.finished, late.refused = None, 4.1
    verdict = verdict_of(late, after)
    assert verdict.clean
    assert verdict.counts["finishing refused"] == 1


def test_settling_must_not_be_refused_to_the_holder() -> None:
    works = (worked("a:1", 1, 0.0, 1.0, finished=None, refused=1.1), worked("b:1", 2, 3.0, 5.0))
    assert verdict_of(*works).clean
    alone = worked("a:1", 1, 0.0, 1.0, finished=None, refused=1.1)
    assert "finishing refused to the holder" in found_in(verdict_of(alone))


def test_every_claimant_must_be_answered() -> None:
    work = worked("a:1", 1, 0.0, 1.0)
    assert verdict_of(work, claimants=2, answered=Counter({KEY: 2})).clean
    assert found_in(verdict_of(work, claimants=3, answered=Counter({KEY: 2}))) == {"claimants not answered"}


def test_the_dead_work_no_longer_than_they_live() -> None:
    begin = {"t": 0.1, "who": "a", "event": "begin", "work": "a:1", "key": KEY, "c": 0, "asked": 0.0}
    about = {"attempt": 1, "fence": 10, "lease": 5.0}
    after = worked("b:1", 2, 3.0, 4.0)
    for ended, expected in ((0.2, set()), (3.5, {"new to two at once"})):
        found = read_claims([begin | about], {"a": ended})
        verdict = verdict_of(*found["works"], after)
        assert found_in(verdict) == expected
        assert verdict.counts["taken over from the dead"] == 1
