"""A bot with all kinds of work, for pages to show: what its jobs do is told to them when they are enqueued."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from interlock import App, Cooldown, Event, GitHub, Retry, Slots, current_job
from interlock.records import Machine
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock import Receipt
    from interlock.jobs import CurrentJob
    from interlock.ports.jobs import JobState

SECRET = "a secret that signs webhooks"
CHATS: dict[int, CurrentJob] = {}
"""The jobs named ``chat`` that were started, by ID, so that a test can have them say more."""


ORDERS = Machine(
    initial="received",
    transitions={
        "received": ["normalized", "failed"],
        "normalized": ["processed", "failed"],
        "processed": ["normalized", "completed", "failed"],
        "corrected": ["completed", "failed"],
    },
    corrected="corrected",
)


class Order(BaseModel):
    """A record that pages show."""

    id: str
    status: str = "received"
    payload: dict[str, Any] = Field(default_factory=dict[str, Any])


@dataclass
class Bot:
    """An app, its jobs by name, and what was put into it."""

    app: App
    things: dict[str, Any] = field(default_factory=dict[str, Any])
    tasks: list[asyncio.Task[Any]] = field(default_factory=list[asyncio.Task[Any]])

    async def enqueue(self, name: str, /, **arguments: Any) -> int:
        """A job, by name."""
        return (await self.app.jobs[name].enqueue(**arguments)).id

    async def until(self, job: int, *states: JobState | str) -> None:
        """Wait until a job stands so."""
        await until(lambda: self._is(job, states))

    async def _is(self, job: int, states: tuple[str, ...]) -> bool:
        view = await self.app.jobs.get(job)
        return view is not None and view.state in states

    async def hear(self, kind: str, payload: dict[str, Any], delivery: str) -> Receipt:
        """A signed webhook, as GitHub sends it."""
        body = json.dumps(payload).encode()
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "x-github-event": kind,
            "x-github-delivery": delivery,
            "x-hub-signature-256": f"sha256={signature}",
            "content-type": "application/json",
        }
        return await self.app.events.receive("github", headers, body)

    async def hold_lock(self, key: str) -> None:
        """Take a lock, and keep it until the end."""
        held = asyncio.Event()
        self.tasks.append(asyncio.create_task(self._hold(key, held)))
        await held.wait()

    async def _hold(self, key: str, held: asyncio.Event) -> None:
        async with self.app.locks.acquire(key, wait=600):
            held.set()
            await asyncio.Event().wait()

    async def wait_for_lock(self, key: str, place: int) -> None:
        """Stand in the line of a lock, until the end."""
        self.tasks.append(asyncio.create_task(self._hold(key, asyncio.Event())))

        async def stands() -> bool:
            view = await get_or_none(self.app.locks, key)
            return view is not None and len(view.waiters) >= place

        await until(stands)

    async def leave(self) -> None:
        """Give up what is held and waited for."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something is so, looking again and again."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


def make_bot(url: str, **settings: Any) -> Bot:
    """The bot, on any store."""
    app = App(url, **settings)
    app.source(GitHub(SECRET, own=("acme-bot[bot]",)))

    app.records(Order, machine=ORDERS, correctable=["payload"])

    async def behave(how: str, text: str) -> Any:
        if how == "fail":
            raise RuntimeError(text)
        if how == "stay":
            await asyncio.Event().wait()
        if how.startswith("lock:"):
            async with app.locks.acquire(how[5:], wait=600):
                await asyncio.Event().wait()
        return {"said": text}

    @app.on("github.issues.*", lane="{repository.full_name}#{issue.number}", retry=Retry.NEVER)
    async def triage(event: Event) -> Any:
        return await behave(str(event.payload.get("how", "")), str(event.payload.get("text", "triaged")))

    @app.job(lane="{repo}", limits=[Slots("containers", 2)], retry=Retry.NEVER)
    async def build(repo: str, commit: str = "a1b2c3", how: str = "", text: str = "built") -> Any:
        return await behave(how, text)

    @app.job(lane="deploy:{service}", on_failure="park", retry=Retry.NEVER)
    async def deploy(service: str, version: str = "1.0", how: str = "", text: str = "deployed") -> Any:
        return await behave(how, text)

    @app.job(limits=[Cooldown("account", 90, key="{account}")])
    async def report(account: str, how: str = "", text: str = "reported") -> Any:
        return await behave(how, text)

    @app.job(lane="{lane}", retry=Retry(attempts=3, delay=3600))
    async def sync(lane: str, how: str = "", text: str = "synced") -> Any:
        return await behave(how, text)

    @app.job(lane="{lane}", limits=[Slots("odd", 1, key="{lane}")], retry=Retry.NEVER)
    async def odd(lane: str, how: str = "", text: str = "") -> Any:
        return await behave(how, text)

    @app.job(retry=Retry.NEVER)
    async def chat(lines: list[str], fraction: float = 0.4, message: str = "chatting", how: str = "") -> Any:
        for line in lines:
            level, _, text = line.rpartition("|")
            current_job().log(text, level=level or "info")
        current_job().progress(fraction, message)
        CHATS[current_job().id] = current_job()
        return await behave(how, "chatted")

    @app.job(queue="mail")
    async def mail(to: str) -> None: ...

    return Bot(app)
