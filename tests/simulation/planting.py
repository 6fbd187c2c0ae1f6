"""How bugs are planted: with pytest's ``monkeypatch``, each next to the promise that it breaks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Plant = Callable[[pytest.MonkeyPatch], None]
    Bugs = dict[str, tuple[str, Plant]]

__all__ = ["around", "bugs"]


def bugs() -> tuple[Bugs, Callable[[str, str], Callable[[Plant], None]]]:
    """A collection, what is wrong → the promise it breaks and how to plant it, and the decorator that adds to it."""
    found: Bugs = {}

    def breaks(promise: str, name: str) -> Callable[[Plant], None]:
        def add(plant: Plant) -> None:
            found[name] = (promise, plant)

        return add

    return found, breaks


def around(patch: pytest.MonkeyPatch, owner: type, name: str, replacement: Callable[..., Any]) -> None:
    """Replace a method by one that gets the original as its first argument."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    patch.setattr(owner, name, method)
