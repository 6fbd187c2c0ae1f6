"""The parts that the processes of the story share: the bridge with its slow stages, and the file of deliveries."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from typing import TYPE_CHECKING, Any

from bridge.factory import Bridge, create_bridge

if TYPE_CHECKING:
    from pathlib import Path

    from bridge.core.bridge_set import BridgeSet
    from bridge.core.models.intent_model import IntentModel

__all__ = ["SESSION_SECONDS", "Deliveries", "story_bridge"]

SESSION_SECONDS = 3.0
"""How long a killed worker's work waits for the next worker. The default of 15 s would make a long story."""
_STAGE_SECONDS = (0.02, 0.25)


class Deliveries:
    """The file in which every delivery is noted, by any process: a delivery may be repeated after a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def publish(self, intent: IntentModel) -> None:
        """Deliver an intent."""
        await asyncio.sleep(random.uniform(*_STAGE_SECONDS))  # noqa: S311
        line = json.dumps({"intent": str(intent.id), "at": time.time(), "pid": os.getpid()}) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> list[dict[str, Any]]:
        """All deliveries, the oldest first."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]


async def _review(intent: IntentModel) -> dict[str, Any] | None:
    """A reviewer inside the pipeline: slow, and with an objection to every fourth intent."""
    await asyncio.sleep(random.uniform(*_STAGE_SECONDS))  # noqa: S311
    return {"payload.reviewed": True} if intent.payload.get("number", 0) % 4 == 0 else None


def story_bridge(url: str, namespace: str, deliveries: Path) -> tuple[Bridge, BridgeSet]:
    """The bridge and its pipeline, the same in every process."""
    bridge = create_bridge(url, namespace=namespace, session_ttl=SESSION_SECONDS)
    return bridge, bridge.bridge_set(reviewer=_review, publish=Deliveries(deliveries).publish)
