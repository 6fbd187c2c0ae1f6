"""Patterns over the names of events: ``github.issues.*``. ``*`` is one part, ``**`` at the end any number of them."""

from __future__ import annotations

from interlock.errors import InvalidArgumentError
from interlock.events.source import checked_source_name

__all__ = ["Pattern"]

_REST = "**"


class Pattern:
    """A checked pattern."""

    __slots__ = ("_parts", "_rest", "text")

    def __init__(self, text: object) -> None:
        parts = text.split(".") if isinstance(text, str) else []
        rest = parts[-1:] == [_REST]
        parts = parts[:-1] if rest else parts
        if not isinstance(text, str) or not text or not all(map(_fits, parts)) or not (rest or len(parts) > 1):
            raise InvalidArgumentError(
                f"{text!r} is no pattern.",
                remedy="Use a source and a type with dots, such as 'github.issues.opened'; "
                "* stands for one part, ** at the end for all the rest.",
            )
        if parts and parts[0] != "*":
            checked_source_name(parts[0])
        self.text = text
        self._parts = tuple(parts)
        self._rest = rest

    @property
    def source(self) -> str | None:
        """The one source whose events it can mean; None if it is any."""
        return self._parts[0] if self._parts and self._parts[0] != "*" else None

    def fits(self, name: str) -> bool:
        """Whether it means an event of that name."""
        parts = name.split(".")
        count = len(self._parts)
        if len(parts) < count or (len(parts) > count and not self._rest):
            return False
        return all(mine in ("*", theirs) for mine, theirs in zip(self._parts, parts, strict=False))

    def __repr__(self) -> str:
        return f"<Pattern {self.text}>"


def _fits(part: str) -> bool:
    return part == "*" or (bool(part) and "*" not in part and part.isprintable() and part == part.strip())
