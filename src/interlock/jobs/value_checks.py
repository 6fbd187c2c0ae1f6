# pyright: basic
"""Checks of nested values: containers, dataclasses and pydantic models are inspected recursively."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from decimal import Decimal
from typing import Any

from interlock.errors import InvalidArgumentError
from interlock.values import describe_type

__all__ = ["check_storable", "check_unchanged"]


def check_storable(value: Any, what: str) -> None:
    """Reject naive datetimes and numbers that JSON cannot represent, at any depth."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidArgumentError(f"{what} contains a naive datetime.", remedy="Use an aware datetime.")
    elif isinstance(value, (float, Decimal)):
        if not (math.isfinite(value) if isinstance(value, float) else value.is_finite()):
            raise InvalidArgumentError(f"{what} contains the number {value}.", remedy="Use finite numbers.")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_storable(key, what)
            check_storable(item, what)
    elif isinstance(value, (list, tuple, Set)) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        for item in value:
            check_storable(item, what)
    else:
        for item in _fields(value).values():
            check_storable(item, what)


def check_unchanged(value: Any, back: Any, what: str) -> None:
    """Reject a value whose type changed on the way there and back, like a datetime declared as ``Any``."""
    if isinstance(value, Mapping) and isinstance(back, Mapping):
        if not all(key in back for key in value):
            raise _changed(what, "a dict's key", value, back)
        for key, item in value.items():
            check_unchanged(item, back[key], what)
    elif isinstance(value, (list, tuple)) and isinstance(back, (list, tuple)):
        for item, again in zip(value, back, strict=True):
            check_unchanged(item, again, what)
    elif isinstance(value, Set) and isinstance(back, (Set, list)):
        return
    elif not isinstance(value, type(back)):
        raise _changed(what, describe_type(value), value, back)
    else:
        fields = _fields(back)
        for name, item in _fields(value).items():
            if name in fields:
                check_unchanged(item, fields[name], what)


def _changed(what: str, part: str, value: object, back: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what}: {part} would come back as {describe_type(back)}, because its type was not declared.",
        remedy=f"Declare the type, or pass {describe_type(back)}.",
    )


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if hasattr(type(value), "__pydantic_fields__"):
        return {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
    return {}
