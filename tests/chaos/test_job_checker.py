"""The checker of jobs on histories made by hand: what it must report, and what it must not."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.limits import Use
from tests.chaos.faults import Fault
from tests.chaos.job_checker import JobVerdict, judge_jobs
from tests.chaos.job_history import Acknowledging, Final, Given, JobHistory, Run, Ticket, read_jobs

CREW = Use("slots:crew", 1, 0.0)
API = Use("rate:api", 1, 1.0)
LONG = Fault("long pause", 1.0, 5.0, "a")


class Story:
    """A history that is told step by step. Jobs are numbered, and asked for at the time of their number by default."""

    def __init__(self) -> None:
        self.history = JobHistory({}, [], [], [], {})
        self.final: dict[int, Final] = {}
        self.history.final = self.final

    def job(self, number: int, *, lane: str = "l", ask: float | None = None, took: float = 0.001, **more: Any) -> Story:
        ask = number / 100 if ask is None else ask
        about = {"batch": f"call {number}", "place": 0, "kind": "plain", "delay": 0.0, "fate": "done", "uses": ()}
        known = {"accepted": ask + took, "id": number}
        ticket = Ticket(name=f"t{number}", who="e", lane=lane, ask=ask, **{**about, **known, **more})
        self.history.tickets[ticket.name] = ticket
        return self

    def run(self, number: int, start: float, end: float | None, *, fence: int | None = None, **more: Any) -> Story:
        """One that fetches, runs and ends, by default well and acknowledged."""
        fence = number * 10 if fence is None else fence
        ticket = self.history.tickets[f"t{number}"]
        who, how = more.get("who", "a"), more.get("how", "done" if end is not None else "")
        attempt = more.get("attempt", 1)
        run = Run(who, number, ticket.name, fence, attempt, start, end, how, ask=start - 1.0)
        run.died = more.get("died")
        self.history.runs.append(run)
        self.history.given.append(Given(who, more.get("asked", start - 0.02), start - 0.01, number, fence))
        if how and more.get("accepted") is not None:
            self.acknowledge(number, fence, (end or 0.0) + 0.1, how, who=who, accepted=more["accepted"])
        elif how and "accepted" not in more:
            self.acknowledge(number, fence, (end or 0.0) + 0.1, how, who=who)
            self.final[number] = Final(how, attempt, fence)
        return self

    def acknowledge(
        self, number: int, fence: int, at: float, how: str, *, who: str = "a", accepted: bool = True
    ) -> Story:
        self.history.acknowledgings.append(Acknowledging(who, at, at + 0.01, number, fence, how, accepted))
        return self

    def ended(self, number: int, final: Final) -> Story:
        self.final[number] = final
        return self

    def verdict(self, *faults: Fault) -> JobVerdict:
        self.history.faults = list(faults)
        return judge_jobs(self.history)

    def found(self, *faults: Fault) -> set[str]:
        return {name for name, found in self.verdict(*faults).violations.items() if found}


# -- order and overlap -------------------------------------------------------------------------------------------------


def test_one_after_the_other_is_clean() -> None:
    story = Story()
    for number in range(1, 6):
        story.job(number).run(number, float(number), number + 0.5)
    verdict = story.verdict()
    assert verdict.clean
    assert (
        verdict.counts["jobs accepted"] == verdict.counts["jobs done"] == verdict.counts["jobs checked for order"] == 5
    )


def test_two_of_one_lane_at_once_are_reported_unless_one_was_paused_past_its_session() -> None:
    story = Story().job(1).job(2).run(1, 0.5, 5.5, accepted=False).run(2, 4.6, 5.1, who="b")
    story.run(1, 5.2, 5.3, fence=11, who="b")
    assert story.found() == {"overlaps in a lane", "run by two at once", "order inversions"}
    again = Story().job(1).job(2).run(1, 0.5, 5.5, accepted=False).run(1, 4.2, 4.3, fence=11, who="b")
    again.run(2, 4.6, 5.1, who="b")
    assert again.found() == {"overlaps in a lane", "run by two at once"}
    verdict = again.verdict(LONG)
    assert verdict.clean
    assert verdict.counts["paused overlaps in a lane"] == verdict.counts["paused runs of one job at once"] == 1
    for pause in (Fault("short pause", 1.0, 1.4, "a"), Fault("long pause", 4.7, 9.0, "b")):
        assert again.found(pause) == {"overlaps in a lane", "run by two at once"}


def test_lanes_and_jobs_without_one_run_at_once() -> None:
    story = Story().job(1, lane="l").job(2, lane="m").job(3, lane="").job(4, lane="")
    for number in (4, 3, 2, 1):
        story.run(number, 1.0 - number / 100, 2.0)
    assert story.verdict().clean


def test_a_job_that_overtakes_another_of_its_lane_is_reported() -> None:
    assert Story().job(1).job(2).run(2, 1.0, 1.1).run(1, 2.0, 2.1).found() == {"order inversions"}


def test_jobs_asked_for_at_the_same_time_come_in_either_order() -> None:
    story = Story().job(1, took=0.5).job(2).run(2, 1.0, 1.1).run(1, 2.0, 2.1)
    assert story.verdict().clean


def test_jobs_of_one_call_come_in_its_order() -> None:
    story = Story()
    for place, number in enumerate((1, 2, 3)):
        story.job(number, ask=0.0, batch="call", place=place)
    assert story.run(1, 1.0, 1.1).run(3, 2.0, 2.1).run(2, 3.0, 3.1).found() == {"order inversions"}


def test_a_job_to_be_retried_keeps_its_place() -> None:
    def story(**more: Any) -> Story:
        begun = Story().job(1, fate="fails 1", **more).job(2)
        begun.run(1, 1.0, 1.1, how="retry", accepted=True).run(2, 2.0, 2.1)
        return begun.run(1, 3.0, 3.1, fence=31, attempt=2)

    assert story().found() == {"order inversions"}
    assert story(kind="skip").verdict().clean


def test_a_job_that_is_run_again_after_one_behind_it_began_is_reported() -> None:
    """Its worker may have died before it acknowledged it: then the one behind it should not have begun."""
    story = Story().job(1).job(2).run(1, 1.0, 1.1, accepted=None).run(2, 1.2, None, died=1.5)
    story.run(1, 5.0, 5.1, fence=31, who="b").run(2, 6.0, 6.1, fence=32, who="b")
    assert story.found() == {"order inversions"}


def test_a_delayed_job_takes_its_place_when_it_is_due() -> None:
    due_first = Story().job(1, ask=0.0, delay=5.0).job(2, ask=1.0).run(2, 6.0, 6.1).run(1, 7.0, 7.1)
    assert due_first.verdict().clean
    too_early = Story().job(1, ask=0.0, delay=5.0).job(2, ask=1.0).run(1, 6.0, 6.1).run(2, 7.0, 7.1)
    assert too_early.found() == {"order inversions"}


def test_a_late_start_after_a_pause_is_no_inversion() -> None:
    story = Story().job(1).job(2).run(1, 3.5, 3.6, fence=11, who="b").run(2, 4.0, 4.1, who="b")
    story.run(1, 5.1, 5.2, fence=10, accepted=False)
    assert story.found() == {"order inversions", "fences going back", "run after its end"}
    assert story.verdict(LONG).clean


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_a_job_acknowledged_twice_is_reported_pause_or_not() -> None:
    story = Story().job(1).run(1, 0.5, 5.5, accepted=True).run(1, 4.2, 4.3, fence=11, who="b")
    assert story.found(LONG) == {"double acknowledgements", "late acknowledgements accepted", "run by two at once"}


def test_an_acknowledgement_repeated_under_one_fence_counts_once() -> None:
    assert Story().job(1).run(1, 1.0, 1.1).acknowledge(1, 10, 2.0, "done").verdict().clean


def test_a_late_acknowledgement_that_was_accepted_is_reported() -> None:
    story = Story().job(1, fate="fails 1").run(1, 0.5, 5.5, how="retry", accepted=True)
    story.run(1, 4.2, 6.0, fence=11, who="b", attempt=2)
    assert story.found(LONG) == {"late acknowledgements accepted", "run by two at once"}


def test_refusing_whoever_holds_the_job_is_reported() -> None:
    story = Story().job(1).run(1, 1.0, 1.1, accepted=False).ended(1, Final("done", 1, 10))
    assert story.found() == {"acknowledgements refused to the holder"}


def test_a_run_after_the_end_is_reported() -> None:
    story = Story().job(1).run(1, 1.0, 1.1).run(1, 2.0, None, fence=11, died=2.5, who="b")
    assert story.found() == {"run after its end"}


def test_one_fetch_run_twice_is_reported() -> None:
    assert "run by two at once" in Story().job(1).run(1, 1.0, 1.1).run(1, 2.0, 2.1).found()


def test_fences_that_go_back_are_reported() -> None:
    story = Story().job(1, fate="fails 1").run(1, 1.0, 1.1, how="retry", accepted=True)
    assert "fences going back" in story.run(1, 2.0, 2.1, fence=9, attempt=2).found()


# -- lost --------------------------------------------------------------------------------------------------------------


def test_an_accepted_job_that_is_gone_or_not_done_is_lost() -> None:
    assert Story().job(1).found() == {"lost"}
    for state in ("failed", "ready", "running", "superseded", "cancelled", "quarantined"):
        assert Story().job(1).ended(1, Final(state, 1, 10)).found() == {"lost"}


@pytest.mark.parametrize(("fate", "state"), [("permanent", "failed"), ("discard", "discarded")])
def test_jobs_that_are_to_fail_do(fate: str, state: str) -> None:
    assert Story().job(1, fate=fate).run(1, 1.0, 1.1, how=state).verdict().clean
    assert Story().job(1, fate=fate).run(1, 1.0, 1.1, how="done").found() == {"lost"}


def test_a_job_that_was_to_be_cancelled_may_be() -> None:
    assert Story().job(1, cancel=0.5).ended(1, Final("cancelled", 0, 0)).verdict().clean
    assert Story().job(1, cancel=0.5).run(1, 1.0, 1.1).verdict().clean


def test_a_job_done_by_nobody_is_reported() -> None:
    for story in (
        Story().job(1).ended(1, Final("done", 1, 10)),
        Story().job(1).run(1, 1.0, None, died=1.5).ended(1, Final("done", 1, 10)),
        Story().job(1).run(1, 1.0, 1.1, how="retry", accepted=True).ended(1, Final("done", 1, 10)),
        Story().job(1, fate="fails 2").run(1, 1.0, 1.1),
    ):
        assert story.found() == {"ended otherwise than its handler said"}


def test_what_an_enqueuer_did_not_hear_of_may_be_there_once() -> None:
    unheard: dict[str, Any] = {"accepted": float("inf"), "id": None}
    assert Story().job(1, **unheard).verdict().clean
    assert Story().job(1, **unheard).run(1, 1.0, 1.1).verdict().clean
    assert Story().job(1, **unheard).ended(1, Final("cancelled", 0, 0)).verdict().clean
    twice = Story().job(1, **unheard).job(2, **unheard).run(1, 1.0, 1.1).run(2, 2.0, 2.1)
    twice.history.runs[1].ticket = "t1"
    assert "enqueued twice" in twice.found()
    assert "enqueued twice" in Story().job(1).run(1, 1.0, 1.1).ended(9, Final("cancelled", 0, 0)).found()


def test_a_superseded_job_gave_way_to_a_later_one_of_its_lane() -> None:
    def story(by: int) -> Story:
        begun = Story().job(1, fate="coalesce").job(2, fate="coalesce").job(3, fate="coalesce", lane="other")
        begun.run(1, 0.5, 0.6).run(3, 1.0, 1.1)
        return begun.ended(2, Final("superseded", 0, 0, 0, by)).job(4, fate="coalesce").run(4, 2.0, 2.1)

    assert story(4).verdict().clean
    for wrong in (1, 3, 99):
        assert story(wrong).found() == {"lost"}


def test_crashes_need_somebody_who_did_not_acknowledge() -> None:
    story = Story().job(1).run(1, 1.0, None, died=1.5).run(1, 2.0, 2.1, fence=11, who="b")
    verdict = story.ended(1, Final("done", 1, 11, 1)).verdict()
    assert verdict.clean
    assert verdict.counts["taken over from the dead"] == 1
    assert story.ended(1, Final("done", 1, 11, 2)).found() == {"crashes without a cause"}


def test_a_quarantined_job_needs_three_deaths_and_may_then_be_retried_out_of_order() -> None:
    story = Story().job(1).job(2)
    for crash in range(3):
        story.run(1, 1.0 + crash, None, fence=10 + crash, died=1.5 + crash, who=f"a{crash}")
    story.run(2, 5.0, 5.1).run(1, 6.0, 6.1, fence=20)
    assert "order inversions" in story.found()
    story.history.quarantined = {1: Final("quarantined", 0, 12, 3)}
    assert story.verdict().clean
    story.history.quarantined = {1: Final("quarantined", 0, 12, 2)}
    assert story.found() == {"crashes without a cause"}


# -- limits ------------------------------------------------------------------------------------------------------------


def test_more_at_once_than_there_are_slots_is_reported_unless_one_was_paused() -> None:
    story = Story().job(1, lane="", uses=(CREW,)).job(2, lane="", uses=(CREW,))
    story.run(1, 0.5, 5.5, accepted=False).run(1, 6.0, 6.1, fence=11, who="b").run(2, 4.6, 5.1, who="b")
    assert story.found() == {"too many at once"}
    verdict = story.verdict(LONG)
    assert verdict.clean
    assert verdict.counts["too many because of a pause"] == 1


@pytest.mark.parametrize(("asked", "clean"), [(1.9, False), (2.1, True), (0.9, True)])
def test_more_fetches_in_a_span_than_a_pace_allows_are_reported(asked: float, clean: bool) -> None:
    """What is certain counts: that both fetches were made within the span, whenever exactly."""
    story = Story().job(1, lane="", uses=(API,)).job(2, lane="", uses=(API,))
    story.run(1, 2.0, 2.1, asked=asked if asked < 1 else 1.9)
    story.run(2, 2.5 if asked < 2.1 else 3.1, 3.2, asked=asked if asked > 1 else 2.4)
    assert story.verdict().clean is clean


# -- reading -----------------------------------------------------------------------------------------------------------


def test_journals_are_put_together() -> None:
    job = ["e:1", "plain", "l", 0.0, "done", [CREW]]
    about = {"run": 1, "id": 7, "ticket": "e:1", "lane": "l", "attempt": 1}
    events = [
        {"t": 0.0, "who": "e", "event": "ask", "batch": "e:1", "jobs": [job]},
        {"t": 0.1, "who": "e", "event": "accepted", "batch": "e:1", "ids": [7]},
        {"t": 0.2, "who": "a", "event": "fetching"},
        {"t": 0.3, "who": "a", "event": "fetched", "asked": 0.2, "jobs": [[7, 70]]},
        {"t": 0.4, "who": "a", "event": "start", "fence": 70, **about},
        {"t": 0.5, "who": "a", "event": "fetching"},
        {"t": 4.0, "who": "b", "event": "fetching"},
        {"t": 4.1, "who": "b", "event": "fetched", "asked": 4.0, "jobs": [[7, 71]]},
        {"t": 4.2, "who": "b", "event": "start", "fence": 71, **about},
        {"t": 4.3, "who": "b", "event": "end", "run": 1, "how": "done"},
        {"t": 4.4, "who": "b", "event": "acknowledging unheard", "asked": 4.35, "jobs": [[7, 71]]},
        {"t": 4.5, "who": "b", "event": "acknowledged", "asked": 4.4, "jobs": [[7, 71, "done", True]]},
    ]
    found = read_jobs(events, {"a": 1.0}, 3.0)
    assert [(run.who, run.left) for run in found["runs"]] == [("a", 1.0), ("b", 4.3)]
    assert found["unheard_fetches"] == 1
    assert [one.asked for one in found["acknowledgings"]] == [4.35], "when it was asked first"
    verdict = judge_jobs(JobHistory(final={7: Final("done", 1, 71, 1)}, **found))
    assert verdict.clean
    assert verdict.counts["most at once under slots:crew"] == 1
