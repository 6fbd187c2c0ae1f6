"""A job's attempts as bounded JSON. A success needs none, because the history row describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import seconds
from interlock.ports.job_views import Attempt, WorkerView
from interlock.ports.jobs import MAX_ATTEMPTS_KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Who", "add_attempt", "last_fence", "read_attempts"]

_OUTCOME, _FENCE = 1, 8


class Who(NamedTuple):
    """A worker."""

    session: str
    host: str
    pid: int
    program: str


def add_attempt(text: str | None, attempt: Sequence[Any]) -> str:
    """Add an attempt: number, outcome, began, ended, session, host, pid, program, fence, error, trace."""
    attempts = json.loads(text) if text else []
    return json.dumps(_bounded([*attempts, attempt]), separators=(",", ":"))


def read_attempts(text: str | None, *more: Attempt) -> tuple[Attempt, ...]:
    """Return attempts as the port has them."""
    found = [
        Attempt(number, outcome, seconds(began), seconds(ended), WorkerView(*who), fence, error, trace)
        for number, outcome, began, ended, *who, fence, error, trace in (json.loads(text) if text else ())
    ]
    return tuple(_bounded([*found, *more]))


def last_fence(text: str | None, only: str = "", *, but: Sequence[str] = ()) -> int | None:
    """Return the fence of the last attempt, if it ended with outcome ``only``, or with none of ``but``."""
    attempts = json.loads(text) if text else []
    if not attempts:
        return None
    outcome = attempts[-1][_OUTCOME]
    return int(attempts[-1][_FENCE]) if (not only or outcome == only) and outcome not in but else None


def _bounded(attempts: list[Any]) -> list[Any]:
    """Keep the first attempt and the last ones."""
    if len(attempts) <= MAX_ATTEMPTS_KEPT:
        return attempts
    return [attempts[0], *attempts[1 - MAX_ATTEMPTS_KEPT :]]
