"""The log and the progress of a job on its page, in lists, in the API and as a stream."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from interlock.testing.conformance.jobs.driver import new_job
from interlock.web.log_stream import LogStreams
from tests.web.client import scope_of
from tests.web.pages.bot import until

if TYPE_CHECKING:
    from tests.web.pages.asking import Asker
    from tests.web.pages.bot import Bot

EVIL = "<script>window.hacked = 1</script> \x1b[31m\u202e</ol>\"'{{7*7}}"


async def chat(bot: Bot, *lines: str, **how: Any) -> int:
    """A job that has logged these lines and reported progress, and is seen to have."""
    job = await bot.enqueue("chat", lines=list(lines), **how)

    async def seen() -> bool:
        return (await bot.app.insight.job_log(job)).progress is not None

    await until(seen)
    return job


async def test_a_page_shows_the_log_and_the_progress_of_its_job(bot: Bot, asker: Asker) -> None:
    job = await chat(bot, "one", "warning|two", EVIL, message=EVIL, how="stay")
    text = (await asker.get(f"/jobs/{job}")).text
    section = text[text.index('<section class="card log"') :]
    lines = re.findall(r'<li data-key="line-(\d+)" class="level-(\w+)">', section)

    assert lines == [("1", "info"), ("2", "warning"), ("3", "info")]
    assert "data-log-live" in section
    assert '<progress max="1" value="0.4000"' in text
    assert "<b>40%</b>" in text
    assert "<script>window.hacked" not in text
    assert "&lt;script&gt;window.hacked" in section
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert '<progress max="1" value="0.4000"' in (await asker.get("/jobs")).text, "lists have a small one"
    await bot.app.jobs.cancel(job, by="test", reason="enough")
    await bot.until(job, "cancelled")
    assert "data-log-live" not in (await asker.get(f"/jobs/{job}")).text


async def test_a_job_that_logs_nothing_has_no_log(bot: Bot, asker: Asker) -> None:
    job = await bot.enqueue("sync", lane="quiet")
    await bot.until(job, "done")
    text = (await asker.get(f"/jobs/{job}")).text
    assert "card log" not in text
    assert "<progress" not in text


async def test_a_page_shows_the_last_lines_and_what_is_missing(bot: Bot, asker: Asker) -> None:
    job = await chat(bot, *(f"line {number}" for number in range(1, 1501)), how="stay")
    text = (await asker.get(f"/jobs/{job}")).text

    assert len(re.findall('data-key="line-', text)) == 200
    assert "line 1500" in text
    assert "the last 200 of 1,500 lines, 500 dropped" in text
    assert f'href="/api/jobs/{job}/log"' in text
    first = (await asker.get(f"/api/jobs/{job}/log?after=90&limit=20")).json
    assert [row["number"] for row in first["rows"]] == [*range(91, 101), *range(601, 611)]
    assert (first["lines"], first["dropped"], first["more"], first["state"]) == (1500, 500, True, "running")


async def test_the_api_has_lines_and_refuses_nonsense(bot: Bot, asker: Asker) -> None:
    job = await chat(bot, "error|one")
    answer = (await asker.get(f"/api/jobs/{job}/log")).json
    assert [(row["number"], row["level"], row["text"], row["attempt"]) for row in answer["rows"]] == [
        (1, "error", "one", 1)
    ]
    assert answer["progress"]["fraction"] == 0.4
    assert (await asker.get(f"/api/jobs/{job}")).json["log"]["rows"] == answer["rows"]
    assert (await asker.get("/api/jobs/99999999/log")).status == 404
    for query in ("after=-1", "after=x", "after=" + "9" * 30, "limit=0", "limit=99999999"):
        assert (await asker.get(f"/api/jobs/{job}/log?{query}")).status == 400, query
    assert (await asker.get("/api/jobs/x/log")).status == 404
    assert (await asker.get("/api/jobs/99999999/log/stream")).status == 404
    assert (await asker.get(f"/api/jobs/{job}/log/stream?after=x")).status == 400


class Reader:
    """A client of a stream."""

    def __init__(self, streams: LogStreams, job: int, query: str = "", **headers: str) -> None:
        scope = scope_of(path=f"/api/jobs/{job}/log/stream?{query}", headers=list(headers.items()))
        scope["path_params"] = {"ref": str(job)}
        self.status = 0
        self.body = b""
        self.leaves = asyncio.Event()
        self.task = asyncio.ensure_future(streams(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")

    @property
    def events(self) -> list[tuple[str, Any]]:
        found = re.findall(r"event: (\w+)\ndata: (.*)\n", self.body.decode())
        return [(name, json.loads(data)) for name, data in found]


async def test_a_stream_brings_lines_as_they_come_and_ends_with_the_job(bot: Bot, asker: Asker) -> None:
    job = await chat(bot, "one", EVIL, how="stay")
    reader = Reader(LogStreams(asker.web, every=0.02), job)
    await until(lambda: _true(len(reader.events) == 3))
    assert [name for name, _ in reader.events] == ["line", "line", "progress"]
    await bot.app.jobs.cancel(job, by="test", reason="enough")
    await asyncio.wait_for(reader.task, 10)
    assert reader.events[-1] == ("end", {"state": "cancelled", "dropped": 0})
    assert reader.body.count(b"id: ") == 2
    assert reader.body.startswith(b"id: 1\nevent: line\n")

    again = Reader(LogStreams(asker.web, every=0.02), job, **{"Last-Event-ID": "1"})
    await asyncio.wait_for(again.task, 10)
    assert [data["number"] for name, data in again.events if name == "line"] == [2]


async def test_streams_are_few_and_end_with_their_client_and_their_server(bot: Bot, asker: Asker) -> None:
    job = await chat(bot, "one", how="stay")
    streams = LogStreams(asker.web, limit=1, every=0.02)
    first = Reader(streams, job)
    await until(lambda: _true(bool(first.events)))
    second = Reader(streams, job)
    await asyncio.wait_for(second.task, 10)
    assert second.status == 503
    first.leaves.set()
    await asyncio.wait_for(first.task, 10)
    third = Reader(streams, job, "after=1")
    await until(lambda: _true(third.status == 200))
    asker.web.close()
    await asyncio.wait_for(third.task, 10)


async def _true(value: bool) -> bool:
    return value


async def test_a_page_links_to_what_enqueued_its_job(bot: Bot, asker: Asker) -> None:
    store = bot.app.jobs._store_client.store.jobs
    ids = await store.ids(3)
    texts = (f"job:{ids[0]};event:7", f"end:{ids[0]}", f"schedule:{EVIL}@1.000000")
    await store.enqueue([new_job(number, cause=text) for number, text in zip(ids, texts, strict=True)])
    pages = [(await asker.get(f"/jobs/{number}")).text for number in ids]

    facts = [text[text.index("<dt>Enqueued by</dt>") :].partition("</dd>")[0] for text in pages]
    assert f'/jobs/{ids[0]}"' in facts[0]
    assert f"the end of job {ids[0]}" in facts[1]
    assert "schedule &lt;script&gt;" in facts[2]
    chatting = (await asker.get(f"/jobs/{await chat(bot, 'one')}")).text
    assert "Enqueued by" not in chatting


async def test_a_page_links_to_what_its_job_waits_for(bot: Bot, asker: Asker) -> None:
    store = bot.app.jobs._store_client.store.jobs
    first, second = await store.ids(2)
    options = f'{{"after":[{first}],"if_failed":"cancel"}}'
    await store.enqueue([new_job(first, delay=60.0), new_job(second, after=(first,), options=options)])
    page = (await asker.get(f"/jobs/{second}")).text
    listed = (await asker.get("/jobs?state=blocked")).text

    facts = page[page.index("<dt>Starts after</dt>") :].partition("</dd>")[0]
    assert f'/jobs/{first}"' in facts
    assert "blocked" in page
    assert f'/jobs/{second}"' in listed
