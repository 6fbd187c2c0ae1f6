"""The operations that the lease engines need from a store port. Each concept implements them for its own port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.leases import Held, Renewed, Turns

__all__ = ["LeaseBackend", "Request"]


class Request(Protocol):
    """A request to the store."""

    @property
    def owner(self) -> str:
        """The ID of the request and of the lease that answers it."""
        ...


W = TypeVar("W", bound=Request)
L = TypeVar("L")


class LeaseBackend(Protocol[W, L]):
    """One store port, reduced to the operations that all lease engines share."""

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each lease by its full time to live."""
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiters whose turn may have come."""
        ...

    async def leave(self, request: W) -> L:
        """Release the lease or the queue position that the request may have obtained."""
        ...

    def next_owners(self, left: L) -> Iterable[str]:
        """Return the waiters of this session whose turn may have come because of a release."""
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return the key and owner of every request that the store keeps for a session."""
        ...

    def rebuild_request(self, key: str, owner: str, session: str) -> W:
        """Rebuild a request that only the store remembers."""
        ...
