"""Strategies: how an operation on a record coordinates with others, and how long it waits."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from interlock.arguments import Wait, checked_wait
from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_WAIT", "Operation", "Plan", "Strategy", "StrategyChoice", "plans"]

DEFAULT_WAIT = 5.0


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
    """The operations whose strategy can be chosen. An edit is always pessimistic."""

    CREATE = "create"
    UPDATE = "update"
    TRANSITION = "transition"
    CORRECT = "correct"
    UPDATE_MANY = "update_many"
    COMPARE_AND_SET = "compare_and_set"
    DELETE = "delete"


class Plan(NamedTuple):
    """The strategy of one operation."""

    strategy: Strategy
    wait: float | None
    """How many seconds to queue for the lease at most; None means without a limit."""


StrategyChoice = str | tuple[str, Wait]
"""A strategy, or a strategy and its wait."""

_DEFAULTS = dict.fromkeys(Operation, Strategy.OPTIMISTIC) | {Operation.TRANSITION: Strategy.PESSIMISTIC}
# A create has nothing to read before it, and a compare-and-set has read already: a lease before them protects nothing.
_NEVER_PESSIMISTIC = {Operation.CREATE, Operation.COMPARE_AND_SET}


def plans(choices: Mapping[str, StrategyChoice], wait: Wait = DEFAULT_WAIT) -> dict[Operation, Plan]:
    """The plan of every operation: the chosen one, or the default with ``wait``."""
    unknown = [name for name in choices if name not in set(Operation)]
    if unknown:
        raise InvalidArgumentError(
            f"Unknown operation in strategies: {', '.join(map(repr, unknown))}.",
            remedy=f"Valid values: {', '.join(Operation)}.",
        )
    seconds = checked_wait(wait)
    found = {operation: Plan(strategy, seconds) for operation, strategy in _DEFAULTS.items()}
    for name, choice in choices.items():
        strategy, limit = (choice, wait) if isinstance(choice, str) else choice
        operation = Operation(name)
        if strategy not in set(Strategy) or (strategy == Strategy.PESSIMISTIC and operation in _NEVER_PESSIMISTIC):
            valid = [one for one in Strategy if one != Strategy.PESSIMISTIC or operation not in _NEVER_PESSIMISTIC]
            raise InvalidArgumentError(
                f"Invalid strategy {strategy!r} for {name}.", remedy=f"Valid values: {', '.join(valid)}."
            )
        found[operation] = Plan(Strategy(strategy), checked_wait(limit))
    return found
