"""Timeouts and settings of PostgreSQL sessions and transactions."""

from __future__ import annotations

from interlock.backends.postgres.keepalive import SERVER_KEEPALIVE

__all__ = ["IDLE_TIMEOUT", "LOCAL_TIMEOUTS", "LOCK_TIMEOUT", "SESSION_SETTINGS", "STATEMENT_TIMEOUT"]

# The functions rely on seeing what others have committed meanwhile, and wait only briefly for a row.
LOCK_TIMEOUT = "4s"
# Each statement ends in time by itself. A shorter limit of the role or the database would stop all work.
STATEMENT_TIMEOUT = "120s"
# The server ends a transaction that is idle for so long: the client's host is gone, and must not keep its locks.
IDLE_TIMEOUT = "10s"
# For each transaction of several statements, because a pooler does not keep the settings of a session.
LOCAL_TIMEOUTS = (
    f"set local statement_timeout = '{STATEMENT_TIMEOUT}'; set local lock_timeout = '{LOCK_TIMEOUT}';"
    f" set local idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'"
)
SESSION_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": STATEMENT_TIMEOUT,
    "idle_in_transaction_session_timeout": IDLE_TIMEOUT,
    **SERVER_KEEPALIVE,
    "jit": "off",
    "application_name": "interlock",
}
