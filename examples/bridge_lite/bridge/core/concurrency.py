"""Which operation uses which lock strategy, and how long it waits. All of it can be changed by the environment."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bridge.core.enums import LockStrategy, normalize_enum

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ConcurrencyConfig", "LockStrategy"]

_PREFIX = "BRIDGE_"
_STRATEGY = f"{_PREFIX}LOCK_STRATEGY_"
_WAIT = f"{_PREFIX}LOCK_WAIT_"
# A run of the pipeline always has the intent's lane, and an audit event is only ever appended.
_FIXED = {"pipeline_execute": LockStrategy.PESSIMISTIC, "audit_log": LockStrategy.NONE}


class ConcurrencyConfig:
    """The configuration of concurrency control. The class has the defaults; an instance has those of one program.

    ``ConcurrencyConfig.from_environment()`` reads ``BRIDGE_LOCK_STRATEGY_UPDATE_STATUS=optimistic``,
    ``BRIDGE_LOCK_WAIT_RE_EVALUATE=2``, ``BRIDGE_MAX_RETRIES``, ``BRIDGE_RETRY_BACKOFF_BASE``, ``BRIDGE_RETRY_JITTER``,
    ``BRIDGE_DEADLOCK_TIMEOUT``, ``BRIDGE_LOCK_TIMEOUT_RETRIES`` and ``BRIDGE_ISOLATION_LEVEL``. An unknown or invalid
    variable with such a name is refused, so that a rollout cannot silently do nothing.
    """

    LOCK_STRATEGIES: Mapping[str, LockStrategy] = MappingProxyType(
        {
            "update_status": LockStrategy.PESSIMISTIC,
            "re_evaluate": LockStrategy.OPTIMISTIC,
            "pipeline_execute": LockStrategy.PESSIMISTIC,
            "audit_log": LockStrategy.NONE,
            "correction_history": LockStrategy.OPTIMISTIC,
        }
    )
    LOCK_WAITS: Mapping[str, float] = MappingProxyType({})
    """How long an operation waits for the lock, where that is not ``DEADLOCK_TIMEOUT``."""
    MAX_RETRIES: int = 3
    """How often an operation is attempted that meets deadlocks or conflicts."""
    RETRY_BACKOFF_BASE: float = 0.1
    RETRY_JITTER: float = 0.05
    DEADLOCK_TIMEOUT: float = 5.0
    """How many seconds to wait for a lock."""
    LOCK_TIMEOUT_RETRIES: int = 0
    """How often a status update that timed out on the lock is tried again."""
    ISOLATION_LEVEL: str = "READ_COMMITTED"

    def __init__(self, **changes: Any) -> None:
        known = [name for name in dir(ConcurrencyConfig) if name.isupper() and not name.startswith("_")]
        for name, value in changes.items():
            if name not in known:
                raise ValueError(f"Unknown setting {name!r}. Valid settings: {', '.join(known)}.")
            setattr(self, name, value)
        waits = {_operation(name): _number(f"the wait of {name}", wait, 0) for name, wait in self.LOCK_WAITS.items()}
        for name, mapping in (("LOCK_STRATEGIES", _strategies(self.LOCK_STRATEGIES)), ("LOCK_WAITS", waits)):
            setattr(self, name, MappingProxyType(mapping))
        for name, minimum in (("RETRY_BACKOFF_BASE", 0), ("RETRY_JITTER", 0), ("DEADLOCK_TIMEOUT", 0)):
            setattr(self, name, _number(name, getattr(self, name), minimum))
        for name, least in (("MAX_RETRIES", 1), ("LOCK_TIMEOUT_RETRIES", 0)):
            number = _number(name, getattr(self, name), least)
            if number != int(number):
                raise ValueError(f"Invalid {name} {number!r}. Use a whole number.")
            setattr(self, name, int(number))
        if self.ISOLATION_LEVEL != "READ_COMMITTED":
            raise ValueError(
                f"Invalid ISOLATION_LEVEL {self.ISOLATION_LEVEL!r}. Versions and leases protect the intents, and the "
                "transactions are READ_COMMITTED."
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ConcurrencyConfig:
        """Return the configuration that the environment asks for. Raises ``ValueError`` for what it cannot mean."""
        given = os.environ if environment is None else environment
        changes: dict[str, Any] = {}
        strategies: dict[str, str] = {}
        waits: dict[str, str] = {}
        for name, value in given.items():
            if name.startswith(_STRATEGY):
                strategies[name.removeprefix(_STRATEGY).lower()] = value
            elif name.startswith(_WAIT):
                waits[name.removeprefix(_WAIT).lower()] = value
            elif (setting := name.removeprefix(_PREFIX)) != name and hasattr(cls, setting) and setting.isupper():
                changes[setting] = value
        if strategies:
            changes["LOCK_STRATEGIES"] = {**cls.LOCK_STRATEGIES, **strategies}
        if waits:
            changes["LOCK_WAITS"] = waits
        return cls(**changes)

    def strategy(self, operation: str) -> LockStrategy:
        """The strategy of an operation."""
        return self.LOCK_STRATEGIES[_operation(operation)]

    def wait(self, operation: str) -> float:
        """How many seconds an operation waits for the lock."""
        return self.LOCK_WAITS.get(_operation(operation), self.DEADLOCK_TIMEOUT)


def _strategies(given: Mapping[str, Any]) -> dict[str, LockStrategy]:
    found = dict(ConcurrencyConfig.LOCK_STRATEGIES)
    for name, value in given.items():
        strategy = normalize_enum(LockStrategy, value)
        fixed = _FIXED.get(_operation(name), strategy)
        if strategy is not fixed:
            raise ValueError(f"Invalid strategy {strategy.value!r} for {name}. It is always {fixed.value!r}.")
        found[name] = strategy
    return found


def _operation(name: str) -> str:
    if name not in ConcurrencyConfig.LOCK_STRATEGIES:
        raise ValueError(f"Unknown operation {name!r}. Valid values: {', '.join(ConcurrencyConfig.LOCK_STRATEGIES)}.")
    return name


def _number(name: str, value: Any, minimum: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not minimum <= number < 1e6:
        raise ValueError(f"Invalid {name}: {value!r}. Use a number of at least {minimum}.")
    return number
