"""What stands in the house: something of every kind in every state, and hostile text wherever text can be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock.testing.lookup import get_or_none
from tests.web.pages.bot import Order, until

if TYPE_CHECKING:
    from tests.web.pages.bot import Bot

HOSTILE = (
    "<script>window.hacked=1</script>\"'`><img src=x onerror=window.hacked=1>{{7*7}}${7*7}&lt;b&gt;"
    "\u202egnp.exe\u2066 \U0001f642\U0001f468\u200d\U0001f469\u200d\U0001f467 שלום مرحبا javascript:alert(1)"
)
PRINTABLE = "".join(c for c in HOSTILE if c.isprintable())
LONG = "long" * 2500
KEY = HOSTILE[:200]
ODD_LANES = (KEY, "..", "a/../b", "with\nnewline", "percent%2Fslash/?#&=+ ", "//double", "trailing/")


STARTED = ("fetched", "running")
"""The states of a job that a worker has: it is shown as running once the worker has reported it."""


async def furnish(bot: Bot) -> None:
    """Put it all there, and wait until it stands as it should."""
    things = bot.things
    await _jobs(bot)
    await _lanes(bot)
    await _locks(bot)
    await _claims(bot)
    await _events(bot)
    await _records(bot)
    things["mail"] = await bot.enqueue("mail", to="ann")
    for name in ("running", "running_2", *(f"odd_{number}" for number in range(len(ODD_LANES)))):
        await bot.until(things[name], "running")


async def _jobs(bot: Bot) -> None:
    things = bot.things
    things["running"] = await bot.enqueue("build", repo="acme/api", how="stay")
    things["running_2"] = await bot.enqueue("build", repo="acme/web", how="stay")
    await bot.until(things["running"], *STARTED)
    await bot.until(things["running_2"], *STARTED)
    things["waiting"] = await bot.enqueue("build", repo="acme/docs")
    things["behind"] = await bot.enqueue("build", repo="acme/api", text="next")
    await bot.until(things["waiting"], "waiting")
    things["done"] = await bot.enqueue("sync", lane="done", text=HOSTILE)
    await bot.until(things["done"], "done")
    things["chatty"] = await bot.enqueue("chat", lines=[HOSTILE, HOSTILE], message=HOSTILE, how="stay")
    things["failed"] = await bot.enqueue("odd", lane="failed", how="fail", text=HOSTILE)
    await bot.until(things["failed"], "failed")
    things["failed_long"] = await bot.enqueue("odd", lane="failed", how="fail", text=LONG)
    await bot.until(things["failed_long"], "failed")
    things["scheduled"] = await bot.enqueue("sync", lane="scheduled", how="fail", text=HOSTILE)
    await bot.until(things["scheduled"], "scheduled")
    things["paced"] = await bot.enqueue("report", account="a1")
    await bot.until(things["paced"], "done")
    things["paced_next"] = await bot.enqueue("report", account="a1")
    await bot.until(things["paced_next"], "waiting")


async def _lanes(bot: Bot) -> None:
    things = bot.things
    things["parked_by"] = await bot.enqueue("deploy", service="api", how="fail", text="the tests fail")
    await bot.until(things["parked_by"], "failed")
    things["parked"] = await bot.enqueue("deploy", service="api")
    await bot.until(things["parked"], "held")
    await bot.app.lanes.hold("held", reason=HOSTILE, by=f"ann {HOSTILE[:40]}")
    things["held"] = await bot.enqueue("sync", lane="held")
    for number, lane in enumerate(ODD_LANES):
        things[f"odd_{number}"] = await bot.enqueue("odd", lane=lane, how="stay", text=HOSTILE)
        await bot.until(things[f"odd_{number}"], *STARTED)


async def _locks(bot: Bot) -> None:
    await bot.hold_lock("repo:acme/api")
    for place in (1, 2, 3):
        await bot.wait_for_lock("repo:acme/api", place)
    await bot.hold_lock(KEY)
    bot.things["locked"] = await bot.enqueue("sync", lane="locked", how="lock:repo:acme/web")
    await until(lambda: get_or_none(bot.app.locks, "repo:acme/web"))
    bot.things["lock_waits"] = await bot.enqueue("sync", lane="lock waits", how="lock:repo:acme/api")


async def _claims(bot: Bot) -> None:
    once = bot.app.claims
    async with once.claim("delivery:1") as claim:
        claim.result = {"text": HOSTILE}
    for key in (KEY, "delivery:failed"):
        try:
            async with once.claim(key, retry_in=600):
                raise ValueError(HOSTILE)
        except ValueError:
            pass

    async def work() -> None:
        async with once.claim("delivery:2"):
            await asyncio.Event().wait()

    bot.tasks.append(asyncio.create_task(work()))
    await until(lambda: get_or_none(once, "delivery:2"))


async def _records(bot: Bot) -> None:
    orders = bot.app.record_kinds["Order"]
    for name in ("order-1", "order-2", KEY, ".."):
        await orders.create(
            Order(id=name, payload={"text": HOSTILE}), by=f"ann {PRINTABLE[:40]}", reason=PRINTABLE[:80]
        )
    await orders.transition("order-1", "normalized", by="worker")
    await orders.correct(
        "order-1", {"payload.text": "plain", "payload.more": LONG[:400]}, source="kana", reason="wrong"
    )
    await orders.transition("order-2", "failed", reason=PRINTABLE)
    await orders.create(Order(id="order-3"))
    await bot.hold_lock("record:Order:order-1")
    await bot.wait_for_lock("record:Order:order-1", 1)


async def _events(bot: Bot) -> None:
    things = bot.things
    things["event"] = await _event(bot, "e-1", "octocat", 7)
    things["event_failed"] = await _event(bot, "e-2", "octocat", 8, how="fail", text=HOSTILE)
    things["event_hostile"] = await _event(bot, PRINTABLE[:100], PRINTABLE[:100], 9)


async def _event(bot: Bot, delivery: str, actor: str, number: int, **more: str) -> int:
    payload = {
        "action": "opened",
        "issue": {"number": number, "title": HOSTILE, "body": LONG},
        "repository": {"full_name": "acme/api"},
        "sender": {"login": actor},
        **more,
    }
    receipt = await bot.hear("issues", payload, delivery)
    assert receipt.event is not None
    await bot.until(receipt.jobs[0], "done", "failed")
    return receipt.event
