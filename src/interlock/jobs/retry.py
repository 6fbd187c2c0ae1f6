"""When a job that failed is tried again: what kind of failure it was, how often, how far apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, cast

from interlock.arguments import checked_seconds
from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from interlock.arguments import Seconds

__all__ = ["ErrorClass", "Kind", "Retry"]

Kind = type[BaseException] | Callable[[BaseException], bool]
"""An exception's type, or a function that says whether one is meant."""

_MOST_ATTEMPTS = 1000
_LEAST_DELAY = 0.001
_MOST_DELAY = 60.0
_FIGURES = ("attempts", "delay", "most", "factor", "jitter")
_TRANSIENT: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
_PERMANENT: tuple[type[BaseException], ...] = (
    TypeError,
    AttributeError,
    NotImplementedError,
    ImportError,
    InvalidArgumentError,
)


class ErrorClass(StrEnum):
    """What kind of failure an error is."""

    TRANSIENT = "transient"
    """It may well work next time."""
    PERMANENT = "permanent"
    """It will fail in the same way for ever, and is not tried again."""
    UNKNOWN = "unknown"
    """Nobody said; it is tried again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """``attempts`` tries in all; the pause doubles from ``delay`` seconds up to ``most``, give or take ``jitter``.

    No pause is longer than ``most``, which is 60 seconds, or ``delay`` if that is longer, unless it is given.
    ``transient`` and ``permanent`` hold exception types or predicates. What they say goes before the rules that hold
    for all: connections and timeouts are transient; wrong types, missing attributes and modules, and arguments that
    Interlock refuses are permanent. Predicates are asked first, those of ``permanent`` before the others; then the
    type nearest to the error's own decides.
    """

    DEFAULT: ClassVar[Retry]
    AGGRESSIVE: ClassVar[Retry]
    """Soon and often."""
    CONSERVATIVE: ClassVar[Retry]
    """Seldom, and far apart."""
    HIGH_PRIORITY: ClassVar[Retry]
    """At once, and not for long."""
    NEVER: ClassVar[Retry]
    """One attempt."""

    attempts: int = 3
    delay: Seconds = 2.0
    most: Seconds | None = None
    factor: float = 2.0
    jitter: float = 0.1
    transient: tuple[Kind, ...] = ()
    permanent: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        if not _whole(self.attempts) or not 1 <= self.attempts <= _MOST_ATTEMPTS:
            raise InvalidArgumentError(
                f"attempts is {self.attempts!r}.", remedy=f"Use a whole number from 1 to {_MOST_ATTEMPTS:,}."
            )
        delay = checked_seconds("delay", self.delay)
        most = max(_MOST_DELAY, delay) if self.most is None else checked_seconds("most", self.most)
        if most < delay:
            raise InvalidArgumentError(
                f"most is {self.most!r}, and delay is {self.delay!r}.", remedy="Let most be at least as long as delay."
            )
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "most", most)
        if not _number(self.factor) or not 1 <= self.factor <= 100:
            raise InvalidArgumentError(f"factor is {self.factor!r}.", remedy="Use a number from 1 to 100.")
        if not _number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidArgumentError(f"jitter is {self.jitter!r}.", remedy="Use a share of the delay, from 0 to 1.")
        for name in ("transient", "permanent"):
            object.__setattr__(self, name, _kinds(name, getattr(self, name)))
        both = {kind for kind in self.transient if isinstance(kind, type)} & set(self.permanent)
        if both:
            raise InvalidArgumentError(
                f"{', '.join(sorted(str(kind) for kind in both))} cannot be transient and permanent.",
                remedy="Name it once.",
            )

    def classify(self, error: BaseException) -> ErrorClass:
        """What kind of failure this is."""
        for kinds, found in ((self.permanent, ErrorClass.PERMANENT), (self.transient, ErrorClass.TRANSIENT)):
            if any(not isinstance(kind, type) and kind(error) for kind in kinds):
                return found
        for kind in type(error).__mro__:
            if kind in self.permanent:
                return ErrorClass.PERMANENT
            if kind in self.transient:
                return ErrorClass.TRANSIENT
        if isinstance(error, _TRANSIENT):
            return ErrorClass.TRANSIENT
        return ErrorClass.PERMANENT if isinstance(error, _PERMANENT) else ErrorClass.UNKNOWN

    def again_in(self, error: BaseException, attempt: int) -> float | None:
        """After how many seconds to try again when this attempt, counted from 1, failed so; None: it has failed."""
        if attempt >= self.attempts or self.classify(error) is ErrorClass.PERMANENT:
            return None
        return self.delay_after(attempt)

    def delay_after(self, attempt: int) -> float:
        """The pause after so many attempts have failed, never 0 and never more than ``most``."""
        base, most = cast("float", self.delay), cast("float", self.most)
        try:
            pause = min(most, base * self.factor ** (attempt - 1))
        except OverflowError:
            pause = most
        longest = min(most, pause * (1 + self.jitter))
        spread = random.uniform(pause * (1 - self.jitter), longest)  # noqa: S311 - only keeps the jobs apart
        return max(_LEAST_DELAY, spread)

    def figures(self) -> dict[str, Any]:
        """What can be stored with a job. Which errors are meant stays in the code."""
        return {name: getattr(self, name) for name in _FIGURES}

    def with_figures(self, stored: Mapping[str, Any]) -> Retry:
        """This policy with figures that were stored with a job; those that only newer code knows are left out."""
        figures = self.figures() | {name: stored[name] for name in _FIGURES if name in stored}
        return replace(self, **figures | {"most": max(figures["most"], figures["delay"])})


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _kinds(name: str, given: object) -> tuple[Any, ...]:
    if isinstance(given, type) or not isinstance(given, (tuple, list, set, frozenset)):
        raise InvalidArgumentError(f"{name} is {given!r}.", remedy="Pass a tuple of exception types and predicates.")
    kinds = tuple(cast("Iterable[Any]", given))
    for kind in kinds:
        if isinstance(kind, type) and not issubclass(kind, BaseException):
            raise InvalidArgumentError(f"{name} has {kind!r}, which is no exception.", remedy="Use exception types.")
        if not callable(kind):
            raise InvalidArgumentError(f"{name} has {kind!r}.", remedy="Use exception types and predicates.")
    return kinds


Retry.DEFAULT = Retry()
Retry.AGGRESSIVE = Retry(attempts=5, delay=1.0, most=30.0)
Retry.CONSERVATIVE = Retry(attempts=2, delay=5.0, most=300.0)
Retry.HIGH_PRIORITY = Retry(attempts=5, delay=0.5, most=15.0)
Retry.NEVER = Retry(attempts=1)
