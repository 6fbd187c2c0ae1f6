"""The type of a caller's connection, for type checkers."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Connection"]


class Connection(Protocol):
    """A connection or session of a supported driver: asyncpg, psycopg 3, SQLAlchemy, sqlite3 or aiosqlite.

    Which of these it is gets checked when it is used.
    """

    @property
    def execute(self) -> Any:
        """Every driver's method to execute a statement."""
        ...

    @property
    def close(self) -> Any:
        """Every driver's method to close the connection."""
        ...
