"""Enqueues the end hooks of jobs in the transaction that ends them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.pacing import seconds
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.job_hooks import HOOK_KEEP_RESULT, decode_hooks, end_arguments
from interlock.ports.jobs import NewJob, OnFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["enqueue_hooks"]


def enqueue_hooks(rows: JobRows, ids: Sequence[int]) -> None:
    """Enqueue the hooks of those of these jobs that have any. They are in the history."""
    hooks: list[NewJob] = []
    for id_, name, queue, lane, state, error, attempt, superseded_by, arguments, text in rows.all(
        sql.hooks_of_ended, ids=json.dumps(ids)
    ):
        wanted = [hook for hook in decode_hooks(text) if state in hook[3]]
        if not wanted:
            continue
        ended = (id_, name, queue, rows.lane_name(lane), state, error, attempt, superseded_by, seconds(rows.now))
        told = end_arguments(*ended, arguments)
        for number, (hook, hook_queue, priority, _) in zip(rows.numbers("id", len(wanted)), wanted, strict=True):
            hooks.append(
                NewJob(
                    id=number,
                    name=hook,
                    queue=hook_queue,
                    lane="",
                    priority=priority,
                    delay=0.0,
                    at=None,
                    uses=(),
                    on_failure=OnFailure.BLOCK,
                    coalesce=False,
                    keep_result=HOOK_KEEP_RESULT,
                    arguments=told,
                    options="",
                    cause=f"end:{id_}",
                )
            )
    if hooks:
        enqueue(rows, hooks, again=False)
