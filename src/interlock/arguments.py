"""Checks of arguments: keys, times to live and times to wait. Invalid ones are refused before they reach a store."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Final, Literal

from interlock.errors import InvalidArgumentError
from interlock.values import describe_type

__all__ = [
    "FOREVER",
    "Seconds",
    "Wait",
    "checked_key",
    "checked_limit",
    "checked_line_number",
    "checked_prefix",
    "checked_reason",
    "checked_seconds",
    "checked_ttl",
    "checked_url",
    "checked_wait",
]

_MAX_KEY_BYTES = 512
_LEAST_TTL = 1.0
_MAX_LISTED = 100_000
_MAX_REASON = 500
_MAX_SECONDS = 366 * 24 * 3600


class _Forever(Enum):
    FOREVER = "FOREVER"

    def __repr__(self) -> str:
        return "FOREVER"


FOREVER: Final = _Forever.FOREVER
"""Wait without a limit. It has to be explicit, so that no caller waits forever by accident."""

Seconds = float | timedelta
Wait = Seconds | Literal[_Forever.FOREVER]


def checked_key(key: object) -> str:
    """The key, if it is text of 1 to 512 bytes in UTF-8."""
    # Most keys are short; then even four bytes a character fit and nothing needs encoding.
    if type(key) is str and 0 < len(key) <= _MAX_KEY_BYTES // 4 and key.isprintable():
        return key
    if not isinstance(key, str):
        raise InvalidArgumentError(f"A key is text, not {type(key).__name__}.", remedy="Use str(…).")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"The key {key[:40]!r} is not valid Unicode.", remedy="Remove lone surrogates."
        ) from None
    if "\0" in key:
        raise InvalidArgumentError(f"The key {key[:40]!r} contains a NUL character.", remedy="Remove it.")
    if not 1 <= size <= _MAX_KEY_BYTES:
        raise InvalidArgumentError(
            f"A key has 1 to {_MAX_KEY_BYTES} bytes; {key[:40]!r} has {size}.",
            remedy="Shorten it, for instance by hashing its tail.",
        )
    return key


def checked_url(url: object) -> str:
    """The address of a store, if it is text."""
    if not isinstance(url, str):
        raise InvalidArgumentError(
            f"A {type(url).__name__} names no store.", remedy="Use a URL, such as sqlite:///bot.db or postgresql://…."
        )
    return url


def checked_ttl(ttl: Seconds, *, name: str = "ttl") -> float:
    """The time to live in seconds, if it is finite and at least a second."""
    seconds = _seconds(name, ttl)
    if not _LEAST_TTL <= seconds <= _MAX_SECONDS:
        raise InvalidArgumentError(f"{name} is {ttl!r}.", remedy=f"Use {_LEAST_TTL:g} to {_MAX_SECONDS:,} seconds.")
    return seconds


def checked_seconds(name: str, value: Seconds) -> float:
    """A span of seconds, from none to a year."""
    seconds = _seconds(name, value)
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidArgumentError(f"{name} is {value!r}.", remedy=f"Use 0 to {_MAX_SECONDS:,} seconds.")
    return seconds


def checked_reason(what: str, reason: object, by: object) -> None:
    """Refuse an act of force without a reason and a name, or with ones that cannot be kept."""
    for text in (reason, by):
        if not isinstance(text, str) or not text.strip() or not _storable(text):
            raise InvalidArgumentError(
                f"{what} needs a reason and a name, in plain text.", remedy="Say why, and who: reason=…, by=…."
            )
        if len(text) > _MAX_REASON:
            raise InvalidArgumentError(
                f"{what} was given {len(text):,} characters of text.", remedy=f"Use up to {_MAX_REASON} for each."
            )


def checked_prefix(prefix: object) -> str:
    """Check a prefix of keys, which may be empty."""
    if not isinstance(prefix, str) or not _storable(prefix):
        raise InvalidArgumentError(f"The prefix is {prefix!r}.", remedy="Use plain text without NUL characters.")
    return prefix


def checked_line_number(number: object) -> int:
    """Validate the number of a line of a log, after which to read; 0 is before the first."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise InvalidArgumentError(
            f"Invalid after {number!r}.", remedy="Pass the number of a line, or 0 for all lines."
        )
    return number


def checked_limit(limit: object) -> int:
    """How many to list at most."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MAX_LISTED:
        raise InvalidArgumentError(f"limit is {limit!r}.", remedy=f"Use a whole number from 1 to {_MAX_LISTED:,}.")
    return limit


def checked_wait(wait: Wait, *, name: str = "wait") -> float | None:
    """The time to wait in seconds, None for ever."""
    if wait is FOREVER:
        return None
    seconds = _seconds(name, wait)
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidArgumentError(
            f"{name} is {wait!r}.", remedy=f"Use a number of seconds from 0 to {_MAX_SECONDS:,}, or FOREVER."
        )
    return seconds


def _storable(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def _seconds(name: str, value: object) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise InvalidArgumentError(
        f"{name} is {value!r}, {describe_type(value)}.", remedy="Use a number of seconds or a timedelta."
    )
