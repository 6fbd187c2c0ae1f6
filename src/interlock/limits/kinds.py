"""The kinds of limits and their keys.

``key`` divides a limit into several: a template over the values (``"{account}"``), or a function of them. Without one,
all callers share a single limit of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from interlock.arguments import checked_key, checked_seconds
from interlock.errors import InvalidArgumentError
from interlock.key_functions import call_key_function
from interlock.ports.limits import MAX_ON_A_KEY, Use
from interlock.templates import Template
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from interlock.arguments import Seconds

__all__ = ["Cooldown", "Key", "Limit", "Rate", "Slots", "limit_name", "new_figure", "uses_of"]

Key = str | Callable[..., str]
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")
_MIN_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Slots:
    """At most ``count`` at once: ``Slots("containers", 5)``."""

    kind: ClassVar[str] = "slots"
    name: str
    count: int
    key: Key = ""

    def __post_init__(self) -> None:
        _check(self.name, self.key)
        _check_count(self.name, self.count)

    def use(self, values: Mapping[str, Any], *args: Any) -> Use:
        """Return the limit that applies to these values."""
        return Use(_stored_key(self.kind, self.name, self.key, values, args), self.count, 0.0)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` starts in any ``per`` seconds: ``Rate("api", 100, per=60)``."""

    kind: ClassVar[str] = "rate"
    name: str
    count: int
    per: Seconds
    key: Key = ""

    def __post_init__(self) -> None:
        _check(self.name, self.key)
        _check_count(self.name, self.count)
        _check_per(self.name, self.per)

    def use(self, values: Mapping[str, Any], *args: Any) -> Use:
        """Return the limit that applies to these values."""
        return Use(
            _stored_key(self.kind, self.name, self.key, values, args), self.count, checked_seconds("per", self.per)
        )


@dataclass(frozen=True, slots=True)
class Cooldown:
    """At least ``gap`` seconds from start to start: ``Cooldown("account", 90, key="{account}")``."""

    kind: ClassVar[str] = "cooldown"
    name: str
    gap: Seconds
    key: Key = ""

    def __post_init__(self) -> None:
        _check(self.name, self.key)
        _check_per(self.name, self.gap)

    def use(self, values: Mapping[str, Any], *args: Any) -> Use:
        """Return the limit that applies to these values."""
        return Use(_stored_key(self.kind, self.name, self.key, values, args), 1, checked_seconds("gap", self.gap))


Limit = Slots | Rate | Cooldown


def new_figure(name: str, size: float | timedelta, per: Seconds | None) -> Use:
    """Return the figure that a person sets for a limit, given as its kind and name, and perhaps one key.

    ``slots:containers`` or ``containers`` takes a number of slots, ``rate:api`` a number of starts and ``per``, and
    ``cooldown:account`` the gap in seconds.
    """
    key = limit_name(name)
    kind, rest, *_ = key.split(":", 2)
    if kind == Rate.kind and per is None:
        raise InvalidArgumentError(f"The period of {key!r} is missing.", remedy="Pass per=…, in seconds.")
    if kind != Rate.kind and per is not None:
        raise InvalidArgumentError(f"{key!r} has no period.", remedy="Pass per=… only for a rate.")
    if kind == Cooldown.kind:
        _check_per(rest, size)
        return Use(key, 1, checked_seconds("the gap", size))
    _check_count(rest, size)
    seconds = 0.0
    if per is not None:
        _check_per(rest, per)
        seconds = checked_seconds("per", per)
    return Use(key, int(cast("int", size)), seconds)


def limit_name(name: str) -> str:
    """Return the kind and name of a limit, or one of its whole keys; a name alone is one of slots."""
    key = checked_key(name)
    if ":" not in key:
        key = f"{Slots.kind}:{key}"
    kind, rest, *_ = key.split(":", 2)
    if kind not in (Slots.kind, Rate.kind, Cooldown.kind):
        raise InvalidArgumentError(
            f"Invalid limit {name!r}.", remedy="Write its kind first: slots:NAME, rate:NAME or cooldown:NAME."
        )
    _check(rest, "")
    return key


def uses_of(limits: Iterable[object], values: Mapping[str, Any], *args: Any) -> tuple[Use, ...]:
    """Return all limits with their keys, in the order in which every store takes them."""
    uses: dict[str, Use] = {}
    for limit in limits:
        if not isinstance(limit, (Slots, Rate, Cooldown)):
            raise InvalidArgumentError(
                f"{limit!r} is not a limit.", remedy="Use Slots(…), Rate(…) or Cooldown(…); pass values by keyword."
            )
        use = limit.use(values, *args)
        if uses.setdefault(use.key, use) != use:
            raise InvalidArgumentError(
                f"The limit {use.key!r} is used twice with different figures.", remedy="Give each limit its own name."
            )
    if not uses:
        raise InvalidArgumentError("No limit was passed.", remedy="Pass at least one.")
    return tuple(uses[key] for key in sorted(uses))


def _stored_key(kind: str, name: str, key: Key, values: Mapping[str, Any], args: tuple[Any, ...]) -> str:
    if not key:
        return f"{kind}:{name}"
    rendered = Template.of(key).render(values) if isinstance(key, str) else _called(name, key, values, args)
    return checked_key(f"{kind}:{name}:{rendered}")


def _called(name: str, key: Callable[..., str], values: Mapping[str, Any], args: tuple[Any, ...]) -> str:
    """Return the key that a function computes from the handler's arguments; see :mod:`interlock.key_functions`."""
    rendered = call_key_function(f"key of limit {name!r}", key, *args, **({} if args else values))
    if rendered is None:
        raise InvalidArgumentError(f"The key function of limit {name!r} returned None.", remedy="Return a string.")
    return rendered


def _check(name: object, key: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"Invalid limit name {name!r}.", remedy="Use 1 to 63 letters, digits, dots, dashes and underscores."
        )
    if isinstance(key, str):
        Template.of(key)
    elif not callable(key):
        raise InvalidArgumentError(
            f"The key of {name!r} is {describe_type(key)}.", remedy="Use a template or a function."
        )


def _check_count(name: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_ON_A_KEY:
        raise InvalidArgumentError(
            f"Invalid count {count!r} of the limit {name!r}.", remedy=f"Use a whole number from 1 to {MAX_ON_A_KEY:,}."
        )


def _check_per(name: str, per: Seconds) -> None:
    if checked_seconds("the period", per) < _MIN_SECONDS:
        raise InvalidArgumentError(
            f"The period of the limit {name!r} is too short: {per!r}.", remedy="Use at least a millisecond."
        )
