"""Levels of log lines: names and numbers as in the standard library's logging."""

from __future__ import annotations

import logging

from interlock.errors import InvalidArgumentError

__all__ = ["checked_level", "level_name"]

_MAX_LEVEL = 100


def checked_level(what: str, level: object) -> int:
    """A level by its number, or by its name in any case."""
    if isinstance(level, str):
        number = logging.getLevelNamesMapping().get(level.upper())
        if number is not None:
            return number
    elif isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= _MAX_LEVEL:
        return level
    raise InvalidArgumentError(
        f"Invalid {what} {level!r}.", remedy="Use a level of the logging module, such as 'INFO' or logging.INFO."
    )


def level_name(level: int) -> str:
    """The name of a level in lower case, or of the one below it."""
    for number in (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO):
        if level >= number:
            return logging.getLevelName(number).lower()
    return "debug"
