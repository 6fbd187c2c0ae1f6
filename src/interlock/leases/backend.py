"""How what is owned is kept, waited for and given up, which each concept does in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.leases import Held, Renewed, Turns

__all__ = ["LeaseBackend", "Request"]


class Request(Protocol):
    """What was asked of the store."""

    @property
    def owner(self) -> str:
        """The name of the request, and of what answers it."""
        ...


W = TypeVar("W", bound=Request)
L = TypeVar("L")


class LeaseBackend(Protocol[W, L]):
    """One port of a store, for what engines do alike."""

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each its time to live again."""
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        ...

    async def leave(self, want: W) -> L:
        """Give up whatever the request may have got."""
        ...

    def next_owners(self, left: L) -> Iterable[str]:
        """Whose turn may have come by that, of our own session."""
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """What the store knows of in a session's name: keys and owners."""
        ...

    def stray(self, key: str, owner: str, session: str) -> W:
        """A request that only the store remembers."""
        ...
