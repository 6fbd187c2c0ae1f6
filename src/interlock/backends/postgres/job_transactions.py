"""Enqueuing on a caller's own connection: by the SQL function that other programs use too, which checks every value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.job_enqueue import check_keyed, parts, refused
from interlock.backends.postgres.queries import JobQueries
from interlock.errors import MisuseError
from interlock.ports.transactions import EnqueuedInTransaction, Statement, StepError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.transactions import Steps

__all__ = ["enqueue_steps"]

_sql = JobQueries()


def enqueue_steps(
    jobs: Sequence[NewJob], namespace: str, identity: str | None, clock: float | None
) -> Steps[EnqueuedInTransaction]:
    """Enqueue jobs in the order given, in one statement for thousands of them.

    ``identity`` is that of the app's database; None if it is not known. ``clock`` is the time of a test's clock.
    """
    ids: list[int] = []
    existing: list[bool] = []
    if any(job.key for job in jobs):
        check_keyed(jobs)
    for part in parts(iter(jobs)):
        values = (f"[{','.join(map(_encode, part))}]", namespace, None if clock is None else repr(clock), identity)
        try:
            ((accepted, created),) = yield Statement(_sql.enqueue_in_transaction, values)
        except StepError as error:
            refusal = refused(error.code, error.message)
            if refusal is None:
                raise
            raise refusal from error
        if accepted is None:
            raise MisuseError(
                "The connection leads to another database than the app's, where the app's workers would not see the"
                " job.",
                remedy="Pass a connection to the app's own database. If that database was restored or moved, restart"
                " the program.",
            )
        ids.extend(accepted)
        existing.extend(not new for new in created)
    return EnqueuedInTransaction(ids, None, existing)  # a sequence never gives an ID twice


def _encode(job: NewJob) -> str:
    """Return a job as ``interlock.enqueue_many`` takes it. Its arguments travel as text and stay as they are."""
    fields: dict[str, Any] = {
        "name": job.name,
        "queue": job.queue,
        "priority": job.priority,
        "on_failure": job.on_failure,
        "keep_result": job.keep_result,
        "arguments": job.arguments,
    }
    if job.lane:
        fields["lane"] = job.lane
        fields["coalesce"] = job.coalesce
    if job.at is not None:
        fields["at"] = datetime.fromtimestamp(job.at, UTC).isoformat()
    elif job.delay:
        fields["delay"] = job.delay
    if job.uses:
        fields["limits"] = [[use.key, use.max_count, use.per] for use in job.uses]
    if job.cause:
        fields["cause"] = job.cause
    if job.key:
        fields |= {"key": job.key, "keep_key": job.keep_key}
    if job.after:
        fields |= {"after": job.after, "if_failed": job.if_failed}
    if job.expires is not None:
        fields["expires"] = job.expires
    if job.expires_at is not None:
        fields["expires_at"] = datetime.fromtimestamp(job.expires_at, UTC).isoformat()
    texts = [("options", job.options), ("hooks", job.hooks)]
    return "".join([json.dumps(fields)[:-1], *(f', "{name}": {text}' for name, text in texts if text), "}"])
