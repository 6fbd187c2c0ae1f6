"""The numbers of states and outcomes have the names that the ports and SQLite use."""

from __future__ import annotations

from interlock.backends.job_codes import ON_FAILURE_CODES, OUTCOME_CODES, OutcomeCode, StateCode, outcome_name
from interlock.ports.jobs import JobState, OnFailure, Outcome


def test_every_final_state_has_a_code_of_its_name() -> None:
    assert {code.name for code in StateCode} == {state.name for state in JobState if state.final}


def test_every_outcome_and_reaction_to_a_failure_has_a_code_of_its_name() -> None:
    assert {outcome.name: code.name for outcome, code in OUTCOME_CODES.items()} == {
        one.name: one.name for one in Outcome
    }
    assert {one.name: code.name for one, code in ON_FAILURE_CODES.items()} == {one.name: one.name for one in OnFailure}


def test_attempts_show_outcomes_by_the_names_that_workers_use() -> None:
    assert {outcome_name(code) for code in OUTCOME_CODES.values()} == {str(outcome) for outcome in Outcome}
    assert outcome_name(OutcomeCode.UNSTARTED) == Outcome.RETURNED
