"""The audit of lanes: one job at a time, in the order of the forge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.cli.demo.audit_webhooks import WebhookAudit
    from interlock.cli.demo.findings import Findings
    from interlock.cli.demo.runs import Run

__all__ = ["LaneAudit"]

_MAX_LANES = 2000


@dataclass(slots=True)
class _Lane:
    furthest: int = 0
    at_work: Run | None = None


@dataclass(slots=True)
class LaneAudit:
    """All lanes; lanes that have not been used for long are forgotten."""

    findings: Findings
    webhooks: WebhookAudit
    _lanes: dict[str, _Lane] = field(default_factory=dict)

    def begun(self, run: Run) -> None:
        """A handler began."""
        delivery = self.webhooks[run.delivery]
        if delivery is None or not delivery.lane or run.handler not in ("triage", "answer"):
            return
        lane = self._lanes.pop(delivery.lane) if delivery.lane in self._lanes else _Lane()
        self._lanes[delivery.lane] = lane  # the newest is the last
        if len(self._lanes) > _MAX_LANES:
            del self._lanes[next(iter(self._lanes))]
        if lane.at_work is not None:
            other = lane.at_work
            how = f"{delivery.lane}: {run.who} began job {run.job} while {other.who} was running job {other.job}"
            self.findings.found("two jobs of a lane at once", how)
        if delivery.number < lane.furthest and not run.by_hand:
            how = f"{delivery.lane}: {delivery.number} began after {lane.furthest}"
            self.findings.found("webhooks out of order", how)
        lane.furthest = max(lane.furthest, delivery.number)
        lane.at_work = run

    def over(self, run: Run) -> None:
        """A handler ended."""
        delivery = self.webhooks[run.delivery]
        lane = self._lanes.get(delivery.lane) if delivery is not None else None
        if lane is not None and lane.at_work is run:
            lane.at_work = None
