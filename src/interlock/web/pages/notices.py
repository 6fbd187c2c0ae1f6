"""Notices after an action. The redirect after the action carries a code; the texts are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.jobs import JobState
from interlock.web.pages.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["Notice", "notice_of"]


class Notice(NamedTuple):
    """A sentence, and whether anything happened."""

    text: str
    well: bool


_TEXTS: Mapping[str, Notice] = {
    "retried": Notice("The job will be retried.", True),
    "cancelled": Notice("The job was cancelled.", True),
    "cancelling": Notice(
        "The worker that has the job was asked to stop it. Unless it succeeds first, it ends as cancelled.", True
    ),
    "ended": Notice("The job had already ended; nothing was changed.", False),
    "held": Notice("The lane is held: a running job continues, and no other job starts.", True),
    "released": Notice("The lane was released.", True),
    "not-held": Notice("The lane was neither held nor parked; nothing was changed.", False),
    "paused": Notice("The queue is paused: running jobs continue, and no other job of it starts.", True),
    "resumed": Notice("The queue was resumed.", True),
    "not-paused": Notice("The queue was not paused; nothing was changed.", False),
    "lock-released": Notice("The lock was taken from its holder. The next waiter gets it.", True),
    "lock-free": Notice("The lock was not held; nothing was changed.", False),
    "forgotten": Notice("The claim was forgotten: its key can be claimed again.", True),
    "no-claim": Notice("The key was not claimed; nothing was changed.", False),
    "schedule-saved": Notice("The schedule was saved.", True),
    "schedule-paused": Notice("The schedule is paused: it does not fire until it is resumed.", True),
    "schedule-resumed": Notice("The schedule was resumed. It fires from its next time on.", True),
    "schedule-triggered": Notice("The job was enqueued now. The next times stay as they are.", True),
    "schedule-backfilled": Notice("The jobs were enqueued.", True),
    "schedule-deleted": Notice("The schedule was deleted. Its jobs stay.", True),
    "resized": Notice("The limit was resized for all processes, and for jobs that are enqueued already.", True),
    "reset": Notice("The limit was reset: the figures in the code apply again.", True),
    "not-resized": Notice("The limit was not resized; nothing was changed.", False),
    "replayed": Notice("The event was replayed. This is the new event, with the jobs that it caused.", True),
    "replay-ignored": Notice("The event was not replayed: no current handler receives it.", False),
}


_DONE_TO_ALL = {
    "all-jobs-retry": "Retried {}.",
    "all-jobs-cancel": "Cancelled {}. Running jobs are being stopped.",
    "all-lanes-hold": "Held {}. Running jobs continue, and no other job starts.",
    "all-lanes-release": "Released {}.",
    "all-locks-release": "Released {} by force. The next waiters get them.",
    "all-claims-forget": "Forgot {}: their keys can be claimed again.",
    "all-events-replay": "Replayed {}.",
}


def notice_of(request: Request) -> Notice | None:
    """The notice for the code in the URL, if it is known."""
    word = request.query_params.get("said", "")
    if word in _DONE_TO_ALL:
        changed, unchanged, left = (_number(request, name) for name in ("changed", "unchanged", "left"))
        texts = [_DONE_TO_ALL[word].format(plural(changed, word.split("-")[1][:-1]))]
        if unchanged:
            texts.append(f"{unchanged:,} no longer matched and {'was' if unchanged == 1 else 'were'} left alone.")
        if left:
            texts.append(f"{left:,} more matched: repeat the operation for {'it' if left == 1 else 'them'}.")
        return Notice(" ".join(texts), changed > 0)
    if word == "retried":
        state = request.query_params.get("state", "")
        if state in set(JobState):
            return Notice(f"The job will be retried; it is {state} now.", True)
    return _TEXTS.get(word)


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= 9 else 0
