"""Enqueuing on a caller's own connection: by the statements of the store's own writer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from interlock.backends.pacing import seconds
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.errors import CapabilityError, MisuseError
from interlock.ports.transactions import EnqueuedInTransaction, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from interlock.backends.sqlite.job_rows import JobRows
    from interlock.ports.jobs import NewJob
    from interlock.ports.transactions import Database, Steps

__all__ = ["enqueue_steps"]


def enqueue_steps(
    jobs: Sequence[NewJob], path: Path | None, rows_of: Callable[[Database], JobRows]
) -> Steps[EnqueuedInTransaction]:
    """Enqueue jobs in the order given. ``path`` is the store's file; None if it is in memory."""
    if path is None:
        raise CapabilityError(
            "The memory store has no database that connection= could lead to.",
            remedy="Use sqlite:// or postgresql:// for the app's store, or enqueue without connection=.",
        )

    def run(database: Database) -> EnqueuedInTransaction:
        _check_file(database, path)
        rows = rows_of(database)
        ids = rows.numbers("id", len(jobs))
        held = enqueue(rows, [job._replace(id=id) for job, id in zip(jobs, ids, strict=True)], again=False)  # noqa: A001
        # After a rollback, other jobs get the same IDs.
        if not held:
            return EnqueuedInTransaction(ids, seconds(rows.now))
        holders = [held.get(id, id) for id in ids]  # noqa: A001
        return EnqueuedInTransaction(holders, seconds(rows.now), [id in held for id in ids])  # noqa: A001

    accepted: EnqueuedInTransaction = yield Work(run)
    return accepted


def _check_file(database: Database, path: Path) -> None:
    """Raise an error unless the main database of a connection is the store's file."""
    found = next((file for _, name, file in database.execute("pragma database_list") if name == "main"), "")
    if not found:
        raise MisuseError(
            f"The connection leads to a SQLite database in memory, but the app's store is {path}.",
            remedy="Connect to the app's own file.",
        )
    try:
        same = os.path.samefile(found, path)
    except OSError:  # one of them was deleted
        same = False
    if not same:
        raise MisuseError(
            f"The connection leads to the SQLite file {found}, but the app's store is {path}.",
            remedy="Connect to the app's own file.",
        )
