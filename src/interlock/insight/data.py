"""Convert any answer of Insight to JSON data: times in ISO 8601, UTC; stored JSON as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from interlock.clock import as_text
from interlock.explanation import Explanation

__all__ = ["data"]

_TIMES = frozenset(
    {
        "at",
        "since",
        "until",
        "kept_until",
        "result_kept_until",
        "held_since",
        "parked_since",
        "paused_since",
        "free_since",
    }
)
_JSON = frozenset({"arguments", "options", "result", "payload", "before", "after"})


def data(answer: object) -> Any:
    """Convert an answer to plain dicts, lists, strings and numbers."""
    return _plain("", answer)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Explanation):
        why: Explanation = value  # pyright: ignore[reportUnknownVariableType] - of whatever reasons
        return why.data
    if hasattr(value, "_asdict"):
        return {key: _plain(key, one) for key, one in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(field.name, getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return _each(value)  # pyright: ignore[reportUnknownArgumentType] - of whatever there is
    if isinstance(value, (Set, Sequence)) and not isinstance(value, (str, bytes)):
        return _list(name, value)  # pyright: ignore[reportUnknownArgumentType] - of whatever there is
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, float) and (name in _TIMES or name.endswith("_at")):
        return as_text(value)
    if isinstance(value, str) and name in _JSON:
        return _decoded(value)
    return value


def _each(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain("", one) for key, one in values.items()}


def _list(name: str, values: Set[Any] | Sequence[Any]) -> list[Any]:
    return [_plain(name, one) for one in (sorted(values) if isinstance(values, Set) else values)]


def _decoded(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
