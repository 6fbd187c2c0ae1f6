"""The schema of a store: its migrations, its function set, and the operations that apply and verify them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FunctionSet", "FunctionSetState", "Migration", "Migrations", "SchemaStatus"]

FunctionSetState = Literal["current", "pending", "newer", "altered"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the schema. ``applied_at`` is None while it is pending."""

    version: int
    name: str
    sql: str
    applied_at: float | None = None

    @property
    def checksum(self) -> str:
        """A checksum of the SQL, which a store records when it applies the migration."""
        return sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """All database functions of a program, under one version, and the set that the store has applied."""

    version: int
    checksum: str
    applied_version: int | None = None
    applied_checksum: str | None = None
    applied_at: float | None = None

    @property
    def state(self) -> FunctionSetState:
        """How the applied set compares with this program's.

        ``pending``: none or an older one is applied. ``newer``: a later program applied its own, which keeps the
        functions that this one calls. ``altered``: the version is the same and the functions are not.
        """
        if self.applied_version is None or self.applied_version < self.version:
            return "pending"
        if self.applied_version > self.version:
            return "newer"
        return "current" if self.applied_checksum == self.checksum else "altered"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Migrations in order, and the function set of a store that has functions."""

    migrations: tuple[Migration, ...]
    functions: FunctionSet | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing has been applied yet."""
        return all(migration.applied_at is None for migration in self.migrations)

    @property
    def pending(self) -> SchemaStatus | None:
        """The pending migrations and functions; None if there are none."""
        migrations = tuple(migration for migration in self.migrations if migration.applied_at is None)
        functions = self.functions if self.functions is not None and self.functions.state == "pending" else None
        return SchemaStatus(migrations, functions) if migrations or functions else None

    def __str__(self) -> str:
        """Name the migrations and the function set: ``migrations 4 jobs, 5 events; function set 2``."""
        parts = []
        if self.migrations:
            names = ", ".join(f"{migration.version} {migration.name}" for migration in self.migrations)
            parts.append(f"migration{'s' if len(self.migrations) > 1 else ''} {names}")
        if self.functions is not None:
            parts.append(f"function set {self.functions.version}")
        return "; ".join(parts)


class Migrations(Protocol):
    """Migrations of one store. They work before the store is opened and need no session."""

    async def status(self) -> SchemaStatus:
        """Return all known migrations in order with the time each was applied, and the state of the function set."""
        ...

    async def up(self, *, restore: bool = False) -> SchemaStatus:
        """Apply what is pending, in order, and return what was applied.

        Any number of processes may call this at once: each migration is applied exactly once, and all of them
        return only when the schema is complete. A newer function set is left as it is. An altered one raises
        ``SchemaMismatchError``, unless ``restore`` asks to replace it.
        """
        ...

    async def verify(self) -> Sequence[str]:
        """Compare the store with this program's files and return one sentence for each difference."""
        ...

    def script(self, steps: SchemaStatus | None = None) -> str:
        """Return the SQL that applies these steps (all by default) with other tools. Connects to nothing.

        The script is one transaction and records what it applies: :meth:`status` reports it afterwards.
        """
        ...

    def grants(self, *, workers: Sequence[str] = (), readers: Sequence[str] = (), enqueuers: Sequence[str] = ()) -> str:
        """Return the SQL that lets roles of the store work, read and enqueue. Connects to nothing.

        Raises ``CapabilityError`` if the store has no roles.
        """
        ...
