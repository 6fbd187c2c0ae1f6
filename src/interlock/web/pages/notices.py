"""Notices after an action. The redirect after the action carries a code; the texts are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["Notice", "notice_of"]


class Notice(NamedTuple):
    """A sentence, and whether anything happened."""

    text: str
    well: bool


_TEXTS: Mapping[str, Notice] = {
    "retried": Notice("It is tried again.", True),
    "cancelled": Notice("It was cancelled.", True),
    "cancelling": Notice("It is running and is being stopped. Unless it completes, it counts as cancelled.", True),
    "ended": Notice("It had already ended; nothing was changed.", False),
    "held": Notice("The lane is held: a running job continues, and no other job starts.", True),
    "released": Notice("The lane goes on.", True),
    "not-held": Notice("The lane was not held; nothing was changed.", False),
    "lock-released": Notice("The lock was taken from its holder. The next waiter gets it.", True),
    "lock-free": Notice("The lock was not held; nothing was changed.", False),
    "forgotten": Notice("The claim was forgotten: the key is new for the next claimant.", True),
    "no-claim": Notice("The key was not claimed; nothing was changed.", False),
    "replayed": Notice("The event was replayed: this is the new one, with the jobs that it caused.", True),
    "replay-ignored": Notice("The replay had no effect: no current handler takes this event.", False),
}


def notice_of(request: Request) -> Notice | None:
    """The notice for the code in the URL, if it is known."""
    word = request.query_params.get("said", "")
    if word == "retried":
        state = request.query_params.get("state", "")
        if state in set(JobState):
            return Notice(f"It is tried again, and is {state} now.", True)
    return _TEXTS.get(word)
