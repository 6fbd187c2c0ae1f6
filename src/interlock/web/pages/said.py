"""What a page says after an action. The link that follows the action names it by a word; the texts are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["Said", "said_on"]


class Said(NamedTuple):
    """A sentence, and whether anything happened."""

    text: str
    well: bool


_TEXTS: Mapping[str, Said] = {
    "retried": Said("It is tried again.", True),
    "cancelled": Said("It was cancelled.", True),
    "cancelling": Said("It runs, and was told to stop. Whatever it does now but end well counts as cancelled.", True),
    "ended": Said("It had ended already; nothing was changed.", False),
    "held": Said("The lane is held: what runs goes on, nothing else of it starts.", True),
    "released": Said("The lane goes on.", True),
    "not-held": Said("Nobody held the lane; nothing was changed.", False),
    "lock-released": Said("The lock was taken from its holder, who was told why. The next in line has it.", True),
    "lock-free": Said("Nobody held the lock; nothing was changed.", False),
    "forgotten": Said("The claim was forgotten: whoever comes next finds the key new.", True),
    "no-claim": Said("There was no claim; nothing was changed.", False),
    "replayed": Said("The event was replayed: this is the new one, with the jobs that it caused.", True),
    "replay-ignored": Said("Nothing came of the replay: no handler of today wants this event.", False),
}


def said_on(request: Request) -> Said | None:
    """What the link that led here says, if it says something we know."""
    word = request.query_params.get("said", "")
    if word == "retried":
        state = request.query_params.get("state", "")
        if state in set(JobState):
            return Said(f"It is tried again, and is {state} now.", True)
    return _TEXTS.get(word)
