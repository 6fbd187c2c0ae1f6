"""The example payloads of GitHub's own JavaScript client: each is signed, sent three times, and accepted once."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from interlock import App
from tests.system.running import Running, running, signature

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.testing.servers import PostgresServer

pytestmark = pytest.mark.system

PACKAGE = "@octokit/webhooks-examples@7.6.1"
COUNT = 726
PINGS = 11
"""A ping only asks for an answer: it is answered with 200 and not stored."""
CONNECTIONS = 8
BOT = """
from interlock import App, Event, GitHub

app = App({url!r})
app.source(GitHub(secret={secret!r}))

@app.on("github.**")
async def first(event: Event) -> None: ...

@app.on("github.**")
async def second(event: Event) -> None: ...
"""


class Delivery(NamedTuple):
    id: str
    """Made by the test, as GitHub makes a GUID for each delivery: the examples are bodies without headers."""
    kind: str
    body: bytes


@pytest.fixture(scope="module")
def deliveries(tmp_path_factory: pytest.TempPathFactory) -> list[Delivery]:
    directory = tmp_path_factory.mktemp("npm")
    npm = shutil.which("npm")
    assert npm is not None, "npm is missing: tests/system/install.sh installs it"
    options = ["--prefix", str(directory), "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev"]
    subprocess.run([npm, "install", *options, PACKAGE], check=True, capture_output=True, timeout=120)
    found = [
        Delivery(f"{file.parent.name}-{hook['name']}-{number}", hook["name"], json.dumps(example).encode())
        for file in sorted((directory / "node_modules/@octokit/webhooks-examples").glob("*/index.json"))
        for hook in json.loads(file.read_text())
        for number, example in enumerate(hook["examples"])
    ]
    assert len(found) == COUNT == len({one.id for one in found})
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bot.db'}"
    server: PostgresServer = request.getfixturevalue("debian_postgres")
    return server.url(request.getfixturevalue("database"))


def test_each_example_is_accepted_once(deliveries: list[Delivery], url: str, tmp_path: Path) -> None:
    with running(tmp_path, url, bot=BOT) as bot:
        rounds = [send_all(bot, deliveries) for _ in range(3)]
    pings = {one.id for one in deliveries if one.kind == "ping"}
    wanted = {one.id for one in deliveries} - pings

    assert [answers_to(pings, answers) for answers in rounds] == [Counter({(200, "ignored"): len(pings)})] * 3
    first, *again = (answers_to(wanted, answers) for answers in rounds)
    assert first == Counter({(202, "accepted"): len(wanted)})
    assert again == [Counter({(200, "duplicate"): len(wanted)})] * 2
    assert (len(wanted), len(pings)) == (COUNT - PINGS, PINGS)

    stored, jobs = asyncio.run(kept(url))
    assert stored == sorted(wanted)
    assert jobs == {"first": len(wanted), "second": len(wanted)}


def answers_to(ids: set[str], answers: dict[str, tuple[int, str]]) -> Counter[tuple[int, str]]:
    return Counter(answer for id, answer in answers.items() if id in ids)  # noqa: A001


def send_all(bot: Running, deliveries: list[Delivery]) -> dict[str, tuple[int, str]]:
    """Send each on one of several connections; the status and the verdict of each, by its id."""
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        parts = [deliveries[number::CONNECTIONS] for number in range(CONNECTIONS)]
        return {id: answer for part in threads.map(partial(send, bot), parts) for id, answer in part.items()}  # noqa: A001


def send(bot: Running, deliveries: list[Delivery]) -> dict[str, tuple[int, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", bot.port, timeout=30)
    answers: dict[str, tuple[int, str]] = {}
    for one in deliveries:
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": one.kind,
            "X-GitHub-Delivery": one.id,
            "X-Hub-Signature-256": signature(one.body),
        }
        connection.request("POST", "/webhooks/github", one.body, headers)
        answer = connection.getresponse()
        answers[one.id] = answer.status, json.loads(answer.read())["status"]
    connection.close()
    return answers


async def kept(url: str) -> tuple[list[str], Counter[str]]:
    """The ids of the deliveries that were stored, and how many jobs there are, by handler."""
    async with App(url) as app:
        stored: list[str] = []
        before: str | None = None
        while True:
            page = await app.insight.events(limit=500, before=before)
            stored += [row.event.delivery for row in page.rows]
            before = page.more
            if before is None:
                break
        jobs: Counter[str] = Counter()
        while True:
            found = await app.insight.jobs(limit=500, before=before)
            jobs.update(row.job.name for row in found.rows)
            before = found.more
            if before is None:
                return sorted(stored), jobs
