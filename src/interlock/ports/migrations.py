"""The versions of a store's schema: which there are, which are applied, and applying what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Migration", "Migrations"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. ``applied_at`` is None while it is pending."""

    version: int
    name: str
    sql: str
    applied_at: float | None = None


class Migrations(Protocol):
    """Migrations of one store. They work before the store is opened and need no session."""

    async def status(self) -> Sequence[Migration]:
        """All known migrations in order, with the time each was applied."""
        ...

    async def up(self) -> Sequence[Migration]:
        """Apply what is pending, in order, and say what was applied.

        Any number of processes may call this at once: each migration is applied exactly once, and all of them
        return only when the schema is complete.
        """
        ...

    def script(self, migrations: Sequence[Migration] | None = None) -> str:
        """The SQL that applies these migrations (all known ones by default) with other tools. Connects to nothing.

        One transaction, the store's own record of what was applied included: after it :meth:`status` says so.
        """
        ...

    def grants(self, *, workers: Sequence[str] = (), readers: Sequence[str] = (), enqueuers: Sequence[str] = ()) -> str:
        """The SQL that gives roles of the store the rights to work, to read and to enqueue. Connects to nothing.

        Raises ``CapabilityError`` if the store has no roles.
        """
        ...
