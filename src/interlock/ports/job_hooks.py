"""End hooks of jobs and the causes of jobs, as the stores keep them.

An end hook is a job that the store enqueues in the very transaction that ends another job, whatever ends it: an
acknowledgement, a person, a rescue, a newer job of its lane. So there is exactly one hook job for each hook and each
end, also if every worker has died. The hooks of a job travel with it as text, set when it is enqueued, so that a store
knows them without the program that defined them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.jobs import JobState

__all__ = ["HOOK_KEEP_RESULT", "EndHook", "decode_hooks", "encode_hooks", "end_arguments"]

HOOK_KEEP_RESULT = 3600.0
"""Seconds for which the result of a hook job is kept."""


class EndHook(NamedTuple):
    """One end hook of a job."""

    name: str
    """The name of the job to enqueue."""
    queue: str
    priority: int
    states: tuple[JobState, ...]
    """The final states after which it is enqueued."""


def encode_hooks(hooks: Iterable[EndHook]) -> str:
    """Write hooks as stored; empty for none."""
    listed = [[hook.name, hook.queue, hook.priority, [str(state) for state in hook.states]] for hook in hooks]
    return json.dumps(listed, separators=(",", ":")) if listed else ""


def decode_hooks(text: str) -> Sequence[tuple[str, str, int, Sequence[str]]]:
    """Read stored hooks: name, queue, priority and states of each."""
    return [(name, queue, priority, states) for name, queue, priority, states in json.loads(text)]


def end_arguments(
    job: int,
    name: str,
    queue: str,
    lane: str,
    state: str,
    error: str,
    attempt: int,
    superseded_by: int | None,
    ended_at: float,
    arguments: str,
) -> str:
    """The arguments of a hook job: how the other job ended, with its arguments."""
    ended: dict[str, Any] = {
        "job": job,
        "name": name,
        "queue": queue,
        "lane": lane,
        "state": state,
        "error": error,
        "attempt": attempt,
        "superseded_by": superseded_by,
        "ended_at": ended_at,
        "arguments": json.loads(arguments),
    }
    return json.dumps(ended, separators=(",", ":"))
