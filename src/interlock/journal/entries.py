"""Journal entries that a program adds itself: their actor, action, subject and data, checked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from interlock.arguments import checked_key
from interlock.errors import InvalidArgumentError
from interlock.operations import attributed
from interlock.ports.journal import Action, NewEntry

if TYPE_CHECKING:
    from interlock.ports.journal import Attribution

__all__ = ["attribution_of", "json_of", "program_entry"]

_ACTION = re.compile(r"[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62})+")
_OWN_KINDS = frozenset(action.subject_kind for action in Action)


def program_entry(
    action: str,
    key: object,
    *,
    by: str,
    reason: str = "",
    before: object = None,
    after: object = None,
    from_version: int | None = None,
    to_version: int | None = None,
) -> NewEntry:
    """An entry of the program's own. Raises ``InvalidArgumentError`` if a part of it is invalid."""
    return NewEntry(
        attribution_of(action, by, reason),
        action,
        action.partition(".")[0],
        checked_key(str(key)),
        json_of("before", before),
        json_of("after", after),
        from_version,
        to_version,
    )


def attribution_of(action: object, by: str, reason: str) -> Attribution:
    """Check the action, actor and reason of an entry, and add the job that the caller runs in."""
    if not isinstance(action, str) or not _ACTION.fullmatch(action):
        raise InvalidArgumentError(
            f"Invalid action {action!r}.", remedy="Use the kind of subject and a verb, such as order.ship."
        )
    if action.partition(".")[0] in _OWN_KINDS:
        raise InvalidArgumentError(
            f"The action {action!r} looks like an operation of Interlock's own.",
            remedy=f"Use another kind than {', '.join(sorted(_OWN_KINDS))}.",
        )
    return attributed("A journal entry", by, reason, optional=True)


def json_of(name: str, value: object) -> str | None:
    """Data of an entry as JSON: what JSON knows, and dates, UUIDs, decimals, enums, dataclasses and pydantic models."""
    if value is None:
        return None
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        written = json.dumps(to_jsonable_python(value, bytes_mode="base64"), ensure_ascii=False, allow_nan=False)
        written.encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentError(f"{name} cannot be written as JSON: {error}.", remedy="Pass plain data.") from error
    return written
