"""The registry of adapters, by the package that defines the connection's class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from interlock.connections import drivers
from interlock.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.transactions import Step

__all__ = ["Adapter", "adapter_of", "register_adapter"]


class Adapter(Protocol):
    """Executes steps on one connection."""

    @property
    def blocking(self) -> bool:
        """Whether :meth:`perform` blocks the thread; otherwise it returns an awaitable."""
        ...

    def perform(self, step: Step) -> Any:
        """Execute a step: the rows of a ``Statement``, or what a ``Work`` returned. Raises the driver's errors.

        Raises ``MisuseError`` if the connection is closed, or leads to another kind of database than the step is for;
        see :func:`~interlock.connections.drivers.check_database`. A ``Work`` has to take effect together or not at
        all, also outside a transaction; see :func:`~interlock.connections.drivers.run_work`.
        """
        ...


_adapters: dict[str, Callable[[Any], Adapter | None]] = {
    "asyncpg": drivers.asyncpg_adapter,
    "psycopg": drivers.psycopg_adapter,
    "sqlalchemy": drivers.sqlalchemy_adapter,
    "sqlite3": drivers.sqlite3_adapter,
    "aiosqlite": drivers.aiosqlite_adapter,
}


def register_adapter(package: str, make: Callable[[Any], Adapter | None]) -> None:
    """Support the connections of another package. ``make`` returns None for objects that are not connections."""
    _adapters[package] = make


def adapter_of(connection: object) -> Adapter:
    """Return the adapter for a connection; raises ``MisuseError`` for anything else."""
    for cls in type(connection).__mro__:
        make = _adapters.get(cls.__module__.partition(".")[0])
        adapter = None if make is None else make(connection)
        if adapter is not None:
            return adapter
    raise MisuseError(
        f"connection= got {drivers.describe(connection)}, which is not a supported connection.",
        remedy="Pass a connection or session of asyncpg, psycopg 3, SQLAlchemy, sqlite3 or aiosqlite; not a pool, an"
        " engine, a cursor or a URL.",
    )
