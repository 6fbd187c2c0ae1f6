"""What came of an event: every reason, its words, and what to do."""

from __future__ import annotations

import pytest

from interlock.events.explain import explain_event
from interlock.ports.events import EventView
from interlock.ports.job_views import JobView
from interlock.ports.jobs import JobState
from interlock.reasons import REASONS

EVENT = EventView(7, "github", "guid", "issues.opened", "ann", "{}", 1000.0, None, "", (8, 9), 1001.0)


def job(number: int, state: JobState, error: str = "") -> JobView:
    times = (1000.0, 1000.0, None, None)
    about = (number, f"job-{number}", "default", "acme#7", 50, state, 1, 0)
    return JobView(*about, *times, None, 0, error, None, (), "{}", "", None, None, (), 1001.0)


@pytest.mark.parametrize(
    ("states", "reason", "why", "remedy"),
    [
        (["running", "ready"], "worked-on", "2 jobs: 1 running, 1 ready", ""),
        (["done", "behind"], "waiting", "2 jobs: 1 done, 1 behind", "see why: interlock explain job 9"),
        (["ready", "ready"], "waiting", "2 jobs: 2 ready", "see why: interlock explain job 8"),
        (["waiting", "parked"], "stuck", "2 jobs: 1 waiting, 1 parked", "see what blocks it: interlock explain job 9"),
        (["held", "failed"], "stuck", "2 jobs: 1 held, 1 failed", "see what blocks it: interlock explain job 8"),
        (["done", "failed"], "failed", "2 jobs: 1 done, 1 failed", "fix the cause, then: interlock jobs retry 9"),
        (
            ["quarantined"],
            "failed",
            "2 jobs: 1 quarantined, 1 ended",
            "fix the cause, then: interlock jobs retry 8",
        ),
        (["done", "cancelled"], "handled", "2 jobs: 1 done, 1 cancelled", ""),
        ([], "forgotten", "its jobs have ended and are no longer kept", ""),
    ],
)
def test_every_reason_has_its_words(states: list[str], reason: str, why: str, remedy: str) -> None:
    jobs = [job(8 + place, JobState(state)) for place, state in enumerate(states)]
    told = explain_event(EVENT, jobs)

    assert (told.reason, told.why, told.remedy) == (reason, why, remedy)
    assert told.lines[0] == "event 7 is github.issues.opened by ann, delivery 'guid', accepted at " + AT
    assert told.lines[1 : 1 + len(jobs)] == tuple(
        f"job {view.id} (job-{view.id}) in lane 'acme#7' is {view.state}" for view in jobs
    )
    assert (told.lines[-1] == remedy) or not remedy
    assert told.data["states"] == {str(view.id): str(view.state) for view in jobs}
    assert (told.data["reason"], told.data["jobs"], told.data["received_at"]) == (reason, [8, 9], AT)
    assert "payload" not in told.data


AT = "1970-01-01T00:16:40.000+00:00"


def test_no_reason_is_left_out() -> None:
    mark = next(mark for mark in test_every_reason_has_its_words.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {case[1] for case in mark.args[1]} == {
        reason for reason, info in REASONS.items() if "event" in info.subjects
    }


def test_one_job_a_replay_and_errors_have_words_of_their_own() -> None:
    replay = EVENT._replace(replay_of=3, by="eva", actor="", jobs=(8,))
    told = explain_event(replay, [job(8, JobState.FAILED, "ValueError: no\nluck")])

    assert told.why == "its job is failed"
    assert "github.issues.opened, replayed by eva from event 3" in told.lines[0]
    assert told.lines[1].endswith("is failed: ValueError: no luck")
    assert explain_event(EVENT._replace(jobs=()), []).why == "it caused no job"
    assert "1 of its jobs ended and is no longer kept" in explain_event(EVENT, [job(8, JobState.DONE)]).lines
    assert "2 of its jobs ended and are no longer kept" in explain_event(EVENT, []).lines
