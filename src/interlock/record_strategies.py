"""Strategies: how an operation on a record coordinates with others, and how long it waits.

A program declares strategies with ``app.records(Model, strategies=…)``. Settings and the environment override them for
a kind and an operation, so that a strategy can be rolled out, and rolled back, without a change of code. Both use the
same text: ``Intent.update=pessimistic:2, *.transition=optimistic``. docs/decisions/0062 says why the environment wins.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from interlock.arguments import FOREVER, Wait, checked_wait
from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "DEFAULT_WAIT",
    "ENVIRONMENT",
    "Operation",
    "Plan",
    "Strategy",
    "StrategyChoice",
    "StrategyOverrides",
    "checked_overrides",
    "plans",
]

DEFAULT_WAIT = 5.0
ENVIRONMENT = "INTERLOCK_RECORD_STRATEGIES"
"""The environment variable whose strategies override those of the settings."""
_FOREVER_TEXT = "forever"
_KEY = re.compile(r"(\*|[A-Za-z][A-Za-z0-9_.-]{0,99})\.([a-z_]+)")
_EXAMPLE = "Intent.update=pessimistic:2, *.transition=optimistic"


class Strategy(StrEnum):
    """How an operation coordinates with others."""

    OPTIMISTIC = "optimistic"
    """Read, compute and write without a lease. If another write came first, queue for the record's lease, then compute
    again and write under it."""
    PESSIMISTIC = "pessimistic"
    """Queue for the record's lease first."""
    NONE = "none"
    """Try once, without a lease. A conflict is raised, and so is an edit in progress."""


class Operation(StrEnum):
    """The operations whose strategy or wait can be chosen."""

    CREATE = "create"
    EDIT = "edit"
    """Always pessimistic; its wait can be chosen."""
    UPDATE = "update"
    TRANSITION = "transition"
    CORRECT = "correct"
    UPDATE_MANY = "update_many"
    COMPARE_AND_SET = "compare_and_set"
    DELETE = "delete"

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies that make sense for it."""
        if self is Operation.EDIT:
            return (Strategy.PESSIMISTIC,)
        # A create has nothing to read before it, and a compare-and-set has read already: a lease protects nothing.
        if self in (Operation.CREATE, Operation.COMPARE_AND_SET):
            return (Strategy.OPTIMISTIC, Strategy.NONE)
        return tuple(Strategy)


class Plan(NamedTuple):
    """The strategy of one operation."""

    strategy: Strategy
    wait: float | None
    """How many seconds to queue for the lease at most; None means without a limit."""


StrategyChoice = str | tuple[str, Wait]
"""A strategy, or a strategy and its wait. As text, the wait follows a colon: ``pessimistic:2``."""

_DEFAULTS = dict.fromkeys(Operation, Strategy.OPTIMISTIC) | {
    Operation.EDIT: Strategy.PESSIMISTIC,
    Operation.TRANSITION: Strategy.PESSIMISTIC,
}


class _Choice(NamedTuple):
    """A checked choice for one operation."""

    strategy: Strategy
    wait: float | None
    has_wait: bool

    @property
    def text(self) -> str:
        """The choice as text."""
        wait = "" if not self.has_wait else f":{_FOREVER_TEXT}" if self.wait is None else f":{self.wait:g}"
        return f"{self.strategy}{wait}"

    def on(self, plan: Plan) -> Plan:
        """The plan with this choice; the wait stays if none was chosen."""
        return Plan(self.strategy, self.wait if self.has_wait else plan.wait)


def plans(
    choices: Mapping[str, StrategyChoice],
    wait: Wait = DEFAULT_WAIT,
    *,
    kind: str = "",
    overrides: StrategyOverrides | None = None,
) -> dict[Operation, Plan]:
    """The plan of every operation: the default with ``wait``, what the program chose, and what overrides it."""
    seconds = checked_wait(wait)
    found = {operation: Plan(strategy, seconds) for operation, strategy in _DEFAULTS.items()}
    chosen = {_operation(name, "strategies"): _choice(name, choice) for name, choice in choices.items()}
    for operation, choice in chosen.items():
        found[operation] = choice.on(found[operation])
    for operation, choice in () if overrides is None else overrides.of(kind):
        found[operation] = choice.on(found[operation])
    return found


class StrategyOverrides:
    """Strategies that settings and the environment set for kinds and operations."""

    def __init__(self, *layers: Mapping[tuple[str, Operation], _Choice]) -> None:
        self._layers = layers

    @classmethod
    def read(cls, settings: str) -> Self:
        """Read those of the settings, and those of the environment, which win. Raises for what is invalid."""
        return cls(_parsed("record_strategies", settings), _parsed(ENVIRONMENT, os.environ.get(ENVIRONMENT, "")))

    def of(self, kind: str) -> Iterable[tuple[Operation, _Choice]]:
        """The choices for a kind, those that win last: the environment's, and of each those for the kind itself."""
        for layer in self._layers:
            for wanted in ("*", kind):
                yield from ((operation, choice) for (one, operation), choice in layer.items() if one == wanted)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that are named."""
        return frozenset(kind for layer in self._layers for kind, _ in layer if kind != "*")


def checked_overrides(name: str, given: object) -> str:
    """Check overrides, a text or a mapping from ``Kind.operation`` to a choice, and return them as text."""
    if isinstance(given, str):
        parsed = _parsed(name, given)
    elif hasattr(given, "items"):
        parsed = dict(_entry(name, key, choice) for key, choice in given.items())
    else:
        raise InvalidArgumentError(
            f"{name} is a {type(given).__name__}.", remedy=f"Use text, such as {_EXAMPLE!r}, or a mapping."
        )
    return ", ".join(f"{kind}.{operation}={choice.text}" for (kind, operation), choice in sorted(parsed.items()))


def _parsed(name: str, text: str) -> dict[tuple[str, Operation], _Choice]:
    found: dict[tuple[str, Operation], _Choice] = {}
    for item in filter(None, re.split(r"[,\s]+", text)):
        key, equals, choice = item.partition("=")
        if not equals:
            raise InvalidArgumentError(f"{name} has {item!r} without '='.", remedy=f"Use, for example: {_EXAMPLE}.")
        where, parsed = _entry(name, key, choice)
        if where in found:
            raise InvalidArgumentError(f"{name} sets {key!r} twice.", remedy="Remove one of them.")
        found[where] = parsed
    return found


def _entry(name: str, key: object, choice: StrategyChoice) -> tuple[tuple[str, Operation], _Choice]:
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    if match is None:
        raise InvalidArgumentError(
            f"{name} has the invalid key {key!r}.", remedy=f"Use KIND.OPERATION=STRATEGY[:WAIT]: {_EXAMPLE}."
        )
    kind, operation = match[1], _operation(match[2], name)
    return (kind, operation), _choice(str(key), choice)


def _operation(name: object, where: str) -> Operation:
    if name not in set(Operation):
        raise InvalidArgumentError(
            f"Unknown operation in {where}: {name!r}.", remedy=f"Valid values: {', '.join(Operation)}."
        )
    return Operation(str(name))


def _choice(name: str, choice: StrategyChoice) -> _Choice:
    """Check a choice for the operation that ``name`` ends with."""
    operation = Operation(name.rpartition(".")[2])
    wait: Wait | None = None
    if isinstance(choice, str):
        strategy, colon, text = choice.partition(":")
        wait = _wait(name, text) if colon else None
    else:
        strategy, wait = choice
    if strategy not in operation.strategies:
        raise InvalidArgumentError(
            f"Invalid strategy {strategy!r} for {name}.", remedy=f"Valid values: {', '.join(operation.strategies)}."
        )
    seconds = None if wait is None else checked_wait(wait, name=f"the wait of {name}")
    return _Choice(Strategy(strategy), seconds, wait is not None)


def _wait(name: str, text: str) -> Wait:
    if text == _FOREVER_TEXT:
        return FOREVER
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(
            f"Invalid wait {text!r} of {name}.", remedy=f"Use a number of seconds, or {_FOREVER_TEXT}."
        ) from None
