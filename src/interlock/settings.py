"""The figures that can be turned, with the values that hold when nobody turns them.

Settings are checked when they are made: a combination that cannot work is refused before anything opens.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from interlock.errors import InvalidArgumentError

__all__ = ["Settings"]

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one App, or one primitive used alone, behaves."""

    namespace: str = "default"
    """Keeps several applications apart in one store."""

    session_seconds: float = 15.0
    """How long a process may be silent before everything it holds is free. Renewed three times as often."""

    recheck_seconds: float = 5.0
    """How often waiting work looks for itself, should a notification be lost."""

    store_wait: float = 10.0
    """How long an operation keeps trying to reach the store before it raises StoreUnavailableError."""

    keep_history_seconds: float = 7 * 24 * 3600.0
    """How long finished jobs are kept to be looked at."""

    keep_events_seconds: float = 72 * 3600.0
    """How long events are kept, and so how late a repeated delivery is still known. Those with unfinished jobs stay."""

    stuck_work: Literal["exit", "report"] = "exit"
    """What happens to work that ignores its cancellation past the end of the process's session:
    the process exits hard, or the overrun is only logged and counted."""

    listen_url: str | None = None
    """PostgreSQL only: a direct address for messages, where the main one goes through a pooler."""

    metrics_prefix: str = "interlock"
    """What the names of the Prometheus metrics begin with."""

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidArgumentError(
                f"namespace {self.namespace!r} is not acceptable.",
                remedy="Use 1 to 63 characters of a-z, 0-9, dot, dash and underscore.",
            )
        for name, least in (
            ("session_seconds", 1.0),
            ("recheck_seconds", 0.05),
            ("store_wait", 0.1),
            ("keep_history_seconds", 1.0),
            ("keep_events_seconds", 1.0),
        ):
            value = getattr(self, name)
            if not math.isfinite(value) or value < least:
                raise InvalidArgumentError(f"{name} is {value!r}.", remedy=f"Use at least {least} seconds.")
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", self.metrics_prefix):
            raise InvalidArgumentError(
                f"metrics_prefix {self.metrics_prefix!r} is not acceptable.",
                remedy="Use letters, digits and underscores, not beginning with a digit.",
            )
        if self.stuck_work not in ("exit", "report"):
            raise InvalidArgumentError(f"stuck_work is {self.stuck_work!r}.", remedy="Use 'exit' or 'report'.")

    @classmethod
    def of(cls, settings: Settings | None, changes: dict[str, Any]) -> Settings:
        """Settings from whichever of the two a caller passed."""
        if settings is None:
            return cls(**changes)
        if changes:
            raise InvalidArgumentError(
                "Pass either settings= or single settings, not both.", remedy="Use dataclasses.replace(settings, …)."
            )
        return settings

    @property
    def session_margin(self) -> float:
        """How long before its session's end work is cancelled: the time it has to stop."""
        return self.session_seconds / 5
