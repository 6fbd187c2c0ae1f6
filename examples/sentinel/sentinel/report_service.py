"""Reports: what the job does for a target, and what happens to the target when the job does not succeed."""

from __future__ import annotations

import logging

from interlock import Discard, Retry, current_job
from interlock.jobs import JobEnd  # noqa: TC001 - Interlock reads the types of handlers
from sentinel.current import current_console
from sentinel.database import Row, Transaction, execute_in_transaction, execute_query, timestamp
from sentinel.moderation import ModerationError, ModerationUnavailableError

__all__ = ["ACTION", "RETRY", "execute_report_for_target", "list_logs", "record_failure", "report_ended"]

logger = logging.getLogger("sentinel")

ACTION = "execute_report"
_ANY_FENCE = 2**62
RETRY = Retry(attempts=3, delay=1, transient=(ModerationUnavailableError,), permanent=(ModerationError,))


async def _run_report_in_background(  # pyright: ignore[reportUnusedFunction]
    target_id: int, account_id: int
) -> None:
    """The handler of the job ``execute_report``. Its cooldown is that of ``account_id``."""
    await execute_report_for_target(target_id)


async def execute_report_for_target(target_id: int) -> None:
    """Report a target and complete it, inside its job.

    The job may run again after a crash: the API counts its key once, and a target that an earlier run completed is
    left alone. A run that was replaced (its fence is too old) writes nothing. A target that failed is taken up again if
    a person retries its job.
    """
    job = current_job()
    started = await execute_query(
        "update targets set status = 'processing', fence = ?, updated_at = ?"
        " where id = ? and job_id = ? and status in ('processing', 'failed') and fence <= ? returning item, account_id",
        (job.fence, timestamp(), target_id, job.id, job.fence),
    )
    if not started:
        if await execute_query("select id from report_logs where job_id = ? and success = 1", (job.id,)):
            return  # an earlier run of this job completed it, and its worker died before it said so
        raise Discard(f"target #{target_id} does not belong to this job any more")
    target = started[0]
    await current_console().moderation.review(str(target["item"]), int(target["account_id"]), f"job-{job.id}")

    async def _operation(transaction: Transaction) -> bool:
        return await _end(transaction, target_id, job.id, "completed", fence=job.fence)

    if not await execute_in_transaction(_operation):
        raise Discard(f"target #{target_id} was taken from this job while it ran")


async def report_ended(end: JobEnd) -> None:
    """The hook at the end of a job that did not succeed: failed, cancelled, or quarantined after its workers died."""
    await record_failure(int(end.arguments["target_id"]), end.job, end.error or str(end.state))


async def record_failure(target_id: int, job_id: int, error: str) -> bool:
    """Fail a target whose job has ended without success; False if the target does not belong to that job.

    The hook at the end of a job may run more than once: the first run moves the target on, and the others find it
    moved.
    """

    async def _operation(transaction: Transaction) -> bool:
        return await _end(transaction, target_id, job_id, "failed", error=error)

    failed = await execute_in_transaction(_operation)
    if failed:
        logger.error("Background report failed for target %s: %s", target_id, error)
    return failed


async def _end(
    transaction: Transaction, target_id: int, job_id: int, status: str, *, fence: int | None = None, error: str = ""
) -> bool:
    """Move a target on from processing, with its row in report_logs, if it belongs to the job."""
    rows = await transaction.fetch(
        "update targets set status = ?, updated_at = ?"
        " where id = ? and job_id = ? and status = 'processing' and fence <= ? returning id",
        (status, timestamp(), target_id, job_id, _ANY_FENCE if fence is None else fence),
    )
    if not rows:
        return False
    await transaction.fetch(
        "insert into report_logs (target_id, action, success, error_message, job_id, created_at)"
        " values (?, ?, ?, ?, ?, ?)",
        (target_id, ACTION, int(status == "completed"), error or None, job_id, timestamp()),
    )
    return True


async def list_logs(limit: int = 200) -> list[Row]:
    """List the newest rows of report_logs."""
    return await execute_query("select * from report_logs order by id desc limit ?", (limit,))
