"""Jobs in an in-memory SQLite database, called in the caller's thread, so that there is one implementation of jobs."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING, TypeVar

from interlock.backends.sqlite.job_insight import SqliteJobInsight
from interlock.backends.sqlite.job_limits import job_side, wake
from interlock.backends.sqlite.job_notifier import JobNotifier
from interlock.backends.sqlite.jobs import SqliteJobs
from interlock.backends.sqlite.queries import LimitQueries, SessionQueries
from interlock.backends.statements import read_migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlock.backends.limit_sides import JobSide
    from interlock.backends.memory.fences import Fences
    from interlock.backends.memory.limits import MemoryLimits
    from interlock.backends.memory.messages import MemoryMessages
    from interlock.backends.memory.sessions import MemorySessions
    from interlock.backends.sqlite.job_rows import JobRows
    from interlock.clock import Clock

__all__ = ["NAMESPACE", "MemoryDatabase", "memory_insight", "memory_jobs"]

T = TypeVar("T")
NAMESPACE = "default"
_sql = SessionQueries()
_limit_sql = LimitQueries()


def memory_jobs(
    database: MemoryDatabase,
    clock: Clock,
    sessions: MemorySessions,
    messages: MemoryMessages,
    fences: Fences,
    limits: MemoryLimits,
) -> SqliteJobs:
    """Return the jobs port on a database that is created when it is first needed."""
    news = JobNotifier(messages.turn, messages.lost, limits.jobs_freed)
    sessions.on_end.append(news.forget)
    jobs = SqliteJobs(database.run, database.run, news, NAMESPACE, clock, lambda _: fences.next(), reservations=limits)
    limits.jobs = _LimitedJobs(database, jobs, news)
    return jobs


class _LimitedJobs:
    """The jobs under limits, as reservations count them. Nothing is read before there is a job."""

    def __init__(self, database: MemoryDatabase, jobs: SqliteJobs, news: JobNotifier) -> None:
        self._database, self._jobs, self._news = database, jobs, news

    def side(self, key: str) -> JobSide | None:
        """Return the jobs on a key; None if there are none."""
        return self._run(lambda rows: job_side(rows, key)) if self._database.is_open else None

    def mark(self) -> int:
        """Return the last number that a waiting job has drawn."""
        return self._run(lambda rows: rows.numbers("position", 0).stop - 1) if self._database.is_open else 0

    def waiting_keys(self, name: str) -> list[str]:
        """Return the keys of a limit that jobs wait for."""
        if not self._database.is_open:
            return []
        return self._run(lambda rows: [key for (key,) in rows.all(_limit_sql.keys_of_name, name=name)])

    def extend_starts(self, name: str, per: int) -> None:
        """Let the known starts of a limit's jobs count for a longer period."""
        if per and self._database.is_open:
            self._run(lambda rows: rows.run(_limit_sql.extend_job_starts, name=name, per=per))

    def wake(self, keys: Iterable[str]) -> None:
        """Make waiting jobs ready as far as there is room, and notify their workers."""
        if self._database.is_open:
            self._news.notify(self._run(lambda rows: (wake(rows, keys), rows.notice())[1]))

    def _run(self, do: Callable[[JobRows], T]) -> T:
        return self._database.run_now(lambda db: do(self._jobs.rows(db)))


def memory_insight(jobs: SqliteJobs) -> SqliteJobInsight:
    """Return the insight port on the jobs' database."""
    return SqliteJobInsight(jobs)


class MemoryDatabase:
    """One connection, used by one caller at a time. Current sessions are copied into it before each use."""

    def __init__(self, clock: Clock, sessions: MemorySessions) -> None:
        self._now = clock.now
        self._sessions = sessions
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._changed: dict[str, bool] = {}

    @property
    def is_open(self) -> bool:
        """Whether it was needed so far."""
        return self._connection is not None

    async def run(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do`` in a transaction. No other task runs meanwhile."""
        return self.run_now(do)

    def run_now(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``do`` in a transaction."""
        with self._lock:
            db = self._connection or self._open()
            db.execute("begin")
            try:
                self._write_sessions(db)
                result = do(db)
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")
            self._changed.clear()
            return result

    def _open(self) -> sqlite3.Connection:
        db = self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=512
        )
        weakref.finalize(self, db.close)
        for migration in read_migrations("interlock.backends.sqlite", "schema"):
            db.executescript(migration.sql)
        for id in self._sessions.cards:  # noqa: A001
            self._note(id)
        self._sessions.on_change.append(self._note)
        return db

    def _note(self, session: str) -> None:
        self._changed[session] = session in self._sessions.leaving

    def _write_sessions(self, db: sqlite3.Connection) -> None:
        for id, leaving in self._changed.items():  # noqa: A001
            values = {"namespace": NAMESPACE, "id": id, "now": self._now()}
            card = self._sessions.cards.get(id)
            if card is None:
                db.execute(_sql.mark_leaving, values | {"leaving": leaving})
                for statement in (_sql.delete_watches, _sql.end_worker, _sql.delete_messages, _sql.delete_session):
                    db.execute(statement, values)
            else:
                about = {"host": card.host, "pid": card.pid, "program": card.program}
                db.execute(_sql.add_session, values | about | {"seconds": 0.0})
                db.execute(_sql.mark_leaving, values | {"leaving": leaving})
                since, by = self._sessions.blocked.get(id, (None, ""))
                seen = {"expires_at": self._sessions.alive_until[id], "blocked_since": since, "blocked_by": by}
                db.execute(_sql.copy_session, values | seen)
