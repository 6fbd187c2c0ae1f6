"""The numbers that PostgreSQL keeps for the states, outcomes and classes of jobs.

Their names are those of the ports' enumerations, which SQLite stores as text. PostgreSQL has a function for each of
them, such as ``interlock.outcome_retry()``.
"""

from __future__ import annotations

from enum import IntEnum

from interlock.ports.jobs import IfFailed, OnFailure, Outcome

__all__ = [
    "ON_FAILURE_CODES",
    "OUTCOME_CODES",
    "IF_FAILED_CODES",
    "FetchDecision",
    "IfFailedCode",
    "OnFailureCode",
    "OutcomeCode",
    "ReadyClass",
    "StateCode",
    "outcome_name",
]


class StateCode(IntEnum):
    """How a job has ended."""

    DONE = 0
    FAILED = 1
    DISCARDED = 2
    CANCELLED = 3
    SUPERSEDED = 4
    QUARANTINED = 5
    EXPIRED = 6


class OutcomeCode(IntEnum):
    """How an attempt has ended.

    Workers do not acknowledge with the last ones: ``UNSTARTED`` is for jobs that were returned before they started,
    ``CRASHED`` for those that may have been running when their worker died, ``INTERRUPTED`` for the same if it had been
    told to stop, and ``CRASHED_ALONE`` for a job that was its only suspect.
    """

    DONE = 0
    FAILED = 1
    RETRY = 2
    SNOOZED = 3
    DISCARDED = 4
    CANCELLED = 5
    PARKED = 6
    RETURNED = 7
    UNSTARTED = 8
    CRASHED = 9
    INTERRUPTED = 10
    UNREADABLE = 11
    CRASHED_ALONE = 12


class OnFailureCode(IntEnum):
    """The reaction of a lane to a failed job."""

    BLOCK = 0
    SKIP = 1
    PARK = 2


class IfFailedCode(IntEnum):
    """What becomes of a job when one that it waits for ends without being done."""

    CANCEL = 0
    PARK = 1
    RUN = 2


class ReadyClass(IntEnum):
    """Which workers may fetch a ready job: any, one that can start it now, or one that takes suspects of its half."""

    USUAL = 0
    IMMEDIATE = 1
    SUSPECT = 2


class FetchDecision(IntEnum):
    """The decision of a fetch about a ready job: leave it, take it, let it wait for a limit, or make it immediate."""

    LEAVE = 0
    TAKE = 1
    WAIT = 2
    DEFER = 3


OUTCOME_CODES = {outcome: OutcomeCode[outcome.name] for outcome in Outcome}
"""The codes of the outcomes that workers acknowledge with."""
ON_FAILURE_CODES = {on_failure: OnFailureCode[on_failure.name] for on_failure in OnFailure}
IF_FAILED_CODES = {if_failed: IfFailedCode[if_failed.name] for if_failed in IfFailed}


def outcome_name(code: OutcomeCode) -> str:
    """Return the name under which an attempt's outcome is shown. Some codes share one."""
    return _SHOWN_AS.get(code, code).name.lower()


_SHOWN_AS = {
    OutcomeCode.UNSTARTED: OutcomeCode.RETURNED,
    OutcomeCode.CRASHED_ALONE: OutcomeCode.CRASHED,
}
