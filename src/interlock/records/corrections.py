"""Corrections: idempotent, validated changes of a record's data. Pure functions; nothing here reads or writes a store.

A diff says which values to set. It is nested (``{"payload": {"a": 1}}``) or has dot paths (``{"payload.a": 1}``); both
mean the same. Values are absolute: JSON, never evaluated, and without operators. Objects are merged, everything else
is replaced. A diff that could mean something else, or that could be meant to harm, is refused with a reason.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import CorrectionRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

__all__ = [
    "MAX_DIFF_BYTES",
    "MAX_HISTORY",
    "KEPT",
    "AppliedCorrection",
    "CorrectionResult",
    "History",
    "body_parts",
    "checked_diff",
    "correction_id",
    "diff_digest",
    "merged",
]

MAX_DIFF_BYTES = 10 * 1024
MAX_HISTORY = 100
"""How many corrections a record keeps; all of them are in the journal."""
KEPT = "_interlock"
"""The reserved name in a body under which Interlock keeps its own data, such as the corrections."""
_MAX_DEPTH = 16
_MAX_NODES = 2_000
_MAX_NAME = 100
_MAX_INTEGER = 2**63
_NAME = re.compile(r"[^\W_][\w-]*")


class AppliedCorrection(NamedTuple):
    """A correction in a record's history."""

    id: str
    digest: str
    """The digest of its diff, to recognize another diff under the same key."""
    at: float
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class History:
    """The corrections of a record: how many there were, and the last of them, the oldest first."""

    count: int = 0
    last: tuple[AppliedCorrection, ...] = ()

    def find(self, id: str) -> AppliedCorrection | None:  # noqa: A002
        """Return a correction that is still in the history."""
        return next((one for one in self.last if one.id == id), None)

    def having(self, applied: AppliedCorrection) -> History:
        """Return the history with one more correction, bounded."""
        return History(self.count + 1, (*self.last, applied)[-MAX_HISTORY:])

    @property
    def complete(self) -> bool:
        """Whether every correction is still in it."""
        return self.count == len(self.last)

    def to_data(self) -> dict[str, Any]:
        """The history as JSON data."""
        return {"count": self.count, "last": [list(one) for one in self.last]}

    @classmethod
    def from_data(cls, data: dict[str, Any] | None) -> History:
        """The history that was kept."""
        return cls() if data is None else cls(data["count"], tuple(AppliedCorrection(*one) for one in data["last"]))


def body_parts(body: str) -> tuple[dict[str, Any], History]:
    """Split a stored body into the model's fields and the history of corrections."""
    data: dict[str, Any] = json.loads(body)
    kept = data.pop(KEPT, None)
    return data, History.from_data(None if kept is None else kept.get("corrections"))


class CorrectionResult(NamedTuple):
    """The answer to a correction."""

    id: str
    """The record's ID."""
    correction_id: str
    already_applied: bool
    """Whether it had been applied before; then nothing was changed."""
    applied_at: datetime
    """When it was applied first."""
    correction_count: int
    """How many corrections the record has had."""
    status: str
    version: int


# -- validation --------------------------------------------------------------------------------------------------------


def checked_diff(diff: object, allowed: Collection[str]) -> dict[str, Any]:
    """Return a diff in its nested form. Raises :class:`CorrectionRefusedError` with a reason if it is not acceptable.

    ``allowed`` are the fields of the record that corrections may change.
    """
    if type(diff) is not dict:
        raise _refused("not-an-object", f"A diff is a dict, not {type(diff).__name__}.", "Pass a dict.")
    if not diff:
        raise _refused("empty", "The diff is empty.", "Set at least one value.")
    budget = _Budget()
    nested: dict[str, Any] = {}
    for path, value in diff.items():
        names = _path(path)
        for name in names:
            _check_name(name)
            budget.spend(len(name) + 4)
        if names[0] not in allowed:
            raise _refused(
                "field-not-allowed",
                f"Corrections may not change {names[0][:_MAX_NAME]!r}.",
                f"Fields that they may change: {', '.join(sorted(allowed)) or 'none'}.",
            )
        if len(names) > _MAX_DEPTH:
            raise _too_deep()
        _put(nested, names, _checked_value(value, len(names), budget))
    size = len(_canonical(nested).encode())
    if size > MAX_DIFF_BYTES:
        raise _too_large(size)
    return nested


def _path(path: object) -> list[str]:
    if type(path) is not str:
        raise _refused("invalid-name", f"{path!r:.40} is not the name of a field.", "Use text.")
    if len(path) > MAX_DIFF_BYTES:
        raise _too_large(len(path))
    return path.split(".")


def _check_name(name: str) -> None:
    shown = name[:40]
    if name.startswith("__"):
        raise _refused("dunder-name", f"The name {shown!r} starts with two underscores.", "Use a plain name.")
    if name.startswith("$") or any(sign in name for sign in ("+", "=", "*", "<", ">", "!", "|", "&")):
        raise _refused("operator", f"The name {shown!r} looks like an operator.", "Values are absolute: set them.")
    if any(sign in name for sign in "()[]{}`;"):
        raise _refused("call", f"The name {shown!r} looks like code.", "Values are data: set them.")
    if not name:
        raise _refused("dotted-path", "A path has an empty part.", "Write it as payload.name, without extra dots.")
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name) or not _storable(name):
        raise _refused(
            "invalid-name",
            f"Invalid name {shown!r}.",
            f"Use letters, digits, '_' and '-', at most {_MAX_NAME}, and start with a letter or digit.",
        )


def _put(nested: dict[str, Any], names: list[str], value: Any) -> None:
    """Set a value in the nested form. Two entries for one place are refused, even with equal values."""
    at = nested
    for name in names[:-1]:
        inner = at.setdefault(name, {})
        if type(inner) is not dict:
            raise _twice(names)
        at = inner
    last = names[-1]
    if last not in at:
        at[last] = value
    elif type(at[last]) is dict and type(value) is dict and at[last] and value:
        for name, inner in value.items():
            _put(at[last], [name], inner)
    else:
        raise _twice(names)


def _checked_value(value: object, depth: int, budget: _Budget) -> Any:
    """Return a copy of a value that is plain JSON."""
    budget.spend(1)
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        text: str = value  # type: ignore[assignment]
        budget.spend(len(text))
        if not _storable(text):
            raise _refused("invalid-text", "A text has a NUL character or a lone surrogate.", "Remove it.")
        return text
    if kind is int:
        if not -_MAX_INTEGER <= value < _MAX_INTEGER:  # type: ignore[operator]
            raise _refused("invalid-number", "An integer has more than 64 bits.", "Use text for it.")
        return value
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise _refused("invalid-number", f"{value!r} is not a number in JSON.", "Use a finite number.")
        return value
    if kind is list or kind is dict:
        if depth >= _MAX_DEPTH:
            raise _too_deep()
        if kind is list:
            return [_checked_value(item, depth + 1, budget) for item in value]  # type: ignore[attr-defined]
        return {_inner_name(name, budget): _checked_value(item, depth + 1, budget) for name, item in value.items()}  # type: ignore[attr-defined]
    raise _refused(
        "invalid-type",
        f"A diff cannot hold {kind.__name__[:_MAX_NAME]!r} values.",
        "Use None, bool, int, float, str, and lists and dicts of these.",
    )


def _inner_name(name: object, budget: _Budget) -> str:
    if type(name) is not str:
        raise _refused("invalid-name", f"{name!r:.40} is not a name.", "Use text.")
    budget.spend(len(name))
    if "." in name:
        raise _refused(
            "dotted-path",
            f"The name {name[:40]!r} inside a value has a dot.",
            "Write dot paths only at the top level of the diff.",
        )
    _check_name(name)
    return name


class _Budget:
    """Bounds the work of checking: characters and values."""

    def __init__(self) -> None:
        self._characters = MAX_DIFF_BYTES
        self._nodes = _MAX_NODES

    def spend(self, characters: int) -> None:
        self._characters -= characters
        self._nodes -= 1
        if self._characters < 0 or self._nodes < 0:
            raise _too_large(None)


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _refused(reason: str, message: str, remedy: str) -> CorrectionRefusedError:
    return CorrectionRefusedError(message, reason=reason, remedy=remedy)


def _too_deep() -> CorrectionRefusedError:
    return _refused("too-deep", f"The diff is nested more than {_MAX_DEPTH} levels deep.", "Make it flatter.")


def _too_large(size: int | None) -> CorrectionRefusedError:
    said = "" if size is None else f" It has {size:,}."
    return _refused(
        "too-large",
        f"A diff has at most {MAX_DIFF_BYTES:,} bytes and {_MAX_NODES:,} values.{said}",
        "Split it into several.",
    )


def _twice(names: list[str]) -> CorrectionRefusedError:
    return _refused("ambiguous", f"The diff sets {'.'.join(names)[:80]!r} twice.", "Set each value once.")


# -- identity ----------------------------------------------------------------------------------------------------------


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def diff_digest(nested: dict[str, Any]) -> str:
    """The digest of a diff in its nested form. Equal diffs have equal digests, however they were written."""
    return hashlib.sha256(_canonical(nested).encode()).hexdigest()


def correction_id(kind: str, id: str, digest: str, key: str | None = None) -> str:  # noqa: A002
    """The ID of a correction: by the content of its diff, or by an explicit key."""
    parts = ["diff", kind, id, digest] if key is None else ["key", kind, id, key]
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()[:32]


# -- application -------------------------------------------------------------------------------------------------------


def merged(data: dict[str, Any], nested: dict[str, Any]) -> dict[str, Any]:
    """Return data with a diff applied: objects are merged, everything else is replaced. Changes neither argument."""
    result = dict(data)
    for name, value in nested.items():
        current = result.get(name)
        result[name] = merged(current, value) if type(current) is dict and type(value) is dict else value
    return result
