"""Registers workers, watches the ends of jobs, and deletes what is past its retention."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.handler_versions import encode_versions
from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_keys import prune_keys
from interlock.backends.sqlite.job_logs import delete_logs
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.jobs import HandlerVersion

__all__ = ["attend", "prune", "report_started", "watch_end"]

_AGAIN = 3_600_000_000
"""How long an enqueue may be in flight, in microseconds."""


def attend(
    rows: JobRows,
    session: str,
    queues: Sequence[str],
    names: Sequence[str],
    runners: int,
    reads: Sequence[HandlerVersion],
    queue_runners: Mapping[str, int],
) -> None:
    """Store the queues, jobs and runners of a worker."""
    rows.run(
        sql.register_worker,
        session=session,
        queues=json.dumps(list(queues)),
        names=json.dumps(list(names)),
        runners=runners,
        handler_versions=encode_versions(reads),
        queue_runners=json.dumps(dict(queue_runners)) if queue_runners else None,
    )


def report_started(rows: JobRows, session: str, started: Sequence[tuple[int, int]]) -> None:
    """Mark fetched jobs as started."""
    rows.each(sql.mark_started, [(id, fence, rows.namespace, session) for id, fence in started])  # noqa: A001


def watch_end(rows: JobRows, session: str, ids: Sequence[int]) -> list[int]:
    """Watch the ends of jobs for a session; return those that have ended already."""
    rows.run(sql.delete_watches, session=session)
    unfinished = {id for (id,) in rows.all(sql.unfinished, ids=json.dumps(list(ids)))}  # noqa: A001
    rows.each(sql.add_watches, [(rows.namespace, session, id) for id in unfinished])  # noqa: A001
    return [id for id in ids if id not in unfinished]  # noqa: A001


def prune(rows: JobRows, keep_history: float, limit: int) -> int:
    """Delete a bounded number of old rows: history kind by kind, so that other namespaces are never read."""
    before = rows.now - micros(keep_history)
    removed = 0
    for kind, _, _ in rows.all(sql.namespace_kinds):
        old = [id for (id,) in rows.all(sql.old_history, kind=kind, before=before, limit=limit - removed)]  # noqa: A001
        if old:
            rows.run(sql.delete_history, ids=json.dumps(old))
            rows.run(sql.delete_results, ids=json.dumps(old))
            delete_logs(rows, old)
            removed += len(old)
    results = [id for (id,) in rows.all(sql.old_results, limit=limit - removed)]  # noqa: A001
    if results:
        rows.run(sql.delete_results, ids=json.dumps(results))
    rows.run(sql.delete_expired_starts, limit=limit)
    rows.run(sql.delete_resubmitted, before=rows.now - _AGAIN)
    rows.run(sql.delete_workers, before=before)
    return removed + len(results) + prune_keys(rows, limit)
