"""The pipeline: bridges that an intent passes through, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.core.enums import AuditEventType, BridgeTypeEnum, ExecutionMode
from bridge.core.errors import BridgeExecutionError, bridge_errors
from bridge.data.commits import stage_of_pipeline
from interlock.errors import PipelineError
from interlock.pipelines import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from bridge.audit.audit_logger import AuditLogger
    from bridge.core.bridges.base_bridge import BaseBridge
    from bridge.core.models.intent_model import IntentModel
    from bridge.data.postgres_bridge import PostgresDataBridge

__all__ = ["BridgeSet"]


class BridgeSet:
    """Bridges as one pipeline of Interlock's.

    A run is a job in the intent's lane: two runs of one intent never overlap, and the second finds the first one's
    result. Each bridge's change, checkpoint and journal entry are one transaction; no lock is held while a bridge
    works. If the process dies, any worker of the program continues at the next bridge.
    """

    def __init__(
        self,
        bridges: Sequence[BaseBridge],
        data_bridge: PostgresDataBridge | None = None,
        audit_logger: AuditLogger | None = None,
        *,
        name: str = "",
    ) -> None:
        from bridge.factory import current_bridge

        self.bridges = list(bridges)
        self.data_bridge = data_bridge or current_bridge().data_bridge
        self.audit_logger = audit_logger or current_bridge().audit_logger
        self.pipeline = self.data_bridge.app.pipeline(
            name or "-".join(one.name for one in self.bridges),
            self.data_bridge.intents,
            stages=[
                Stage(self._stage(one), name=one.name, required=one.type == BridgeTypeEnum.INPUT)
                for one in self.bridges
            ],
            mode=ExecutionMode.FAILFAST.value,
        )

    async def execute_with_lock(
        self, intent_id: UUID, mode: ExecutionMode = ExecutionMode.FAILFAST, *, timeout: float | None = None
    ) -> IntentModel:
        """Run the pipeline on an intent, in this process, and return the intent as it is stored.

        If another run of the same intent is under way, waits for it for up to ``timeout`` seconds (``LOCK_WAITS`` or
        ``DEADLOCK_TIMEOUT``) and returns its result, or raises ``LockTimeoutError``. Raises ``BridgeExecutionError``
        if a bridge fails and the mode says so.
        """
        wait = self.data_bridge.config.wait("pipeline_execute") if timeout is None else timeout
        try:
            with bridge_errors():
                run = await self.pipeline.run(str(intent_id), wait=wait, mode=ExecutionMode(mode).value)
        except PipelineError as error:
            cause = error.__cause__
            if isinstance(cause, BridgeExecutionError):
                cause.bridge_type = cause.bridge_type or error.stage
                raise cause from None  # the bridge's own error, which is the cause of the pipeline's
            raise BridgeExecutionError(error.message, bridge_type=error.stage) from error
        return self.data_bridge.with_history(run.record)

    async def enqueue(self, intent_id: UUID, mode: ExecutionMode = ExecutionMode.FAILFAST) -> int:
        """Give the run to the workers, and return its ID. It is durable when this returns."""
        handle = await self.pipeline.enqueue(str(intent_id), mode=ExecutionMode(mode).value)
        return handle.id

    def _stage(self, bridge: BaseBridge) -> Any:
        async def stage(intent: IntentModel, run: Any) -> IntentModel | None:
            self.data_bridge.with_history(intent)
            async with stage_of_pipeline():
                await self.audit_logger.log(
                    event=AuditEventType.BRIDGE_STARTED, intent_id=intent.id, bridge_type=bridge.name
                )
                try:
                    done = await bridge.execute(intent)
                except BridgeExecutionError as error:
                    await self._handle_bridge_error(intent, bridge, error, ExecutionMode(run.mode))
                    raise
                if pending := done.take_pending():
                    for name, value in done.own_values().items():
                        setattr(intent, name, value)
                    await self.data_bridge.store_corrections(intent.id, pending)
                    done = intent  # corrections inside a stage are made on the object that the stage got
                await self.audit_logger.log(
                    event=AuditEventType.BRIDGE_COMPLETED, intent_id=intent.id, bridge_type=bridge.name
                )
                return done

        return stage

    async def _handle_bridge_error(
        self, intent: IntentModel, bridge: BaseBridge, error: BridgeExecutionError, mode: ExecutionMode
    ) -> None:
        """Record that a bridge failed. What follows from it is the mode's business."""
        error.bridge_type = error.bridge_type or bridge.name
        await self.audit_logger.log(
            event=AuditEventType.BRIDGE_FAILED,
            intent_id=intent.id,
            bridge_type=bridge.name,
            payload={"error": str(error), "mode": mode.value},
        )
