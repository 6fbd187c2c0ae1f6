"""Retry policies: which failures are retried, how often, and after what delays."""

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
"""An exception type, or a predicate over exceptions."""

_MAX_ATTEMPTS = 1000
_MIN_DELAY = 0.001
_MAX_DELAY = 60.0
_NUMBERS = ("attempts", "delay", "max_delay", "factor", "jitter")
_TRANSIENT: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
_PERMANENT: tuple[type[BaseException], ...] = (
    TypeError,
    AttributeError,
    NotImplementedError,
    ImportError,
    InvalidArgumentError,
)


class ErrorClass(StrEnum):
    """The kind of failure that an error is."""

    TRANSIENT = "transient"
    """It may succeed next time."""
    PERMANENT = "permanent"
    """It would fail in the same way again, and is not retried."""
    UNKNOWN = "unknown"
    """Not classified; it is retried."""


@dataclass(frozen=True, slots=True)
class Retry:
    """At limit ``attempts`` attempts, with delays that grow from ``delay`` by ``factor`` up to ``max_delay``.

    ``max_delay`` defaults to 60 seconds, or to ``delay`` if that is longer; ``jitter`` is the fraction by which a delay
    may vary. ``transient`` and ``permanent`` hold
    exception types or predicates. They take precedence over the defaults: connection errors and timeouts are transient;
    ``TypeError``, ``AttributeError``, ``NotImplementedError``, ``ImportError`` and ``InvalidArgumentError`` are
    permanent. Predicates come first, those of ``permanent`` before those of ``transient``; then the listed type that is
    nearest to the error's own type decides.
    """

    DEFAULT: ClassVar[Retry]
    AGGRESSIVE: ClassVar[Retry]
    """Many attempts, with short delays."""
    CONSERVATIVE: ClassVar[Retry]
    """Few attempts, with long delays."""
    HIGH_PRIORITY: ClassVar[Retry]
    """Many attempts, with the shortest delays."""
    NEVER: ClassVar[Retry]
    """A single attempt."""

    attempts: int = 3
    delay: Seconds = 2.0
    max_delay: Seconds | None = None
    factor: float = 2.0
    jitter: float = 0.1
    transient: tuple[Kind, ...] = ()
    permanent: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        if not _whole(self.attempts) or not 1 <= self.attempts <= _MAX_ATTEMPTS:
            raise InvalidArgumentError(
                f"Invalid attempts {self.attempts!r}.", remedy=f"Use a whole number from 1 to {_MAX_ATTEMPTS:,}."
            )
        delay = checked_seconds("delay", self.delay)
        max_delay = max(_MAX_DELAY, delay) if self.max_delay is None else checked_seconds("max_delay", self.max_delay)
        if max_delay < delay:
            raise InvalidArgumentError(
                f"max_delay {self.max_delay!r} is shorter than delay {self.delay!r}.",
                remedy="Use a max_delay at least as long as delay.",
            )
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "max_delay", max_delay)
        if not _number(self.factor) or not 1 <= self.factor <= 100:
            raise InvalidArgumentError(f"Invalid factor {self.factor!r}.", remedy="Use a number from 1 to 100.")
        if not _number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidArgumentError(
                f"Invalid jitter {self.jitter!r}.", remedy="Use a fraction of the delay, from 0 to 1."
            )
        for name in ("transient", "permanent"):
            object.__setattr__(self, name, _kinds(name, getattr(self, name)))
        both = {kind for kind in self.transient if isinstance(kind, type)} & set(self.permanent)
        if both:
            raise InvalidArgumentError(
                f"{', '.join(sorted(str(kind) for kind in both))} is listed as both transient and permanent.",
                remedy="List it once.",
            )

    def classify(self, error: BaseException) -> ErrorClass:
        """Classify an error."""
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

    def retry_delay(self, error: BaseException, attempt: int) -> float | None:
        """Seconds until the next attempt after this one, counted from 1, failed; None if the job has failed."""
        if attempt >= self.attempts or self.classify(error) is ErrorClass.PERMANENT:
            return None
        return self.delay_after(attempt)

    def delay_after(self, attempt: int) -> float:
        """The delay after this many failed attempts, never 0 and never more than ``max_delay``."""
        base, max_delay = cast("float", self.delay), cast("float", self.max_delay)
        try:
            delay = min(max_delay, base * self.factor ** (attempt - 1))
        except OverflowError:
            delay = max_delay
        longest = min(max_delay, delay * (1 + self.jitter))
        spread = random.uniform(delay * (1 - self.jitter), longest)  # noqa: S311 - only spreads the retries
        return max(_MIN_DELAY, spread)

    def numbers(self) -> dict[str, Any]:
        """The numbers, which are stored with a job. The classification of errors stays in the code."""
        return {name: getattr(self, name) for name in _NUMBERS}

    def with_numbers(self, stored: Mapping[str, Any]) -> Retry:
        """This policy with the numbers stored with a job; those that only newer code knows are ignored."""
        numbers = self.numbers() | {name: stored[name] for name in _NUMBERS if name in stored}
        return replace(self, **numbers | {"max_delay": max(numbers["max_delay"], numbers["delay"])})


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _kinds(name: str, given: object) -> tuple[Any, ...]:
    if isinstance(given, type) or not isinstance(given, (tuple, list, set, frozenset)):
        raise InvalidArgumentError(
            f"Invalid {name} {given!r}.", remedy="Pass a tuple of exception types and predicates."
        )
    kinds = tuple(cast("Iterable[Any]", given))
    for kind in kinds:
        if isinstance(kind, type) and not issubclass(kind, BaseException):
            raise InvalidArgumentError(
                f"{name} contains {kind!r}, which is not an exception type.", remedy="Use exception types."
            )
        if not callable(kind):
            raise InvalidArgumentError(f"{name} contains {kind!r}.", remedy="Use exception types and predicates.")
    return kinds


Retry.DEFAULT = Retry()
Retry.AGGRESSIVE = Retry(attempts=5, delay=1.0, max_delay=30.0)
Retry.CONSERVATIVE = Retry(attempts=2, delay=5.0, max_delay=300.0)
Retry.HIGH_PRIORITY = Retry(attempts=5, delay=0.5, max_delay=15.0)
Retry.NEVER = Retry(attempts=1)
