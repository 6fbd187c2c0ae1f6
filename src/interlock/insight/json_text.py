"""Indented JSON for people, in bounded time and space for any nesting.

Indentation makes deeply nested data grow with the square of its depth: 120 KB can become 24 MB. So parts below a depth
are only counted, and the text ends at a bound.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DEEPEST", "FormattedJson", "depth_exceeds", "format_json"]

DEEPEST = 20
_MAX = 60_000
_INDENT = "  "


class FormattedJson(NamedTuple):
    """Formatted data, and what is missing from it."""

    text: str
    folded: int
    """How many objects and lists are shown as ``{… 3 keys}`` or ``[… 5 items]`` because of their depth."""
    cut: bool
    """Whether it is truncated."""

    @property
    def missing(self) -> str:
        """A description of what is not shown; empty if nothing is missing."""
        parts: list[str] = []
        if self.folded:
            what = "1 part" if self.folded == 1 else f"{self.folded:,} parts"
            parts.append(f"{what} nested deeper than {DEEPEST} levels")
        if self.cut:
            parts.append(f"everything after the first {len(self.text):,} characters")
        return f"not shown: {' and '.join(parts)}" if parts else ""


def format_json(data: Any, limit: int = _MAX) -> FormattedJson:
    """Format data with indentation, up to a number of characters and :data:`DEEPEST` levels of nesting."""
    writer = _Writer(limit)
    try:
        writer.write(data, 0)
    except _FullError:
        return FormattedJson("".join(writer.pieces), writer.folded, cut=True)
    return FormattedJson("".join(writer.pieces), writer.folded, cut=False)


def depth_exceeds(data: Any, levels: int = DEEPEST) -> bool:
    """Whether data is nested deeper than that."""
    layer = [data]
    for _ in range(levels):
        layer = [inner for value in layer for inner in _values(value)]
        if not layer:
            return False
    return any(isinstance(value, (dict, list)) for value in layer)


def _inside(value: Any) -> dict[str, Any] | list[Any] | None:
    """The value, if it is an object or a list."""
    return cast("dict[str, Any] | list[Any]", value) if isinstance(value, (dict, list)) else None


def _values(value: Any) -> Iterable[Any]:
    inside = _inside(value)
    return () if inside is None else inside.values() if isinstance(inside, dict) else inside


class _FullError(Exception):
    """The text has reached its bound."""


class _Writer:
    def __init__(self, room: int) -> None:
        self.pieces: list[str] = []
        self.folded = 0
        self._room = room

    def write(self, value: Any, depth: int) -> None:
        inside = _inside(value)
        if not inside:
            self._put(self._text(value) if isinstance(value, str) else json.dumps(value))
        elif depth == DEEPEST:
            self._fold(inside)
        elif isinstance(inside, dict):
            self._between("{", "}", depth, ((f"{self._text(key)}: ", inner) for key, inner in inside.items()))
        else:
            self._between("[", "]", depth, (("", inner) for inner in inside))

    def _between(self, begin: str, end: str, depth: int, parts: Iterable[tuple[str, Any]]) -> None:
        before = f"{begin}\n"
        for label, inner in parts:
            self._put(f"{before}{_INDENT * (depth + 1)}{label}")
            self.write(inner, depth + 1)
            before = ",\n"
        self._put(f"\n{_INDENT * depth}{end}")

    def _fold(self, value: dict[str, Any] | list[Any]) -> None:
        self.folded += 1
        number = len(value)
        if isinstance(value, dict):
            self._put("{… 1 key}" if number == 1 else f"{{… {number:,} keys}}")
        else:
            self._put("[… 1 item]" if number == 1 else f"[… {number:,} items]")

    def _text(self, text: str) -> str:
        """A string as JSON, truncated to the remaining room."""
        return json.dumps(text[: self._room + 1], ensure_ascii=False)

    def _put(self, text: str) -> None:
        self.pieces.append(text[: self._room])
        self._room -= len(text)
        if self._room < 0:
            raise _FullError
