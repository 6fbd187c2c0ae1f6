"""One journal entry for a page: the difference between before and after, value by value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.insight.views import Seen
    from interlock.ports.journal import JournalEntry

__all__ = ["Change", "JournalEntryPage", "changes"]

_MAX_CHANGES = 200
_MAX_DEPTH = 8
_MAX_TEXT = 2000


class Change(NamedTuple):
    """A value before and after. None where there was none; otherwise its JSON."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        """Whether the value was added, removed, changed, or stayed the same."""
        if self.before == self.after:
            return "same"
        return "added" if self.before is None else "removed" if self.after is None else "changed"


class JournalEntryPage(NamedTuple):
    """One entry, and how its subject changed."""

    entry: JournalEntry
    changes: tuple[Change, ...]
    """The first 200 values."""
    cut: bool
    """Whether there are more."""
    seen: tuple[Seen, ...]


def changes(entry: JournalEntry) -> tuple[tuple[Change, ...], bool]:
    """Compare the subject before and after, value by value; also return whether some were left out."""
    before, after = dict(_values(entry.before)), dict(_values(entry.after))
    paths = list(dict.fromkeys([*before, *after]))
    shown = tuple(Change(path, before.get(path), after.get(path)) for path in paths[:_MAX_CHANGES])
    return shown, len(paths) > _MAX_CHANGES


def _values(text: str | None) -> Iterator[tuple[str, str]]:
    if text is None:
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield "", text[:_MAX_TEXT]
        return
    yield from _flat("", value, 0)


def _flat(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth < _MAX_DEPTH:
        for key, one in cast("dict[str, Any]", value).items():
            yield from _flat(f"{path}.{key}" if path else key, one, depth + 1)
    else:
        yield path, json.dumps(value, ensure_ascii=False)[:_MAX_TEXT]
