"""The data bridge: intents as records of Interlock's, on PostgreSQL or SQLite."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.corrections import CORRECTABLE, KIND
from bridge.core.enums import IntentStatusEnum, LockStrategy, PhilosophicalActor
from bridge.core.errors import IntentNotFoundError, bridge_errors
from bridge.core.models.intent_model import CorrectionEntry, IntentModel
from bridge.core.transitions import MACHINE
from bridge.data.commits import change_of_intent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from uuid import UUID

    from bridge.core.models.intent_model import PendingCorrection
    from interlock import App
    from interlock.records import CorrectionResult, Records

__all__ = ["PostgresDataBridge", "declare_intents"]


def declare_intents(app: App, config: ConcurrencyConfig) -> Records[IntentModel]:
    """Declare the intents of an app: their machine, who may correct what, and the strategy of each operation."""
    status = config.strategy("update_status").value
    return app.records(
        IntentModel,
        name=KIND,
        machine=MACHINE,
        strategies={
            "update": (status, config.wait("update_status")),
            "transition": (status, config.wait("update_status")),
            "update_many": (status, config.wait("update_status")),
            "correct": (config.strategy("re_evaluate").value, config.wait("re_evaluate")),
            "compare_and_set": (config.strategy("correction_history").value, config.wait("correction_history")),
        },
        wait=config.DEADLOCK_TIMEOUT,
        correctable=CORRECTABLE,
        sources=[PhilosophicalActor.YUNO.value, PhilosophicalActor.KANA.value],
    )


class PostgresDataBridge:
    """Reads and writes intents. Every write is checked by the machine and journaled in its transaction.

    The name says where it usually runs; SQLite works alike.
    """

    def __init__(self, app: App, config: ConcurrencyConfig | None = None) -> None:
        self.app = app
        self.config = config or ConcurrencyConfig()
        self.intents = declare_intents(app, self.config)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get_intent(self, intent_id: UUID) -> IntentModel | None:
        """Return an intent, or None if there is none."""
        try:
            with bridge_errors():
                return self.with_history(await self.intents.get(str(intent_id)))
        except IntentNotFoundError:
            return None

    async def list_intents(
        self, status: IntentStatusEnum | None = None, limit: int = 100, after: UUID | None = None
    ) -> Sequence[IntentModel]:
        """List intents by ID, optionally those with one status, from behind an ID."""
        with bridge_errors():
            found = await self.intents.list(status=status, limit=limit, after="" if after is None else str(after))
        return [self.with_history(intent) for intent in found]

    def with_history(self, intent: IntentModel) -> IntentModel:
        """Give an intent that was read its history of corrections."""
        intent.correction_history = [_imported(one) for one in intent.imported_corrections] + [
            CorrectionEntry(
                correction_id=one.id,
                source=one.source,
                reason=one.reason,
                applied_at=datetime.fromtimestamp(one.at, UTC),
            )
            for one in self.intents.corrections(intent).last
        ]
        return intent

    # -- writing ---------------------------------------------------------------------------------------------------

    async def create_intent(self, intent: IntentModel) -> IntentModel:
        """Store a new intent."""
        with bridge_errors():
            return await self.intents.create(intent, by=intent.technical_actor)

    @asynccontextmanager
    async def lock_intent_for_update(
        self, intent_id: UUID, timeout: float | None = None, *, actor: str = ""
    ) -> AsyncGenerator[IntentModel]:
        """Lock an intent, and store it at the end of the block; an error in the block stores nothing.

        Waits for up to ``timeout`` seconds (``DEADLOCK_TIMEOUT``) and then raises ``LockTimeoutError``. Raises
        ``IntentNotFoundError`` if the intent does not exist. No transaction is open while the block runs. Nested
        blocks of one task are stored together.
        """
        wait = self.config.DEADLOCK_TIMEOUT if timeout is None else timeout
        with bridge_errors():
            async with change_of_intent(), self.intents.edit(str(intent_id), wait=wait, by=actor) as intent:
                self.with_history(intent)
                yield intent
                await self.store_corrections(intent.id, intent.take_pending())

    async def update_intent(self, intent_id: UUID, change: Any, *, actor: str = "") -> IntentModel:
        """Change an intent with a function, by the strategy of ``update_status``. It may be called more than once."""
        with bridge_errors():
            return self.with_history(await self.intents.update(str(intent_id), change, by=actor))

    async def update_intent_if_version_matches(
        self, intent_id: UUID, intent: IntentModel, expected_version: int
    ) -> bool:
        """Replace an intent if it still has this version; return whether it was replaced.

        Corrections that were applied to the model are stored with their entries in the history.
        """
        pending = intent.take_pending()
        with bridge_errors():
            if not pending:
                return await self.intents.compare_and_set(
                    str(intent_id), intent, expected_version, by=intent.technical_actor
                )
            wait = self.config.wait("correction_history")
            async with self.intents.edit(str(intent_id), wait=wait, by=intent.technical_actor) as current:
                if current.version != expected_version:
                    return False
                await self.intents.update(str(intent_id), intent.own_values())
                await self.store_corrections(intent_id, pending)
            return True

    async def update_many(self, intent_ids: Iterable[UUID], updates: Mapping[str, Any]) -> list[IntentModel]:
        """Set fields of several intents in one transaction, all or nothing. Their order does not matter."""
        changes = dict(updates)
        if "status" in changes:
            changes["status"] = IntentStatusEnum(changes["status"])
        with bridge_errors():
            changed = await self.intents.update_many([str(one) for one in intent_ids], changes)
        return [self.with_history(intent) for intent in changed]

    async def correct_intent(
        self,
        intent_id: UUID,
        diff: Mapping[str, Any],
        *,
        source: PhilosophicalActor,
        reason: str,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> CorrectionResult:
        """Apply a correction once."""
        with bridge_errors():
            return await self.intents.correct(
                str(intent_id), dict(diff), source=source.value, reason=reason, key=key, metadata=metadata
            )

    async def store_corrections(self, intent_id: UUID, pending: Sequence[PendingCorrection]) -> None:
        """Make corrections that were applied to a model in memory, while this task edits the intent."""
        for one in pending:
            await self.intents.correct(
                str(intent_id), one.diff, source=one.source.value, reason=one.reason, metadata=one.metadata
            )

    def is_pessimistic(self, operation: str) -> bool:
        """Return whether an operation locks first."""
        return self.config.strategy(operation) is LockStrategy.PESSIMISTIC


def _imported(entry: Mapping[str, Any]) -> CorrectionEntry:
    """An entry of the history of an older table, whose names may be missing."""
    applied_at = entry.get("applied_at")
    return CorrectionEntry(
        correction_id=str(entry.get("correction_id", "")),
        source=str(entry.get("source", "")),
        reason=str(entry.get("reason", "")),
        applied_at=datetime.fromtimestamp(0, UTC) if applied_at is None else applied_at,
    )
