"""Makes the pictures in the docs: ``python -m tests.web.browser.pictures [minutes]``.

Runs the scene with three workers and a stream of webhooks for a while, so that its charts have something to show, and
takes pictures of its pages.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
REPOSITORIES = ("acme/api", "acme/web", "acme/infra", "acme/docs", "acme/mobile", "acme/billing")
PEOPLE = ("ann", "bela", "chidi", "dora", "octocat", "renovate[bot]")
dice = random.Random(11)


def _payload(kind: str) -> dict[str, Any]:
    repository = {"full_name": dice.choice(REPOSITORIES), "private": True}
    sender = {"login": dice.choice(PEOPLE), "id": dice.randrange(10**6)}
    number = dice.randrange(1, 40)
    if kind == "push":
        after = hashlib.sha1(str(number).encode()).hexdigest()
        return {"ref": "refs/heads/main", "after": after, "repository": repository, "sender": sender}
    if kind == "pull_request":
        repository["full_name"] = dice.choice(REPOSITORIES[:2])
        return {"action": "synchronize", "number": number, "repository": repository, "sender": sender}
    issue = {"number": number, "title": "Builds fail on 3.13", "labels": [], "comments": 2, "locked": False}
    return {
        "action": dice.choice(("opened", "labeled", "closed")),
        "issue": issue,
        "repository": repository,
        "sender": sender,
    }


async def _hear(app: Any, secret: str, number: int, kind: str = "") -> None:
    kind = kind or dice.choices(("issues", "pull_request", "push"), (10, 4, 3))[0]
    body = json.dumps(_payload(kind)).encode()
    headers = {
        "x-github-event": kind,
        "x-github-delivery": f"72d3162e-cc78-11e3-81ab-{number:012x}",
        "x-hub-signature-256": f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}",
    }
    await app.events.receive("github", headers, body)


async def _traffic(app: Any, secret: str) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in itertools.count():
        await _hear(app, secret, number)
        await asyncio.sleep(dice.expovariate(2.6 + 1.4 * math.sin((loop.time() - begun) / 47)))


async def _props(app: Any, scene: Any) -> None:
    """What a quiet bot would not have: something parked, something held, something that waits for its time."""
    for version in ("1.9.4", "2.0.0", "2.0.1", "2.0.2"):
        await scene.deploy.enqueue(service="api", version=version)
    await app.lanes.hold("acme/infra", reason="ann moves the runners, back at 16:00", by="ann")
    for account in ("a1", "a2", "a1", "a1"):
        await scene.report.enqueue(account=account)
    for to in ("ann", "bela"):
        await scene.mail.enqueue(to=to, template="weekly")
    async with app.claims.claim("poll:gitlab:notes:9917") as claim:
        claim.result = {"note": 9917}


async def _shoot(
    browser: Browser, base: str, name: str, path: str, *, dark: bool, phone: bool = False, height: int = 900
) -> None:
    context = await browser.new_context(
        viewport={"width": 390 if phone else 1360, "height": height},
        color_scheme="dark" if dark else "light",
        device_scale_factor=2 if phone else 1.5,
        is_mobile=phone,
        has_touch=phone,
    )
    page = await context.new_page()
    await page.goto(base + path)
    await page.wait_for_selector("[data-live][data-state=live]")
    await page.screenshot(path=PICTURES / f"{name}.png")
    await context.close()


async def _rush(app: Any, scene: Any) -> None:
    """More at once than there is room for."""
    for number in range(9):
        await _hear(app, scene.SECRET, 10**9 + number, "push")
    for account in ("a3", "a3", "a3"):
        await scene.report.enqueue(account=account)


async def _find(app: Any, *states: str) -> int:
    """A job that stands so."""
    while True:
        found = await app.jobs.list(*states, limit=1)
        if found:
            return int(found[0].id)
        await asyncio.sleep(0.05)


async def _awaited(app: Any) -> str:
    """A lock that some wait for."""
    while True:
        for lock in await app.locks.list():
            if len(lock.waiters) > 1:
                return str(lock.key)
        await asyncio.sleep(0.05)


async def _pictures(app: Any, base: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        await _shoot(browser, base, "overview-dark", "/", dark=True, height=1080)
        await _shoot(browser, base, "overview-light", "/", dark=False, height=1080)
        await _shoot(browser, base, "job", f"/jobs/{await _find(app, 'waiting')}", dark=False, height=800)
        await _shoot(browser, base, "failed", f"/jobs/{await _find(app, 'failed')}", dark=True, height=860)
        key = await _awaited(app)
        await _shoot(browser, base, "lock", f"/locks/{key.replace('/', '%2F')}", dark=False, height=720)
        events = await app.events.list(limit=1)
        await _shoot(browser, base, "event", f"/events/{events[0].id}", dark=True)
        await _shoot(browser, base, "phone", "/", dark=True, phone=True, height=844)
        await browser.close()


async def _main(minutes: float) -> None:
    from interlock.web.serve import Address, Serving, listening
    from tests.web.browser import scene

    interlock = Path(sys.executable).parent / "interlock"
    command = [interlock, "run", "tests.web.browser.scene:app", "--concurrency", "10"]
    workers = [subprocess.Popen(command) for _ in range(3)]
    try:
        async with scene.app as app, Serving(app.web(), listening(Address("127.0.0.1", 0))) as serving:
            await _props(app, scene)
            traffic = asyncio.create_task(_traffic(app, scene.SECRET))
            await asyncio.sleep(minutes * 60)
            await _rush(app, scene)
            await _pictures(app, serving.urls[0])
            traffic.cancel()
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(30)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INTERLOCK_URL"] = f"sqlite:///{folder}/bot.db"
        asyncio.run(_main(float(sys.argv[1]) if len(sys.argv) > 1 else 10))
