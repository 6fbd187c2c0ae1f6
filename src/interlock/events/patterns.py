"""Patterns over event names, such as ``github.issues.*``. ``*`` matches one part, ``**`` at the end any number."""

from __future__ import annotations

from interlock.errors import InvalidArgumentError
from interlock.events.source import checked_source_name

__all__ = ["Pattern"]

_REST = "**"


class Pattern:
    """A valid pattern."""

    __slots__ = ("_parts", "_rest", "text")

    def __init__(self, text: object) -> None:
        parts = text.split(".") if isinstance(text, str) else []
        rest = parts[-1:] == [_REST]
        parts = parts[:-1] if rest else parts
        if not isinstance(text, str) or not text or not all(map(_fits, parts)) or not (rest or len(parts) > 1):
            raise InvalidArgumentError(
                f"Invalid pattern {text!r}.",
                remedy="Use a source and a type with dots, such as 'github.issues.opened'; "
                "* matches one part, ** at the end matches the rest.",
            )
        if parts and parts[0] != "*":
            checked_source_name(parts[0])
        self.text = text
        self._parts = tuple(parts)
        self._rest = rest

    @property
    def source(self) -> str | None:
        """The only source that it can match; None for any."""
        return self._parts[0] if self._parts and self._parts[0] != "*" else None

    def fits(self, name: str) -> bool:
        """Whether it matches an event of that name."""
        parts = name.split(".")
        count = len(self._parts)
        if len(parts) < count or (len(parts) > count and not self._rest):
            return False
        return all(mine in ("*", theirs) for mine, theirs in zip(self._parts, parts, strict=False))

    def __repr__(self) -> str:
        return f"<Pattern {self.text}>"


def _fits(part: str) -> bool:
    return part == "*" or (bool(part) and "*" not in part and part.isprintable() and part == part.strip())
