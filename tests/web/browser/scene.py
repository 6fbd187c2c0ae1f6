"""A bot as people would write one, with enough to do: what the pictures in the docs show."""

from __future__ import annotations

import asyncio
import os
import random

from interlock import App, Cooldown, Event, GitHub, Retry, Slots

SECRET = "a secret that signs webhooks"
URL = "INTERLOCK_URL"
app = App(os.environ.get(URL, "memory://"))
app.source(GitHub(SECRET, own=("acme-bot[bot]",)))
dice = random.Random(7)


async def _work(least: float, limit: float, error: str = "", chance: float = 0.0) -> None:
    await asyncio.sleep(dice.uniform(least, limit))
    if dice.random() < chance:
        raise RuntimeError(error)


@app.on("github.issues.*", lane="{repository.full_name}#{issue.number}", retry=Retry(attempts=2, delay=20))
async def triage(event: Event) -> dict[str, object]:
    await _work(0.1, 1.2, "the forge answered 502 while a label was set", 0.02)
    return {"labels": ["bug", "p2"], "answered": True}


@app.on("github.pull_request.*", lane="{repository.full_name}#{number}", retry=Retry.NEVER)
async def review(event: Event) -> None:
    async with app.locks.acquire(f"checkout:{event.payload['repository']['full_name']}", wait=120):
        await _work(0.5, 2.5)


@app.on("github.push", lane="{repository.full_name}", limits=[Slots("containers", 2)], retry=Retry.NEVER)
async def build(event: Event) -> dict[str, object]:
    await _work(2.0, 5.0, "tests/test_release.py::test_wheel failed: expected 200, got 503", 0.05)
    return {"commit": event.payload["after"], "took": "4.1 s"}


@app.job(lane="deploy:{service}", on_failure="park", retry=Retry.NEVER)
async def deploy(service: str, version: str) -> None:
    if version == "2.0.0":
        raise RuntimeError("the health check of api-7f9c did not pass within 60 s")


@app.job(limits=[Cooldown("account", 90, key="{account}")])
async def report(account: str) -> None:
    await _work(0.5, 1.5)


@app.job(queue="mail")
async def mail(to: str, template: str) -> None: ...
