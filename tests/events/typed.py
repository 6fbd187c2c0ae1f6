"""What type checkers make of handlers of events. Checked by ``make lint``, never run."""

from __future__ import annotations

from typing import assert_type

from interlock import App, Event
from interlock.jobs import AsyncJob, Handle, PlainJob

app = App("memory://")


@app.on("github.issues.*", lane="{issue.number}", priority=80)
async def triage(event: Event) -> str:
    return event.name


@app.on("github.push", ignore=lambda event: event.actor == "x", include_own=True)
def note(event: Event) -> int:
    return event.id


async def use(event: Event) -> None:
    assert_type(triage, AsyncJob[[Event], str])
    assert_type(note, PlainJob[[Event], int])
    assert_type(await triage(event), str)
    assert_type(note(event), int)
    assert_type(await triage.enqueue(event), Handle[str])
    assert_type(await note.options(delay=3).enqueue(event), Handle[int])
