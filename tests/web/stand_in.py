"""An app whose events and insight are what a test says, for what the web app does around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock import Settings
from interlock.telemetry.metrics import Together

if TYPE_CHECKING:
    from collections.abc import Mapping


class Receipt:
    def __init__(self, status: str, event: int | None = None, jobs: tuple[int, ...] = (), cause: str = "") -> None:
        self.status = status
        self.event = event
        self.jobs = jobs
        self.cause = cause


class Events:
    """Answers with what it was given: a receipt, or an error to raise."""

    def __init__(self, outcome: Any) -> None:
        self.sources = {"github": object()}
        self.outcome = outcome
        self.received: list[tuple[str, Mapping[str, str], bytes]] = []

    async def receive(self, source: str, headers: Mapping[str, str], body: bytes) -> Any:
        self.received.append((source, headers, body))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class Insight:
    def __init__(self) -> None:
        self.asked = 0

    async def pulse(self) -> dict[str, Any]:
        self.asked += 1
        return {"number": self.asked}


class StandIn:
    """Quacks like an App as far as the web app looks."""

    def __init__(self, outcome: Any = None) -> None:
        self.settings = Settings()
        self.events = Events(outcome or Receipt("accepted", 7, (8, 9)))
        self.insight = Insight()
        self.is_open = True
        self.metrics = Together()
