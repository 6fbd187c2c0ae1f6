"""Structured log events through the standard library's logging.

Each event has a stable name and named fields; both are on the record (``record.event``, ``record.fields``) for
structured handlers, and the message reads ``name field=value …`` for everyone else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

__all__ = ["emit"]


def emit(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log one event."""
    if logger.isEnabledFor(level):
        text = " ".join(f"{name}={value!r}" for name, value in fields.items())
        logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})
