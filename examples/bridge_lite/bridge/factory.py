"""Puts the parts together: ``async with open_bridge("sqlite:///bridge.db") as bridge: …``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from bridge.api.reeval import ReEvalClient
from bridge.audit.audit_logger import LocalAuditLogger, PostgresAuditLogger
from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import FeedbackBridge, InputBridge, NormalizeBridge, OutputBridge
from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.errors import BridgeError
from bridge.data.postgres_bridge import PostgresDataBridge
from interlock import App

if TYPE_CHECKING:
    from pathlib import Path

    from bridge.audit.audit_logger import AuditLogger
    from bridge.core.bridges.feedback_bridge import Reviewer
    from bridge.core.bridges.output_bridge import Publish

__all__ = ["DEFAULT_URL", "Bridge", "create_bridge", "current_bridge", "open_bridge"]

DEFAULT_URL = "sqlite:///bridge.db"
_open: list[Bridge] = []


@dataclass
class Bridge:
    """The parts of one program. It is open inside ``async with bridge:``."""

    url: str = field(repr=False)  # it may have a password
    app: App
    config: ConcurrencyConfig
    data_bridge: PostgresDataBridge
    audit_logger: AuditLogger
    reeval_client: ReEvalClient

    def bridge_set(self, *, reviewer: Reviewer | None = None, publish: Publish | None = None) -> BridgeSet:
        """The usual pipeline: input, normalize, feedback, output. Declare it in every process that runs workers."""
        return BridgeSet(
            [InputBridge(), NormalizeBridge(), FeedbackBridge(reviewer, self.reeval_client), OutputBridge(publish)],
            self.data_bridge,
            self.audit_logger,
            name="intents",
        )

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        _open.append(self)
        return self

    async def __aexit__(self, *error: object) -> None:
        _open.remove(self)
        await self.app.__aexit__(None, None, None)


def create_bridge(
    url: str | None = None,
    *,
    config: ConcurrencyConfig | None = None,
    audit_log: Path | None = None,
    **settings: Any,
) -> Bridge:
    """Build the parts; nothing is opened yet.

    ``url`` names the store: the default is ``BRIDGE_URL`` of the environment, or SQLite in the current directory.
    ``config`` is that of the environment. With ``audit_log`` the audit logger writes to this file; the
    journal in the store is complete either way. ``settings`` are Interlock's.
    """
    url = url or os.environ.get("BRIDGE_URL") or DEFAULT_URL
    app = App(url, metrics_prefix="bridge", **settings)
    config = config or ConcurrencyConfig.from_environment()
    data_bridge = PostgresDataBridge(app, config)
    audit_logger: AuditLogger = PostgresAuditLogger(data_bridge)
    if audit_log is not None:
        audit_logger = LocalAuditLogger(audit_log)
    return Bridge(url, app, config, data_bridge, audit_logger, ReEvalClient(data_bridge, audit_logger))


def open_bridge(url: str | None = None, **options: Any) -> Bridge:
    """Return the parts, to be opened: ``async with open_bridge(url) as bridge: …``."""
    return create_bridge(url, **options)


def current_bridge() -> Bridge:
    """Return the bridge that was opened last in this process: the default of a ``BridgeSet``."""
    if not _open:
        raise BridgeError("No bridge is open. Use: async with open_bridge(url) as bridge: ….")
    return _open[-1]
