"""Merging: what a stage changed, applied to a record that others have changed meanwhile. Pure functions.

A value that only one side changed is taken from that side; objects are merged value by value. Where both sides changed
the same value, the other writer's stays: the stage computed its own from what it had read before. A status goes by the
machine, so that a correction during the last stage does not keep the record from being completed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from interlock.records.fields import Content, same_json

if TYPE_CHECKING:
    from interlock.records.machine import Machine

__all__ = ["allowed_status", "merged_content"]

_NOTHING = object()


def merged_content(
    before: Content, after: Content, current: Content, machine: Machine | None
) -> tuple[Content, list[str]]:
    """Apply the step from ``before`` to ``after`` to the current content.

    Returns the result, and the paths where the other writer's value stayed.
    """
    kept: list[str] = []
    data = _merged(before.data, after.data, current.data, "", kept)
    status = current.status
    if after.status not in (before.status, current.status):
        if current.status == before.status or machine is None or machine.allows(current.status, after.status):
            status = after.status
        else:
            kept.append("status")
    history = current.history
    known = {one.id for one in (*before.history.last, *history.last)}
    for one in after.history.last:
        if one.id not in known:
            history = history.having(one)
    return Content(status, data, history), kept


def allowed_status(machine: Machine | None, status: str, requested: str) -> str:
    """The status that a stage gives a record.

    A record that was corrected keeps its status if the requested one cannot follow it: the stages before the one that
    completes it run as usual. Any other status is left to the machine's own check.
    """
    if machine is None or machine.corrected != status or machine.allows(status, requested):
        return requested
    return status


def _merged(before: dict[str, Any], after: dict[str, Any], current: dict[str, Any], path: str, kept: list[str]) -> Any:
    result: dict[str, Any] = {}
    for name in dict.fromkeys([*current, *after]):
        old, own, other = (side.get(name, _NOTHING) for side in (before, after, current))
        place = f"{path}.{name}" if path else name
        if same_json(own, old) or same_json(own, other):
            value = other
        elif same_json(other, old):
            value = own
        elif isinstance(own, dict) and isinstance(other, dict):
            inner = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
            value = _merged(inner, cast("dict[str, Any]", own), cast("dict[str, Any]", other), place, kept)
        else:
            value = other
            kept.append(place)
        if value is not _NOTHING:
            result[name] = value
    return result
