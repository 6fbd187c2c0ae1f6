"""The audit at the end of the story: what was promised, compared with what the store and the journal have."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bridge.core.enums import IntentStatusEnum
from bridge.core.transitions import MACHINE, is_valid_transition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.factory import Bridge

__all__ = ["Audit", "audit"]

_STAGES = ["input", "normalize", "feedback", "output"]


@dataclass
class Audit:
    """What was checked, and every violation."""

    intents: int = 0
    corrections: int = 0
    entries: int = 0
    queued: int = 0
    """Writes, in any process, that lost against another one and queued for the lock."""
    seconds: list[float] = field(default_factory=list[float])
    """How long each intent took from its creation to its last change."""
    repeated_deliveries: int = 0
    """Deliveries that a crash repeated: allowed, because a bridge runs at least once."""
    violations: list[str] = field(default_factory=list[str])

    def expect(self, holds: bool, what: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.violations.append(what)


async def audit(
    bridge: Bridge, accepted: Mapping[UUID, Mapping[str, Any]], deliveries: Sequence[Mapping[str, Any]]
) -> Audit:
    """Check every intent. ``accepted`` has, for each, the corrections that were answered with yes: ID and value."""
    found = Audit(intents=len(accepted), corrections=sum(map(len, accepted.values())))
    delivered = Counter(UUID(one["intent"]) for one in deliveries)
    found.repeated_deliveries = sum(count - 1 for count in delivered.values())
    for intent_id, corrections in accepted.items():
        intent = await bridge.data_bridge.get_intent(intent_id)
        if intent is None:
            found.violations.append(f"{intent_id} is lost")
            continue
        name = str(intent_id)
        found.expect(intent.status in MACHINE.final, f"{name} never ended: it is {intent.status.value}")
        if intent.status is IntentStatusEnum.COMPLETED:
            found.expect(delivered[intent_id] >= 1, f"{name} is completed and was never delivered")
        entries = list(reversed(await bridge.data_bridge.intents.history(name, limit=1000)))
        found.entries += len(entries)
        found.queued += sum("_starvation" in (entry.after or "") for entry in entries)
        if intent.created_at is not None and intent.updated_at is not None:
            found.seconds.append((intent.updated_at - intent.created_at).total_seconds())
        _check_versions(found, name, intent.version, [entry.to_version for entry in entries])
        _check_journal(found, name, intent.status, entries)
        applied = Counter(one.correction_id for one in intent.correction_history)
        for correction_id, (field_name, value) in corrections.items():
            count = applied[correction_id]
            found.expect(count == 1, f"{name} has correction {correction_id} {count} times")
            found.expect(intent.payload.get(field_name) == value, f"{name} lost the correction of {field_name}")
    report = await bridge.app.journal.verify()
    found.expect(report.ok, f"the journal was tampered with: {report.problems[:1]}")
    return found


def _check_versions(found: Audit, name: str, version: int, versions: list[int | None]) -> None:
    written = sorted({one for one in versions if one is not None})
    found.expect(written == list(range(version + 1)), f"{name} has versions without an entry in the journal")


def _check_journal(found: Audit, name: str, status: IntentStatusEnum, entries: Sequence[Any]) -> None:
    """The status follows the machine from entry to entry, and the stages ran once each, in order."""
    current = IntentStatusEnum.RECEIVED
    completed: list[str] = []
    for entry in entries:
        after: dict[str, Any] = json.loads(entry.after or "{}")
        if entry.action == "record.stage_complete":
            completed.append(after["_stage"])
        if "status" in after:
            new = IntentStatusEnum(after["status"])
            corrected = "_correction" in after or "_corrections" in after
            legal = is_valid_transition(current, new) or (corrected and current not in MACHINE.final)
            found.expect(legal, f"{name} went from {current.value} to {new.value}")
            current = new
    found.expect(current is status, f"{name} is {status.value}, and its journal says {current.value}")
    if status is IntentStatusEnum.COMPLETED:
        found.expect(completed == _STAGES, f"{name} completed its stages as {completed}")
