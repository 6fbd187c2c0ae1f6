"""Declarations of record kinds: what a program says about a kind, left in the store for pages and commands.

The declaration decides nothing: every write is checked by the program that makes it. So a declaration that cannot be
written is logged, and the program goes on. docs/decisions/0061 has the rules for several versions of a program.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import InterlockError
from interlock.records.machine import Machine
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from interlock.record_strategies import Operation, Plan
    from interlock.store_client import StoreClient

__all__ = ["Declaration", "declaration_text", "leave_declarations", "read_declaration", "warn_about_unused"]

_log = logging.getLogger("interlock.records")
_MAX_TEXT = 64 * 1024


class Declaration(NamedTuple):
    """A kind as a program declared it."""

    model: str
    machine: Machine | None
    strategies: Mapping[str, tuple[str, float | None]]
    """For each operation its strategy and its wait in seconds; None means without a limit."""


def declaration_text(model: str, machine: Machine | None, plans: Mapping[Operation, Plan]) -> str:
    """Write a declaration as JSON, always in the same way."""
    data = {
        "model": model,
        "machine": None if machine is None else machine.to_data(),
        "strategies": {str(operation): [str(plan.strategy), plan.wait] for operation, plan in sorted(plans.items())},
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def read_declaration(text: str) -> Declaration | None:
    """Read a declaration; None if another version of Interlock wrote it in a way that this one cannot read."""
    try:
        data: dict[str, Any] = json.loads(text)
        machine = None if data["machine"] is None else Machine.from_data(data["machine"])
        strategies = {str(name): (str(strategy), wait) for name, (strategy, wait) in data["strategies"].items()}
        return Declaration(str(data["model"]), machine, strategies)
    except (ValueError, KeyError, TypeError, AttributeError, InterlockError):
        return None


async def leave_declarations(client: StoreClient, texts: Iterable[tuple[str, str]]) -> None:
    """Leave declarations, each a kind and its text, in the store."""
    for kind, text in texts:
        try:
            if len(text) > _MAX_TEXT:
                raise InterlockError(f"The declaration has {len(text):,} characters, and may have {_MAX_TEXT:,}.")
            await client.repeat(lambda: client.store.record_insight.declare(kind, text))  # noqa: B023 - awaited here
        except InterlockError as error:
            emit(_log, logging.WARNING, "record_kind_not_declared", kind=kind, error=str(error))


def warn_about_unused(wanted: Iterable[str], declared: Iterable[str]) -> None:
    """Log kinds for which strategies are set and that the program does not have: their names may be misspelled."""
    unused = sorted(set(wanted) - set(declared))
    if unused:
        emit(_log, logging.WARNING, "record_strategies_unused", kinds=unused, declared=sorted(declared))
