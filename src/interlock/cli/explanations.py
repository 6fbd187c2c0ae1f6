"""Explanations on the command line: the same for ``interlock explain job 7`` and ``interlock jobs explain 7``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from interlock.cli.insight_reader import ask
from interlock.cli.output import print_json, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.cli.store_url import StoreUrl
    from interlock.insight import Kind

__all__ = ["explain_subject"]


def explain_subject(
    store_url: StoreUrl,
    kind: Kind,
    ref: str | int,
    json: bool,
    *,
    missing: Callable[[], Mapping[str, Any]] | None = None,
) -> None:
    """Print why something is as it is, and what to do. ``missing`` describes a subject that does not exist."""
    from interlock.arguments import checked_key
    from interlock.errors import NotFoundError
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    needs = {
        Kind.LOCK: Capability.LOCKS,
        Kind.CLAIM: Capability.CLAIMS,
        Kind.LIMIT: Capability.LIMITS,
        Kind.EVENT: Capability.EVENTS,
        Kind.RECORD: Capability.RECORDS,
        Kind.JOURNAL: Capability.JOURNAL,
    }
    if isinstance(ref, str) and kind is not Kind.JOURNAL:
        checked_key(ref)  # before anything is opened
    data: Mapping[str, Any]
    try:
        data = ask(store_url, needs.get(kind, Capability.JOBS), lambda insight: insight.explain(kind, ref)).data
    except NotFoundError:
        if missing is None:
            raise
        data = missing()
    if json:
        print_json(data)
        return
    for line in data["explain"]:
        typer.echo(shown(line))
