"""The demo's audit sees what it is there to see, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.demo.audit import Audit
from interlock.cli.demo.bot import COOLDOWN_SECONDS, MAX_CONTAINERS

LANE = "acme/api#7"
Records = list[dict[str, Any]]


def audited(*parts: Records) -> Audit:
    audit = Audit("run")
    audit.hear(record for part in parts for record in part)
    audit.close()
    return audit


def wrongs(*parts: Records) -> dict[str, int]:
    return {what: count for what, count in audited(*parts).findings.forbidden.items() if count}


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_webhooks_that_are_handled_once_and_in_order_are_as_they_should_be() -> None:
    audit = audited(
        posted("run-1", number=1),
        handled("a", "run-1", 11, 1.0, end="failed"),
        handled("b", "run-1", 11, 2.0, attempt=2),
        posted("run-2", number=2),
        answered("run-2", 200, "duplicate"),
        handled("b", "run-2", 12, 3.0),
        posted("run-3", fate="forged", status=401, verdict="refused"),
        posted("run-4", fate="own", status=200, verdict="ignored"),
        posted("run-5", number=3, status=0, verdict=""),
        answered("run-5", 202, "accepted"),
        handled("b", "run-5", 13, 4.0),
    )

    assert audit.findings.clean
    seen = audit.findings.seen
    assert (seen["handled"], seen["duplicate"], seen["failures"], seen["no answer"]) == (3, 1, 1, 1)


def test_a_webhook_that_was_taken_and_never_handled_is_lost() -> None:
    opened = posted("run-2", kind="issues.opened", number=2)

    assert wrongs(posted("run-1"), began("a", "run-1", 1, 0.0)) == {"webhooks lost": 1}
    assert wrongs(opened, handled("a", "run-2", 2, 0.0, handler="triage")) == {"webhooks lost": 1}
    assert wrongs(posted("run-3", status=503, verdict="")) == {}


def test_one_that_its_worker_was_killed_with_is_lost_unless_another_takes_over() -> None:
    orphan = [*posted("run-1"), *began("a", "run-1", 1, 0.0), killed("a", 1.0)]

    assert wrongs(orphan) == {"webhooks lost": 1}
    audit = audited(orphan, handled("b", "run-1", 1, 4.0))
    assert audit.findings.clean
    assert audit.findings.jobs_taken_over.limit == pytest.approx(3.0)


def test_a_webhook_that_is_accepted_twice_is_doubled() -> None:
    twice = [*posted("run-1"), *answered("run-1", 202, "accepted"), *handled("a", "run-1", 1, 0.0)]

    assert wrongs(twice) == {"webhooks handled twice": 1}


def test_a_webhook_that_is_handled_as_two_jobs_is_doubled() -> None:
    two = [*posted("run-1"), *handled("a", "run-1", 1, 0.0), *handled("b", "run-1", 2, 1.0)]

    assert wrongs(two)["webhooks handled twice"] == 1


def test_a_job_that_runs_again_after_its_end_was_acknowledged_is_doubled() -> None:
    once = [*posted("run-1"), *handled("a", "run-1", 1, 0.0)]

    assert wrongs(once, began("b", "run-1", 1, 1.0)) == {"webhooks handled twice": 1}
    assert wrongs(once, [finished("b", 1, fence=9)]) == {"webhooks handled twice": 1}
    assert wrongs(once, [finished("a", 1)], [finished("b", 1, fence=9, accepted=False)]) == {}
    assert wrongs(once, began("b", "run-0", 1, 1.0)) == {"webhooks handled twice": 1}  # forgotten long ago


def test_a_job_whose_end_nobody_could_acknowledge_may_run_again() -> None:
    once = [*posted("run-1"), *began("a", "run-1", 1, 0.0), told("a", "ended", 0.5, job=1), killed("a", 0.6)]

    assert wrongs(once, handled("b", "run-1", 1, 4.0)) == {}


def test_what_people_do_by_hand_is_not_held_against_anybody() -> None:
    later = [*posted("run-2", number=2), *handled("a", "run-2", 2, 2.0)]
    retried = [told("web", "retried", 3.0, subject=1), *handled("b", "run-1", 1, 4.0)]
    replayed = [{**record, "replay": True} for record in handled("b", "replay-of-1", 5, 5.0)]
    cancelled = [*posted("run-3", number=3), *began("a", "run-3", 3, 6.0), told("web", "cancelled", 6.1, subject=3)]

    unbegun = [
        *posted("run-4", kind="issues.opened", number=4, status=0, verdict=""),
        *answered("run-4", 202, "accepted", 40, 41),
        told("web", "cancelled", 7.0, subject=40),
        *handled("a", "run-4", 41, 7.1, handler="welcome"),
    ]
    first = [*posted("run-1", number=1, fate="doomed"), *handled("a", "run-1", 1, 1.0, end="failed")]
    assert wrongs(first, later, retried, replayed, cancelled, unbegun) == {}
    assert wrongs(unbegun[:3]) == {"webhooks lost": 1}
    assert wrongs(unbegun[:4]) == {"webhooks lost": 1}


def test_forged_webhooks_and_those_of_the_bot_have_no_effect() -> None:
    forged = posted("run-1", fate="forged", status=401, verdict="refused")

    assert wrongs(forged, handled("a", "run-1", 1, 0.0)) == {"forged or own webhooks handled": 1}
    assert wrongs(posted("run-1", fate="forged")) == {"wrong responses": 1}
    assert wrongs(posted("run-1", fate="own")) == {"wrong responses": 1}
    assert wrongs(posted("run-1", status=500, verdict="")) == {"wrong responses": 1}


def test_webhooks_of_an_earlier_demo_are_none_of_its_business() -> None:
    assert wrongs(handled("a", "old-1", 1, 0.0)) == {}


def test_what_is_over_for_long_is_forgotten() -> None:
    audit = Audit("run")
    for number in range(3000):
        audit.hear(posted(f"run-{number}", number=number, at=float(number)))
        audit.hear(handled("a", f"run-{number}", number, float(number)))

    assert audit.findings.clean
    assert audit.under_way == 0
    assert len(audit.webhooks._known) < 700
    assert len(audit.webhooks._by_job) < 700
    assert len(audit.webhooks._caused) < 700


# -- lanes -------------------------------------------------------------------------------------------------------------


def test_two_of_a_lane_that_change_places_are_out_of_order() -> None:
    both = [*posted("run-1", number=1), *posted("run-2", number=2)]

    assert wrongs(both, handled("a", "run-2", 2, 0.0), handled("b", "run-1", 1, 1.0)) == {"webhooks out of order": 1}


def test_two_of_a_lane_at_once_overlap() -> None:
    both = [*posted("run-1", number=1), *posted("run-2", number=2)]
    end = [told("a", "ended", 2.0, job=1), finished("a", 1)]

    assert wrongs(both, began("a", "run-1", 1, 0.0), handled("b", "run-2", 2, 1.0), end) == {
        "two jobs of a lane at once": 1
    }
    other = [*posted("run-3", lane="acme/api#8", number=1)]
    assert wrongs(both[:2], other, began("a", "run-1", 1, 0.0), handled("b", "run-3", 3, 1.0), end) == {}


def test_a_job_that_two_run_at_once_is_seen() -> None:
    two = [*began("a", "run-1", 1, 0.0), *handled("b", "run-1", 1, 1.0)]

    assert wrongs(posted("run-1", lane=""), two) == {"one job run twice at once": 1}


def test_what_a_frozen_worker_does_before_it_knows_counts_for_nothing() -> None:
    frozen = [told("a", "frozen", 1.0, job=1), *handled("b", "run-1", 1, 4.0), told("a", "thawed", 6.0, job=1)]
    late = [*began("a", "run-2", 2, 6.1, asked=0.9), *handled("b", "run-2", 2, 6.2), told("a", "stopped", 6.3, job=2)]
    both = [*posted("run-1", number=1), *posted("run-2", number=2)]

    assert wrongs(both, began("a", "run-1", 1, 0.0), frozen, late) == {}
    later = [*posted("run-3", number=3), *began("b", "run-3", 3, 8.0), *began("a", "run-3", 3, 9.0)]
    assert "one job run twice at once" in wrongs(both, began("a", "run-1", 1, 0.0), frozen, late, later)


def test_what_a_worker_had_claimed_before_it_was_frozen_for_a_moment_is_not_lost() -> None:
    moment = [told("a", "frozen", 1.0, job=1), told("a", "thawed", 1.1, job=1)]
    rest = [told("a", "ended", 1.2, job=1), *handled("a", "run-2", 2, 1.3, asked=0.5)]

    assert wrongs(posted("run-1"), posted("run-2", number=2), began("a", "run-1", 1, 0.0), moment, rest) == {}


# -- locks -------------------------------------------------------------------------------------------------------------


def test_holders_one_after_the_other_are_as_they_should_be() -> None:
    audit = audited(hold("a", 1, 0.0, fence=1), hold("b", 2, 5.0, fence=2))

    assert audit.findings.clean
    assert audit.findings.seen["grants"] == 2


def test_two_holders_and_a_fence_that_goes_back_are_seen() -> None:
    two = [*hold("a", 1, 0.0, fence=7)[:-1], *hold("b", 2, 4.0, fence=6)]

    assert wrongs(two) == {"two holders of a lock": 1, "decreasing fences": 1}


def test_a_lock_is_free_when_its_holder_was_killed_or_somebody_took_it_away() -> None:
    held = hold("a", 1, 0.0, fence=1)[:-1]

    audit = audited(held, [killed("a", 2.0)], hold("b", 2, 4.5, fence=2))
    assert audit.findings.clean
    assert audit.findings.locks_taken_over.limit == pytest.approx(2.5)
    assert wrongs(held, [told("web", "forced", 1.0, subject="k")], hold("b", 2, 1.5, fence=2)) == {}


def test_one_that_was_served_before_its_turn_is_seen() -> None:
    early = [told("a", "asked", 1.0, job=1, key="k"), told("a", "queued", 1.1, job=1, key="k")]
    late = hold("b", 2, 3.0, fence=1)
    served = [told("a", "granted", 6.0, job=1, key="k", fence=2)]

    assert wrongs(early, late, served) == {"locks granted out of order": 1}
    assert wrongs(early, [killed("a", 2.0)], late) == {}
    assert wrongs(early, late) == {}  # it may have left without a word
    assert wrongs(early[:1], late, served) == {}  # nobody knows that it stood in line


def test_a_stale_write_that_the_target_took_is_seen() -> None:
    writes = [told("a", "write", 1.0, key="k", fence=fence, accepted=True) for fence in (2, 1)]
    refused = [told("a", "write", 1.0, key="k", fence=1, accepted=False)]

    assert wrongs(writes) == {"stale writes accepted": 1}
    assert wrongs(writes[:1], refused) == {}


# -- limits and claims -------------------------------------------------------------------------------------------------


def test_too_many_containers_are_seen() -> None:
    far = 10 * COOLDOWN_SECONDS
    all_of_them = range(MAX_CONTAINERS + 1)
    posts = [record for n in all_of_them for record in posted(f"run-{n}", kind="check_suite.requested", lane="")]
    starts = [record for n in all_of_them for record in began("a", f"run-{n}", n, n * far, handler="build")]
    ends = [told("a", "ended", 99.0, job=n) for n in all_of_them]

    assert wrongs(posts, starts, ends) == {"too many containers": 1}
    assert wrongs(posts, starts[:-1], ends[:1], starts[-1:], ends[1:]) == {}


def test_starts_that_were_too_close_for_certain_are_seen() -> None:
    posts = [record for n in (1, 2) for record in posted(f"run-{n}", kind="check_suite.requested", lane="")]
    first = handled("a", "run-1", 1, 0.0, handler="build", asked=-0.3)
    close = handled("b", "run-2", 2, COOLDOWN_SECONDS - 0.4, handler="build")
    apart = handled("b", "run-2", 2, COOLDOWN_SECONDS - 0.2, handler="build")

    assert wrongs(posts, first, close) == {"starts inside a cooldown": 1}
    assert wrongs(posts, first, apart) == {}


def test_a_person_who_is_greeted_twice_or_by_two_at_once_is_seen() -> None:
    one, other = told("a", "greets", 0.0, job=1, key="ann"), told("b", "greets", 1.0, job=2, key="ann")
    done, again = told("a", "greeted", 2.0, job=1, key="ann"), told("b", "greeted", 3.0, job=2, key="ann")

    assert wrongs([one, done, other, again]) == {"greetings given twice": 1}
    assert wrongs([one, other, done]) == {"two greetings at once": 1}
    run = [*posted("run-1", kind="issues.opened"), *handled("a", "run-1", 9, 0.0, handler="triage")]
    dead = [*began("a", "run-1", 1, 0.0, handler="welcome"), one, killed("a", 0.5)]
    assert wrongs(run, dead, handled("b", "run-1", 1, 3.0, handler="welcome"), [other, again]) == {}


# -- what is written down ----------------------------------------------------------------------------------------------


def told(who: str, what: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"who": who, "what": what, "at": at, **fields}


def killed(victim: str, sent: float) -> dict[str, Any]:
    return told("director", "killed", sent + 0.3, victim=victim, sent=sent)


def posted(
    delivery: str,
    *,
    kind: str = "issue_comment.created",
    lane: str = LANE,
    number: int = 1,
    fate: str = "good",
    status: int = 202,
    verdict: str = "accepted",
    at: float = 0.0,
) -> Records:
    about = {"delivery": delivery, "type": kind, "lane": lane, "number": number, "fate": fate, "account": "acme"}
    return [told("forge", "posting", at, **about), *answered(delivery, status, verdict)]


def answered(delivery: str, status: int, verdict: str, *jobs: int) -> Records:
    return [told("forge", "answered", 0.0, delivery=delivery, status=status, verdict=verdict, jobs=list(jobs))]


def began(
    who: str,
    delivery: str,
    job: int,
    at: float,
    *,
    handler: str = "answer",
    attempt: int = 1,
    asked: float | None = None,
) -> Records:
    asked = at if asked is None else asked
    about = {"handler": handler, "delivery": delivery, "attempt": attempt, "fence": 1, "asked": asked}
    return [told(who, "began", at, job=job, **about)]


def finished(who: str, job: int, *, fence: int = 1, accepted: bool = True) -> dict[str, Any]:
    return told(who, "finished", 0.0, job=job, fence=fence, outcome="done", accepted=accepted)


def handled(who: str, delivery: str, job: int, at: float, *, end: str = "ended", **how: Any) -> Records:
    ends = [told(who, end, at + 0.1, job=job)]
    return [*began(who, delivery, job, at, **how), *ends, *([finished(who, job)] if end == "ended" else [])]


def hold(who: str, job: int, at: float, *, fence: int) -> Records:
    return [
        told(who, "asked", at - 0.1, job=job, key="k"),
        told(who, "granted", at, job=job, key="k", fence=fence),
        told(who, "released", at + 1.0, job=job, key="k", fence=fence),
    ]
