"""Settings and their defaults.

Settings are checked when they are created, so that an invalid combination is refused before anything opens.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from interlock.errors import InvalidArgumentError
from interlock.log_levels import checked_level
from interlock.record_strategies import checked_overrides

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.arguments import Seconds
    from interlock.record_strategies import StrategyChoice

__all__ = ["Settings", "SettingsChanges"]

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_MIN_CONNECTIONS, _MAX_CONNECTIONS = 4, 1000
_MAX_SEAL_LIMIT = 10_000
_MAX_LOG_LINES = 1_000_000
_MIN_LOG_BYTES, _MAX_LOG_BYTES = 10_000, 1024 * 1024 * 1024
_VERSION = re.compile(r"[\x20-\x7e]{0,100}")
_PREFIX = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MIN_SECONDS = {
    "session_ttl": 1.0,
    "recheck_interval": 0.05,
    "store_wait": 0.1,
    "keep_history": 1.0,
    "keep_events": 1.0,
    "keep_journal": 1.0,
    "seal_interval": 0.1,
}


class SettingsChanges(TypedDict, total=False):
    """The settings that differ from their defaults, as :class:`Settings`, ``App`` and ``from_url`` accept them."""

    namespace: str
    session_ttl: Seconds
    recheck_interval: Seconds
    store_wait: Seconds
    keep_history: Seconds
    keep_events: Seconds
    keep_journal: Seconds
    seal_interval: Seconds
    seal_limit: int
    version: str
    stuck_work: Literal["exit", "report"]
    connections: int
    listen_url: str | None
    metrics_prefix: str
    record_strategies: str | Mapping[str, StrategyChoice]
    job_log_lines: int
    job_log_bytes: int
    capture_logs: str | int | None


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Settings:
    """The settings of one App, or of one concept that is used alone.

    Durations are a number of seconds or a ``timedelta``; they are kept in seconds.
    """

    namespace: str = "default"
    """Separates applications that share a store."""

    session_ttl: float = 15.0
    """How long a process may be silent before everything it holds is released. The heartbeat runs three times as
    often."""

    recheck_interval: float = 5.0
    """How often waiting work polls the store, in case a notification is lost."""

    store_wait: float = 10.0
    """How long an operation, and opening, keep trying to reach the store before they raise StoreUnavailableError."""

    keep_history: float = 7 * 24 * 3600.0
    """How long finished jobs are kept for inspection."""

    keep_events: float = 72 * 3600.0
    """How long events are kept, and therefore how late a repeated delivery is still recognized. An event with
    unfinished jobs is kept longer."""

    keep_journal: float = 365 * 24 * 3600.0
    """How long entries of the journal are kept. Whole sealed batches are removed; their seals stay."""

    seal_interval: float = 60.0
    """How often workers seal what was added to the journal. An entry that is not sealed can be changed unnoticed."""

    seal_limit: int = 1000
    """How many entries one batch of the journal has at most."""

    version: str = ""
    """The version of the program, such as a release or a commit. A job whose arguments one version cannot read is
    offered to the others."""

    stuck_work: Literal["exit", "report"] = "exit"
    """What happens when work ignores its cancellation past the end of the process's session: the process exits hard,
    or the overrun is only logged and counted."""

    connections: int = 8
    """PostgreSQL only: how many connections this process may open to the store in total. At least 4: one for the
    heartbeat, one that listens, one for operations, and one for fenced transactions and the like."""

    listen_url: str | None = field(default=None, repr=False)
    """PostgreSQL only: a direct address for notifications, where the main address goes through a pooler."""

    metrics_prefix: str = "interlock"
    """The prefix of the names of the Prometheus metrics."""

    record_strategies: str = ""
    """Strategies and waits of operations on records, in place of those that the program declares:
    ``"Intent.update=pessimistic:2, *.transition=optimistic"``, or a mapping. It is kept as text. The environment's
    ``INTERLOCK_RECORD_STRATEGIES`` has the same form and overrides it."""

    job_log_lines: int = 1000
    """How many lines of the log of one job are kept: the first ones and the latest. 0 keeps none."""

    job_log_bytes: int = 256 * 1024
    """How many bytes of the log of one job are kept."""

    capture_logs: int | None = None
    """The level from which the log records of handlers are kept with their jobs: a name such as "INFO", or a number.
    None keeps only what handlers write to ``current_job().log``. A job's own ``capture_logs`` comes first."""

    def __init__(self, **changes: Unpack[SettingsChanges]) -> None:
        known = {one.name: one.default for one in fields(Settings)}
        unknown = [name for name in changes if name not in known]
        if unknown:
            raise InvalidArgumentError(
                f"Unknown setting: {', '.join(unknown)}.", remedy=f"Valid settings: {', '.join(known)}."
            )
        for name, value in {**known, **changes}.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if not _matches(_NAMESPACE, self.namespace):
            raise InvalidArgumentError(
                f"Invalid namespace {self.namespace!r}.",
                remedy="Use 1 to 63 characters of a-z, 0-9, dot, dash and underscore.",
            )
        for name, minimum in _MIN_SECONDS.items():
            object.__setattr__(self, name, _seconds(name, getattr(self, name), minimum))
        if not _matches(_PREFIX, self.metrics_prefix):
            raise InvalidArgumentError(
                f"Invalid metrics_prefix {self.metrics_prefix!r}.",
                remedy="Use letters, digits and underscores, and do not start with a digit.",
            )
        if not _matches(_VERSION, self.version):
            raise InvalidArgumentError(
                f"Invalid version {self.version!r}: use up to 100 printable ASCII characters.",
                remedy="Use a release or commit.",
            )
        if self.stuck_work not in ("exit", "report"):
            raise InvalidArgumentError(f"Invalid stuck_work {self.stuck_work!r}.", remedy="Use 'exit' or 'report'.")
        if type(self.connections) is not int or not _MIN_CONNECTIONS <= self.connections <= _MAX_CONNECTIONS:
            raise InvalidArgumentError(
                f"Invalid connections {self.connections!r}.",
                remedy=f"Use a whole number from {_MIN_CONNECTIONS} to {_MAX_CONNECTIONS}.",
            )
        if type(self.seal_limit) is not int or not 1 <= self.seal_limit <= _MAX_SEAL_LIMIT:
            raise InvalidArgumentError(
                f"Invalid seal_limit {self.seal_limit!r}.", remedy=f"Use a whole number from 1 to {_MAX_SEAL_LIMIT}."
            )
        strategies = checked_overrides("record_strategies", self.record_strategies)
        object.__setattr__(self, "record_strategies", strategies)
        for name, minimum, maximum in (
            ("job_log_lines", 0, _MAX_LOG_LINES),
            ("job_log_bytes", _MIN_LOG_BYTES, _MAX_LOG_BYTES),
        ):
            value = getattr(self, name)
            if type(value) is not int or not minimum <= value <= maximum:
                raise InvalidArgumentError(
                    f"Invalid {name} {value!r}.", remedy=f"Use a whole number from {minimum:,} to {maximum:,}."
                )
        if self.capture_logs is not None:
            object.__setattr__(self, "capture_logs", checked_level("capture_logs", self.capture_logs))
        if not isinstance(self.listen_url, (str, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"Invalid listen_url: {type(self.listen_url).__name__}.", remedy="Use a URL.")

    @classmethod
    def of(cls, settings: Settings | None, changes: SettingsChanges) -> Settings:
        """Build the settings from whichever of the two a caller passed."""
        if settings is None:
            return cls(**changes)
        if not isinstance(settings, cls):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidArgumentError(
                f"settings is a {type(settings).__name__}.",
                remedy="Pass Settings(…), or single settings: session_ttl=….",
            )
        if changes:
            raise InvalidArgumentError(
                "Pass either settings= or single settings, not both.", remedy="Use dataclasses.replace(settings, …)."
            )
        return settings

    @property
    def session_margin(self) -> float:
        """The time that work has to stop in: it is cancelled this many seconds before its session ends."""
        return self.session_ttl / 5


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _seconds(name: str, value: object, minimum: float) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        not isinstance(seconds, (int, float))
        or isinstance(seconds, bool)
        or not math.isfinite(seconds)
        or seconds < minimum
    ):
        raise InvalidArgumentError(f"Invalid {name} {value!r}.", remedy=f"Use at least {minimum} seconds.")
    return seconds
