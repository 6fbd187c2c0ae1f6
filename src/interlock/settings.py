"""The figures that can be turned, with the values that hold when nobody turns them.

Settings are checked when they are made: a combination that cannot work is refused before anything opens.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal

from interlock.errors import InvalidArgumentError

__all__ = ["Settings"]

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_LEAST_CONNECTIONS, _MOST_CONNECTIONS = 4, 1000
_VERSION = re.compile(r"[\x20-\x7e]{0,100}")
_PREFIX = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


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
    """How long an operation, and opening, keep trying to reach the store before they raise StoreUnavailableError."""

    keep_history_seconds: float = 7 * 24 * 3600.0
    """How long finished jobs are kept to be looked at."""

    keep_events_seconds: float = 72 * 3600.0
    """How long events are kept, and so how late a repeated delivery is still known. Those with unfinished jobs stay."""

    version: str = ""
    """What this version of the program is called, such as a release or a commit. A job that one version cannot read is
    tried by the others."""

    stuck_work: Literal["exit", "report"] = "exit"
    """What happens to work that ignores its cancellation past the end of the process's session:
    the process exits hard, or the overrun is only logged and counted."""

    connections: int = 8
    """PostgreSQL only: the most connections that this process opens to the store, all told. At least 4: one for the
    heartbeat, one that listens, one for operations, and one for fenced transactions and the like."""

    listen_url: str | None = field(default=None, repr=False)
    """PostgreSQL only: a direct address for messages, where the main one goes through a pooler."""

    metrics_prefix: str = "interlock"
    """What the names of the Prometheus metrics begin with."""

    def __post_init__(self) -> None:
        if not _matches(_NAMESPACE, self.namespace):
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
            object.__setattr__(self, name, _seconds(name, getattr(self, name), least))
        if not _matches(_PREFIX, self.metrics_prefix):
            raise InvalidArgumentError(
                f"metrics_prefix {self.metrics_prefix!r} is not acceptable.",
                remedy="Use letters, digits and underscores, not beginning with a digit.",
            )
        if not _matches(_VERSION, self.version):
            raise InvalidArgumentError(
                f"Invalid version {self.version!r}: use up to 100 printable ASCII characters.",
                remedy="Use a release or commit.",
            )
        if self.stuck_work not in ("exit", "report"):
            raise InvalidArgumentError(f"stuck_work is {self.stuck_work!r}.", remedy="Use 'exit' or 'report'.")
        if type(self.connections) is not int or not _LEAST_CONNECTIONS <= self.connections <= _MOST_CONNECTIONS:
            raise InvalidArgumentError(
                f"connections is {self.connections!r}.",
                remedy=f"Use a whole number from {_LEAST_CONNECTIONS} to {_MOST_CONNECTIONS}.",
            )
        if not isinstance(self.listen_url, (str, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"listen_url is a {type(self.listen_url).__name__}.", remedy="Use a URL.")

    @classmethod
    def of(cls, settings: Settings | None, changes: dict[str, Any]) -> Settings:
        """Settings from whichever of the two a caller passed."""
        if settings is None:
            _check_known(changes)
            return cls(**changes)
        if not isinstance(settings, cls):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidArgumentError(
                f"settings is a {type(settings).__name__}.",
                remedy="Pass Settings(…), or single settings: session_seconds=….",
            )
        if changes:
            raise InvalidArgumentError(
                "Pass either settings= or single settings, not both.", remedy="Use dataclasses.replace(settings, …)."
            )
        return settings

    @property
    def session_margin(self) -> float:
        """How long before its session's end work is cancelled: the time it has to stop."""
        return self.session_seconds / 5


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _seconds(name: str, value: object, least: float) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        not isinstance(seconds, (int, float))
        or isinstance(seconds, bool)
        or not math.isfinite(seconds)
        or seconds < least
    ):
        raise InvalidArgumentError(f"{name} is {value!r}.", remedy=f"Use at least {least} seconds.")
    return seconds


def _check_known(changes: dict[str, Any]) -> None:
    known = [field.name for field in fields(Settings)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"There is no setting called {', '.join(unknown)}.", remedy=f"Known are: {', '.join(known)}."
        )
