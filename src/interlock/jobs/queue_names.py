"""The queues that a worker serves: parsed from text, and checked against those that jobs use."""

from __future__ import annotations

import difflib
import logging
from typing import TYPE_CHECKING

from interlock.errors import InvalidArgumentError
from interlock.jobs.options import checked_name
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["parse_queues", "warn_about_unused_queues"]

_log = logging.getLogger("interlock.jobs")


def parse_queues(text: str) -> list[str] | dict[str, int | None]:
    """Parse ``mail=2,default=50``: queues with a concurrency of their own, or only names.

    Names alone give a list; as soon as one queue has a number, all are in a dictionary, and the others have None.
    """
    found: dict[str, int | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        name = checked_name("queue", name)
        if name in found:
            raise InvalidArgumentError(f"Queue {name!r} is given twice.", remedy="Give each queue once.")
        if equals and not (number.isascii() and number.isdecimal() and len(number) <= 6 and int(number) > 0):
            raise InvalidArgumentError(
                f"Invalid concurrency {number!r} of queue {name!r}.", remedy="Use a whole number, such as mail=2."
            )
        found[name] = int(number) if equals else None
    if not found:
        raise InvalidArgumentError("No queue was given.", remedy="Name at least one, such as default.")
    return list(found) if all(number is None for number in found.values()) else found


def warn_about_unused_queues(queues: Iterable[str] | Mapping[str, int | None], used: set[str]) -> None:
    """Log each queue that no job is declared for, with the name that was likely meant.

    A job may still be enqueued there with ``options(queue=…)``, so this is only a warning.
    """
    for queue in queues:
        if used and queue not in used:
            meant = "".join(difflib.get_close_matches(queue, sorted(used), 1, 0.6))
            emit(_log, logging.WARNING, "worker_queue_unused", queue=queue, used=sorted(used), meant=meant)
