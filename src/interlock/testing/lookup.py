"""Lookup of things that may not exist, for tests that wait for something to appear or to disappear."""

from __future__ import annotations

from typing import Protocol, TypeVar

from interlock.errors import NotFoundError

__all__ = ["get_or_none"]

V = TypeVar("V", covariant=True)


class _Gets(Protocol[V]):
    async def get(self, key: str, /) -> V: ...


async def get_or_none(concept: _Gets[V], key: str) -> V | None:
    """Return what ``concept.get(key)`` returns, such as the view of a lock; None if there is no such key."""
    try:
        return await concept.get(key)
    except NotFoundError:
        return None
