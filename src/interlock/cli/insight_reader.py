"""Commands that read use Insight, like the dashboard, so that both show the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from interlock.cli.store_url import StoreUrl, opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock.insight import Insight, Listing
    from interlock.ports.store import Capability

__all__ = ["ask", "whole_list"]

T = TypeVar("T")
_PAGE = 200


def ask(store_url: StoreUrl, need: Capability, question: Callable[[Insight], Coroutine[None, None, T]]) -> T:
    """Run a query of Insight on a store."""
    return asyncio.run(_ask(store_url, need, question))


async def whole_list(limit: int, page: Callable[[int, str | None], Awaitable[Listing[T]]]) -> list[T]:
    """Read up to ``limit`` rows, page by page."""
    rows: list[T] = []
    more: str | None = None
    while len(rows) < limit:
        part = await page(min(_PAGE, limit - len(rows)), more)
        rows += part.rows
        more = part.more
        if more is None:
            break
    return rows[:limit]


async def _ask(store_url: StoreUrl, need: Capability, question: Callable[[Insight], Coroutine[None, None, T]]) -> T:
    from interlock.insight import Insight

    async with opened(store_url, need) as store:
        return await question(Insight(store))
