"""Operations from the command line: the store opened, and the journal that keeps their entries.

:func:`apply` is what every command does with "all that match": it counts, asks, performs the operation on what was
counted, and reports how many were changed and how many no longer matched.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from interlock.cli.confirmation import confirm
from interlock.cli.output import print_json, say, shown
from interlock.cli.store_url import StoreUrl, opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from interlock.operations import BulkResult, Operations
    from interlock.ports.journal import Action
    from interlock.ports.store import Capability
    from interlock.selections import Filter

__all__ = [
    "All",
    "Bulk",
    "JournalUrl",
    "OptionalReason",
    "Prefix",
    "apply",
    "apply_to_store",
    "check_choice",
    "operate",
    "operations",
]

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
All = Annotated[bool, typer.Option("--all", help="Everything that matches the filters; without a filter, everything.")]
Prefix = Annotated[str, typer.Option(help="Everything whose name starts with this.")]
_MAX_TOLD = 10


class Bulk(NamedTuple):
    """An operation on everything that matches a filter, and how a command talks about it."""

    action: Action
    wanted: Filter
    act: str
    """For errors: "A hold"."""
    noun: str
    """In the plural: "lanes"."""
    question: str
    done: str
    """The past participle: "Held"."""


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


def check_choice(subject: str, chosen: object, filters: Mapping[str, object], *, everything: bool) -> bool:
    """Return whether the command applies to everything that matches. Raises unless it is either that or a subject."""
    filtered = everything or any(filters.values())
    if filtered is not bool(chosen):
        return filtered
    options = ", ".join(f"--{name}" for name in filters)
    raise typer.BadParameter(f"Pass {subject}, or a filter ({options}), or --all.")


def apply(
    bulk: Bulk,
    find: Callable[[], Sequence[Any]],
    perform: Callable[[Sequence[Any]], BulkResult[Any]],
    *,
    by: str,
    reason: str,
    yes: bool,
    json: bool,
) -> None:
    """Count what matches, ask, perform the operation on it, and report."""
    refs = find()
    if not refs:
        say(f"No {bulk.noun} match.")
        raise typer.Exit(1)
    if not yes:
        confirm(bulk.act, bulk.question, lambda: f"{len(refs):,} {bulk.noun} match, such as {_some(refs)}.")
    result = perform(refs)
    if json:
        print_json({"by": by, "reason": reason, "changed": result.changed, "unchanged": result.unchanged})
    else:
        typer.echo(f"{bulk.done} {len(result.changed):,} of {result.matched:,} {bulk.noun}.")
        if result.unchanged:
            say(f"{len(result.unchanged):,} no longer matched and were left alone: {_some(result.unchanged)}.")
    if not result.changed:
        raise typer.Exit(1)


def apply_to_store(
    store_url: StoreUrl,
    need: Capability,
    bulk: Bulk,
    *,
    by: str,
    reason: str,
    yes: bool,
    json: bool,
    journal_url: str | None = None,
) -> None:
    """Apply an operation that needs no app to everything in a store that matches."""
    action, wanted = bulk.action, bulk.wanted

    def find() -> Sequence[Any]:
        return operate(store_url, need, lambda operations: operations.matching(wanted, action))

    def perform(refs: Sequence[Any]) -> BulkResult[Any]:
        return operate(
            store_url,
            need,
            lambda operations: operations.apply(action, wanted, by=by, reason=reason, refs=refs),
            journal_url,
        )

    apply(bulk, find, perform, by=by, reason=reason, yes=yes, json=json)


def _some(refs: Sequence[Any]) -> str:
    told = ", ".join(str(ref) if isinstance(ref, int) else repr(ref) for ref in refs[:_MAX_TOLD])
    return shown(told if len(refs) <= _MAX_TOLD else f"{told}, …")
