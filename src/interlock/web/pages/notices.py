"""What a page says after an action. The link that follows the action names it by a word; the texts are here."""

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
    "cancelling": Notice("It runs, and was told to stop. Whatever it does now but end well counts as cancelled.", True),
    "ended": Notice("It had ended already; nothing was changed.", False),
    "held": Notice("The lane is held: what runs goes on, nothing else of it starts.", True),
    "released": Notice("The lane goes on.", True),
    "not-held": Notice("Nobody held the lane; nothing was changed.", False),
    "lock-released": Notice("The lock was taken from its holder, who was told why. The next in line has it.", True),
    "lock-free": Notice("Nobody held the lock; nothing was changed.", False),
    "forgotten": Notice("The claim was forgotten: whoever comes next finds the key new.", True),
    "no-claim": Notice("There was no claim; nothing was changed.", False),
    "replayed": Notice("The event was replayed: this is the new one, with the jobs that it caused.", True),
    "replay-ignored": Notice("Nothing came of the replay: no handler of today wants this event.", False),
}


def notice_of(request: Request) -> Notice | None:
    """What the link that led here says, if it says something we know."""
    word = request.query_params.get("said", "")
    if word == "retried":
        state = request.query_params.get("state", "")
        if state in set(JobState):
            return Notice(f"It is tried again, and is {state} now.", True)
    return _TEXTS.get(word)
