"""What jobs wait for under limits, with the reservations that count with them and the figures that people have set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.limits import override_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.job_views import JobSituation
    from interlock.ports.limits import LimitOverride, Use
    from interlock.ports.store import Store

__all__ = ["with_reservations"]

_MAX_KEYS = 20
"""How many keys are read for a list of jobs; the reservations of others are left out."""


async def with_reservations(store: Store, situations: Sequence[JobSituation]) -> list[JobSituation]:
    """Add to the situations of jobs that wait for a limit how many reservations hold it, and the figure in force."""
    keys = {situation.waits_for for situation in situations if situation.waits_for}
    if not keys:
        return list(situations)
    overrides = {override.name: override for override in await store.limits.overrides()}
    reserved: dict[str, int] = {}
    for key in sorted(keys)[:_MAX_KEYS]:
        reserved[key] = sum(len(view.started) for view in await store.limits.list(key, limit=1))
    return [
        situation
        if not situation.waits_for
        else situation._replace(
            job=situation.job._replace(uses=tuple(_in_force(use, overrides) for use in situation.job.uses)),
            reserved=reserved.get(situation.waits_for, 0),
        )
        for situation in situations
    ]


def _in_force(use: Use, overrides: dict[str, LimitOverride]) -> Use:
    override = override_of(overrides, use.key)
    return use if override is None else use._replace(max_count=override.max_count, per=override.per)
