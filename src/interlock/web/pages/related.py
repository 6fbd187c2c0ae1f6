"""Links from an explanation to the jobs, lanes, limits and workers that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.explanation import Explanation

__all__ = ["Link", "related"]

_MAX = 8


class Link(NamedTuple):
    """One thing to go to."""

    kind: str
    """The section of the dashboard that it is in."""
    ref: str
    label: str


def related(explanation: Explanation) -> list[Link]:
    """Each thing once, without the one that is explained."""
    subject = (f"{explanation.subject.kind}s", str(explanation.subject.ref))
    found: dict[tuple[str, str], Link] = {}
    for link in _links(explanation.data):
        if (link.kind, link.ref) != subject:
            found.setdefault((link.kind, link.ref), link)
    return list(found.values())[:_MAX]


def _links(data: dict[str, Any]) -> Iterator[Link]:
    """In the order of what matters most: what is waited for, who has it, where it runs."""
    if data.get("waits_for"):
        yield Link("limits", str(data["waits_for"]), str(data["waits_for"]))
    for name in ("lane_head", "head", "superseded_by"):
        if data.get(name):
            yield _job(data[name])
    for holder in _list(data.get("holders")):
        yield _job(holder.get("job") if isinstance(holder, dict) else holder)
    holder = data.get("holder")
    if isinstance(holder, dict) and holder.get("job"):
        yield _job(holder["job"])
    if data.get("lane"):
        yield Link("lanes", str(data["lane"]), str(data["lane"]))
    worker = data.get("worker")
    if isinstance(worker, dict) and worker.get("session"):
        yield Link("workers", str(worker["session"]), f"{worker.get('program')}:{worker.get('pid')}")
    if isinstance(data.get("head_explained"), dict):
        yield from _links(data["head_explained"])


def _job(number: object) -> Link:
    return Link("jobs", str(number), f"job {number}")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
