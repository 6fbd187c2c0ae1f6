"""Work that a store does on a caller's own connection, inside the caller's transaction.

The store describes its work as steps: a generator that yields a :class:`Statement` or a :class:`Work`, is sent what
that returned, and returns the result. If PostgreSQL refused a statement, it is thrown a :class:`StepError`, for which
it may raise an error of its own. So the store says once what is executed, and ``interlock.connections`` executes it
with any driver, blocking or not.

The work neither commits nor rolls back the caller's transaction. Outside a transaction, each step is one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Database", "EnqueuedInTransaction", "StepError", "Statement", "Step", "Steps", "Work"]

T = TypeVar("T")


class Database(Protocol):
    """A SQLite connection, as far as :class:`Work` needs it."""

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /) -> Any:
        """Execute a statement and return its cursor."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement once for each element."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement for PostgreSQL; executing it returns its rows."""

    database: ClassVar[str] = "PostgreSQL"
    sql: str
    """With the placeholders ``$1``, ``$2``, …, in any order."""
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Several statements for SQLite that take effect together or not at all."""

    database: ClassVar[str] = "SQLite"
    run: Callable[[Database], Any]
    """Called once, in the thread that uses the connection."""


class StepError(Exception):
    """An error of PostgreSQL, from any driver."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """The SQLSTATE."""
        self.message = message
        """Its first line."""


Step: TypeAlias = Statement | Work
Steps: TypeAlias = Generator[Step, Any, T]


class EnqueuedInTransaction(NamedTuple):
    """Jobs that a store has accepted in a transaction which has not been committed yet."""

    ids: Sequence[int]
    """In the order of the jobs."""
    at: float | None
    """When they were accepted, if an ID may be given again after a rollback; then ID and time together identify a
    job."""
    existing: Sequence[bool] = ()
    """Whether each existed before, and has the key of the job; empty if none did."""
