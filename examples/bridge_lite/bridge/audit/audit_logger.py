"""Audit loggers: one in the store, one in a local file.

The store's is Interlock's journal. A change of an intent has its entry in the same transaction, so its event is there
exactly if the change is, and :class:`PostgresAuditLogger` does not write it a second time. The local file gets an event
after its change is committed: a crash in between loses the line, never the entry in the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from pydantic import BaseModel

from bridge.core.enums import AuditEventType
from bridge.data.commits import after_commit, in_change, in_stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bridge.core.enums import BridgeTypeEnum
    from bridge.data.postgres_bridge import PostgresDataBridge
    from interlock.ports.journal import JournalEntry

__all__ = ["AuditEvent", "AuditLogger", "LocalAuditLogger", "PostgresAuditLogger"]

_STAGES = {
    "record.stage_start": AuditEventType.BRIDGE_STARTED,
    "record.stage_complete": AuditEventType.BRIDGE_COMPLETED,
    "record.stage_fail": AuditEventType.BRIDGE_FAILED,
}


_CHANGES = (AuditEventType.STATUS_CHANGED, AuditEventType.REEVALUATED)
"""Events that are changes of the intent, whose entry is written with them."""


class AuditEvent(BaseModel):
    """One event of the audit trail."""

    event: AuditEventType
    intent_id: UUID
    actor: str = ""
    bridge_type: str = ""
    payload: dict[str, Any] = {}
    at: datetime


class AuditLogger(Protocol):
    """Records what happens to intents."""

    async def log(
        self,
        event: AuditEventType,
        intent_id: UUID,
        actor: str = "",
        bridge_type: BridgeTypeEnum | str = "",
        payload: dict[str, Any] | None = None,
    ) -> None:
        """Record an event. Inside a change it is recorded if the change is committed."""
        ...

    async def events(self, intent_id: UUID) -> Sequence[AuditEvent]:
        """List the events of an intent, the oldest first."""
        ...


class PostgresAuditLogger:
    """The audit trail in the store: Interlock's journal, on PostgreSQL or SQLite."""

    def __init__(self, data_bridge: PostgresDataBridge) -> None:
        self._app = data_bridge.app
        self._intents = data_bridge.intents

    async def log(
        self,
        event: AuditEventType,
        intent_id: UUID,
        actor: str = "",
        bridge_type: BridgeTypeEnum | str = "",
        payload: dict[str, Any] | None = None,
    ) -> None:
        """Record an event, unless Interlock journals it: changes of a record, and the bridges of a pipeline."""
        if in_change() if event in _CHANGES else in_stage():
            return

        async def add() -> None:
            after = {"bridge_type": str(bridge_type), "payload": payload or {}}
            await self._app.journal.add(f"intent.{event.value}", intent_id, by=actor or "bridge", after=after)

        await after_commit(add)

    async def events(self, intent_id: UUID) -> Sequence[AuditEvent]:
        """List the events of an intent, the oldest first, at most 1,000."""
        own = await self._app.journal.list(kind="intent", key=str(intent_id), limit=1000)
        found = [
            AuditEvent(
                event=AuditEventType(entry.action.partition(".")[2]),
                intent_id=intent_id,
                actor=entry.actor,
                at=entry.at,
                **entry.after,
            )
            for entry in reversed(own)
        ]
        for entry in reversed(await self._intents.history(str(intent_id), limit=1000)):
            found += _events(intent_id, entry)
        return sorted(found, key=lambda event: event.at)


def _events(intent_id: UUID, entry: JournalEntry) -> list[AuditEvent]:
    """The events that an entry of the intent's record stands for."""
    before: dict[str, Any] = json.loads(entry.before) if entry.before else {}
    after: dict[str, Any] = json.loads(entry.after) if entry.after else {}
    common: dict[str, Any] = {
        "intent_id": intent_id,
        "actor": entry.actor,
        "at": datetime.fromtimestamp(entry.at, UTC),
    }
    if entry.action in _STAGES:
        payload = {"run": after["_run"]} | ({"error": after["_error"]} if "_error" in after else {})
        return [AuditEvent(event=_STAGES[entry.action], bridge_type=after["_stage"], payload=payload, **common)]
    found: list[AuditEvent] = []
    corrections: list[dict[str, Any]] = after.get("_corrections", [])
    for notes in [after["_correction"]] if "_correction" in after else corrections:
        payload = {"correction_id": notes["correction_id"], "retry_count": after.get("_retries", 0)}
        if after.get("_starvation"):
            payload["starvation"] = True
        by_source = {**common, "actor": notes["source"]}
        found.append(AuditEvent(event=AuditEventType.REEVALUATED, payload=payload, **by_source))
    if "status" in before and "status" in after and before["status"] != after["status"]:
        payload = {"old_status": before["status"], "new_status": after["status"]}
        found.append(AuditEvent(event=AuditEventType.STATUS_CHANGED, payload=payload, **common))
    return found


class LocalAuditLogger:
    """The audit trail in a local file: one JSON object a line, written after its change is committed.

    Processes may share the file: each line is one write to its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def log(
        self,
        event: AuditEventType,
        intent_id: UUID,
        actor: str = "",
        bridge_type: BridgeTypeEnum | str = "",
        payload: dict[str, Any] | None = None,
    ) -> None:
        """Record an event, when the change that it belongs to is committed."""

        async def write() -> None:
            made = AuditEvent(
                event=event,
                intent_id=intent_id,
                actor=actor,
                bridge_type=str(bridge_type),
                payload=payload or {},
                at=datetime.now(UTC),
            )
            await asyncio.to_thread(self._append, made.model_dump_json() + "\n")

        await after_commit(write)

    async def events(self, intent_id: UUID) -> Sequence[AuditEvent]:
        """List the events of an intent in this file."""
        text = await asyncio.to_thread(self._read)
        found = (AuditEvent.model_validate_json(line) for line in text.splitlines())
        return [event for event in found if event.intent_id == intent_id]

    def _append(self, line: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def _read(self) -> str:
        return self._path.read_text("utf-8") if self._path.exists() else ""
