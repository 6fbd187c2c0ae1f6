"""The parts of the demo: what is written down, the target, the forge's webhooks, and the two ways in."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.cli.demo.bot import HEARD_BY, OWN, SECRET, Locations, define
from interlock.cli.demo.door import Answer, HandDoor, HttpDoor
from interlock.cli.demo.harm import Harm
from interlock.cli.demo.records import Minutes, Notebook
from interlock.cli.demo.sender import Sender
from interlock.cli.demo.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def minutes(tmp_path: Path) -> Iterator[Minutes]:
    minutes = Minutes(tmp_path)
    yield minutes
    minutes.close()


def test_what_several_write_down_comes_out_in_order(minutes: Minutes, tmp_path: Path) -> None:
    books = [Notebook(tmp_path, who) for who in ("a", "b")]
    for number in range(100):
        books[number % 2].write("counted", number=number)
    minutes.note("director", "noted", number=100)
    books[0].write("counted", number=101)

    found = minutes.new()

    assert [record["number"] for record in found] == list(range(102))
    assert [record["who"] for record in found[-3:]] == ["b", "director", "a"]
    assert minutes.new() == []
    assert minutes.keep(tmp_path / "kept") == 102
    for book in books:
        book.close()


def test_target_refuses_a_stale_fence(minutes: Minutes, tmp_path: Path) -> None:
    target = Target(tmp_path, Notebook(tmp_path, "a"))

    assert [target.write("repo:a/b", fence) for fence in (3, 3, 2, 4)] == [True, True, False, True]
    assert target.write("other", 1)
    assert [record["accepted"] for record in minutes.new()] == [True, True, False, True, True]


async def test_the_forge_posts_signed_webhooks_of_every_kind_each_issue_in_order(minutes: Minutes) -> None:
    door = _Door()
    sender = Sender(door, minutes, 100, under_way=lambda: 0)
    sender._pause = door.pause  # type: ignore[method-assign]
    sender.start()
    await asyncio.wait_for(door.enough.wait(), 30)
    sender.cancel()

    kinds = {f"{kind}.{payload['action']}" if "action" in payload else kind for kind, payload, _, _ in door.posts}
    assert kinds == set(HEARD_BY)
    assert all(2000 < size < 10_000 for _, _, size, _ in door.posts)
    forged = [payload for _, payload, _, signed in door.posts if not signed]
    assert forged
    assert {payload["sender"]["login"] for payload in forged} == {"mallory"}
    assert any(payload["sender"]["login"] == OWN for _, payload, _, _ in door.posts)
    posted = [record for record in minutes.new() if record["what"] == "posting"]
    lanes: dict[str, list[int]] = {}
    for record in posted:
        if record["lane"]:
            lanes.setdefault(record["lane"], []).append(record["number"])
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in lanes.values())


async def test_a_webhook_that_got_no_answer_is_posted_again(minutes: Minutes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.demo.sender._PAUSE", 0.0)
    door = _Door(away=5)
    sender = Sender(door, minutes, 100, under_way=lambda: 0)
    sender._pause = door.pause  # type: ignore[method-assign]
    sender.start()
    await asyncio.wait_for(door.enough.wait(), 30)
    sender.cancel()

    answered = [record for record in minutes.new() if record["what"] == "answered"]
    failed = {record["delivery"] for record in answered if record["status"] in (0, 503)}
    assert failed
    assert failed <= {record["delivery"] for record in answered if record["status"] == 202}


async def test_by_hand_a_webhook_is_answered_as_over_http(tmp_path: Path) -> None:
    app = Locations(f"sqlite:///{tmp_path / 'demo.db'}", "", "demo", str(tmp_path)).app()
    define(app)
    payload = {"sender": {"login": "ann"}, "repository": {"full_name": "a/b", "owner": {"login": "a"}}}
    body = json.dumps(payload).encode()
    async with app:
        door = HandDoor(app)
        headers = {"X-GitHub-Delivery": "1", "X-GitHub-Event": "push", "X-Hub-Signature-256": _signed(body)}
        answers = [
            await door.post(headers, body),
            await door.post(headers, body),
            await door.post(headers, body + b" "),
        ]
        bad = {**headers, "X-Hub-Signature-256": _signed(b"[]")}
        answers.append(await door.post(bad, b"[]"))

    assert answers == [
        Answer(202, "accepted", answers[0].jobs),
        Answer(200, "duplicate"),
        Answer(401, "refused"),
        Answer(400, "refused"),
    ]


async def test_a_door_that_nobody_opens_is_no_answer() -> None:
    assert await HttpDoor("http://127.0.0.1:9/").post({}, b"") == Answer(0)


def test_every_kind_of_webhook_is_heard_by_the_handlers_that_the_audit_waits_for() -> None:
    app = App("memory://")
    define(app)

    for kind, handlers in HEARD_BY.items():
        heard = {handler.job.name for handler in app.events._router.matching(f"github.{kind}")}
        assert heard == set(handlers)


def test_harm_prefers_one_that_has_much_to_take_over_and_leaves_time_between() -> None:
    harm = Harm()
    names = ["a", "b", "c"]

    assert harm.victim(1.0, {}, names) is None
    assert harm.victim(2.6, {"a": 1}, names) is None
    assert harm.victim(2.7, {"a": 1, "b": 6}, names) == ("kill", "b")
    assert harm.victim(5.0, {"c": 9}, names) is None
    assert harm.victim(7.2, {"c": 9}, names) == ("freeze", "c")
    assert harm.victim(12.0, {"a": 9}, names) is None


class _Door:
    """Takes everything, and calls out when it has seen enough."""

    def __init__(self, away: int = 0) -> None:
        self.posts: list[tuple[str, dict[str, object], int, bool]] = []
        self.enough = asyncio.Event()
        self._away = away

    async def post(self, headers: dict[str, str], body: bytes) -> Answer:
        payload = json.loads(body)
        signed = headers["X-Hub-Signature-256"] == _signed(body)
        self.posts.append((headers["X-GitHub-Event"], payload, len(body), signed))
        await asyncio.sleep(0)
        if self._away and signed:
            self._away -= 1
            return Answer(503 if self._away % 2 else 0)
        kinds = {(kind, post.get("action")) for kind, post, _, _ in self.posts}
        senders = {post["sender"]["login"] for _, post, _, _ in self.posts}  # type: ignore[index]
        if len(kinds) == len(HEARD_BY) and {OWN, "mallory"} <= senders:
            self.enough.set()
        return Answer(202, "accepted") if signed else Answer(401, "refused")

    async def pause(self, _least: float, _limit: float) -> bool:
        await asyncio.sleep(0)
        return not self.enough.is_set()


def _signed(body: bytes) -> str:
    return f"sha256={hmac.new(SECRET.encode(), body, 'sha256').hexdigest()}"
