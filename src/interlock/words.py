"""Words for what errors speak of."""

from __future__ import annotations

__all__ = ["a_thing"]


def a_thing(value: object) -> str:
    """What something is, for the middle of a sentence: ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
