"""Operations from the command line: the store opened, and the journal that keeps their entries."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from interlock.cli.store_url import StoreUrl, opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from interlock.operations import Operations
    from interlock.ports.store import Capability

__all__ = ["JournalUrl", "OptionalReason", "operate", "operations"]

T = TypeVar("T")
JournalUrl = Annotated[
    str | None,
    typer.Option(
        envvar="INTERLOCK_JOURNAL_URL",
        show_envvar=True,
        help="The store whose journal records the operation, if the store itself has none (Redis).",
    ),
]
OptionalReason = Annotated[str, typer.Option(help="Why; the journal keeps it.")]


def operate(
    store_url: StoreUrl, need: Capability, do: Callable[[Operations], Awaitable[T]], journal_url: str | None = None
) -> T:
    """Perform operations on a store."""

    async def run() -> T:
        async with operations(store_url, need, journal_url) as found:
            return await do(found)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def operations(
    store_url: StoreUrl, need: Capability, journal_url: str | None = None
) -> AsyncGenerator[Operations]:
    """Open a store for operations on it."""
    from interlock.operations import Operations
    from interlock.ports.store import Capability

    async with opened(store_url, need) as store:
        if journal_url is None or Capability.JOURNAL in store.capabilities:
            yield Operations(store)
            return
        async with opened(StoreUrl(journal_url, store_url.namespace), Capability.JOURNAL) as durable:
            yield Operations(store, durable.journal)
