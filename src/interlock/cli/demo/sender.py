"""The forge: posts signed webhooks, those of an issue in order, and repeats some of them as forges do.

The next webhook of an issue is posted when the previous one was accepted. Some are posted two or three times with the
same delivery ID, at once or later. Some are forged, and some report the bot's own actions.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import random
import secrets
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.cli.demo.bot import OWN, SECRET
from interlock.cli.demo.payloads import check_suite, comment_created, issue_event, push

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock.cli.demo.door import Answer, Door
    from interlock.cli.demo.records import Minutes

__all__ = ["REPOSITORIES", "Sender"]

REPOSITORIES = ("acme/api", "acme/web", "globex/docs", "initech/mobile")
_WHO = "forge"
_ISSUES = 6  # open at the same time
_PEOPLE = ("ann", "bob", "chen", "dora", "emil", "fay")
_TITLES = ("It stops at midnight", "Two of them at once", "A typo on the first page", "Slow since the last release")
_COMMENTS = ("Same here.", "Can you try the main branch?", "Here is a log.", "/retest", "Fixed by the last push?")
_LABELS = ("bug", "question", "urgent", "good first issue")
_TWICE_AT_ONCE = 0.2
_LATER = 0.2
_DOOMED = 0.02
_PAUSE = 0.3  # before a webhook without a response is posted again
_SLOW_DOWN = 60  # maximum number of webhooks in progress


@dataclass(frozen=True, slots=True)
class Webhook:
    """One delivery."""

    kind: str
    payload: dict[str, Any]
    lane: str = ""
    number: int = 0
    """Its position in the lane."""
    fate: str = "good"
    """The expected outcome: good, doomed (its job fails permanently), forged (refused) or own (ignored)."""

    @property
    def type(self) -> str:
        """Its event's type."""
        return f"{self.kind}.{self.payload['action']}" if "action" in self.payload else self.kind


class Sender:
    """Everything that happens at the forge."""

    def __init__(self, door: Door, minutes: Minutes, first_issue: int, under_way: Callable[[], int]) -> None:
        self._door = door
        self._minutes = minutes
        self._run = secrets.token_hex(4)
        """The prefix of its delivery IDs: a user's own store still knows those of the last demo."""
        self._next_issue = first_issue
        self._next_id = first_issue * 1000
        self._under_way = under_way
        self._random = random.Random()  # noqa: S311 - nothing here is a secret
        self._stop = asyncio.Event()
        self._later: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.open_lanes: list[str] = []
        """The issues that are currently discussed."""

    @property
    def run(self) -> str:
        """The prefix of all its delivery IDs."""
        return self._run

    def start(self) -> None:
        """Begin."""
        lives: list[Coroutine[Any, Any, None]] = [self._issues() for _ in range(_ISSUES)]
        self._tasks = [asyncio.create_task(life) for life in (*lives, self._pushes(), self._mischief())]

    async def finish(self) -> None:
        """Finish issues that were begun, and begin no more."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*self._later)

    def cancel(self) -> None:
        """Post nothing more at all."""
        for task in (*self._tasks, *self._later):
            task.cancel()

    # -- what happens ----------------------------------------------------------------------------------------------

    async def _issues(self) -> None:
        """Create one issue after the other: opened, discussed, closed."""
        while await self._pause(0.0, 1.5):
            self._next_issue += 1
            repository, author = self._random.choice(REPOSITORIES), self._person()
            issue = {
                "number": self._next_issue,
                "title": self._random.choice(_TITLES),
                "user": author,
                "labels": [],
                "state": "open",
                "comments": 0,
                "created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            lane = f"{repository}#{self._next_issue}"
            self.open_lanes.append(lane)
            await self._life(lane, repository, issue)
            self.open_lanes.remove(lane)

    async def _life(self, lane: str, repository: str, issue: dict[str, Any]) -> None:
        number = 1
        await self._post(Webhook("issues", issue_event("opened", repository, issue, issue["user"]), lane, number))
        for _ in range(self._random.randint(3, 8)):
            if not await self._pause(0.8, 3.0):
                return
            for _ in range(self._random.randint(1, 4)):
                number += 1
                await self._post(self._about(repository, issue, lane, number))
        issue["state"] = "closed"
        await self._post(Webhook("issues", issue_event("closed", repository, issue, "ann"), lane, number + 1))

    def _about(self, repository: str, issue: dict[str, Any], lane: str, number: int) -> Webhook:
        """A label, or a comment."""
        left = [label for label in _LABELS if label not in issue["labels"]]
        if left and self._random.random() < 0.2:
            label = self._random.choice(left)
            issue["labels"].append(label)
            return Webhook("issues", issue_event("labeled", repository, issue, "ann", label), lane, number)
        issue["comments"] += 1
        self._next_id += 1
        doomed = self._random.random() < _DOOMED
        text = "/explode" if doomed else self._random.choice(_COMMENTS)
        comment = comment_created(repository, issue, self._person(), text, self._next_id)
        return Webhook("issue_comment", comment, lane, number, "doomed" if doomed else "good")

    async def _pushes(self) -> None:
        """Push in bursts; each push requests a build."""
        weights = range(len(REPOSITORIES), 0, -1)
        while await self._pause(0.4, 2.0):
            (repository,) = self._random.choices(REPOSITORIES, weights)
            for _ in range(self._random.randint(1, 4)):
                before, after = secrets.token_hex(20), secrets.token_hex(20)
                who = self._person()
                self._next_id += 1
                await self._post(Webhook("push", push(repository, who, before, after, "See the diff")))
                if self._random.random() < 0.45:
                    suite = check_suite(repository, who, before, after, self._next_id)
                    await self._post(Webhook("check_suite", suite))

    async def _mischief(self) -> None:
        """Post webhooks that must have no effect."""
        while await self._pause(1.0, 3.0):
            repository = self._random.choice(REPOSITORIES)
            fate = self._random.choice(("forged", "own"))
            who = OWN if fate == "own" else "mallory"
            payload = push(repository, who, secrets.token_hex(20), secrets.token_hex(20), "Nothing to see here")
            await self._post(Webhook("push", payload, fate=fate))

    def _person(self) -> str:
        """A person, sometimes a new one, who is then greeted."""
        return f"{self._random.choice(_PEOPLE)}{self._next_issue // 4}"

    async def _pause(self, least: float, limit: float) -> bool:
        """Wait a while, longer if too much is in progress; False at the end."""
        pause = self._random.uniform(least, limit)
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(pause):
                    await self._stop.wait()
            except TimeoutError:
                if self._under_way() < _SLOW_DOWN:
                    return True
                pause = 0.2
        return False

    # -- posting ---------------------------------------------------------------------------------------------------

    async def _post(self, webhook: Webhook) -> None:
        """Post it until it is accepted, and sometimes once more."""
        guid = str(uuid.uuid4())
        delivery = f"{self._run}{guid[8:]}"
        body = json.dumps(webhook.payload).encode()
        headers = _headers(delivery, webhook.kind, body, forged=webhook.fate == "forged")
        self._minutes.note(
            _WHO,
            "posting",
            delivery=delivery,
            type=webhook.type,
            lane=webhook.lane,
            number=webhook.number,
            fate=webhook.fate,
            account=webhook.payload["repository"]["owner"]["login"],
        )
        dice = self._random.random()
        copies = self._random.randint(2, 3) if dice < _TWICE_AT_ONCE else 1
        while True:
            answers = await asyncio.gather(*(self._once(delivery, headers, body) for _ in range(copies)))
            if any(_final(answer) for answer in answers):
                break
            await asyncio.sleep(_PAUSE)
        if _TWICE_AT_ONCE <= dice < _TWICE_AT_ONCE + _LATER:
            task = asyncio.create_task(self._again(delivery, headers, body))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def _again(self, delivery: str, headers: dict[str, str], body: bytes) -> None:
        await self._pause(0.2, 6.0)
        await self._once(delivery, headers, body)

    async def _once(self, delivery: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = await self._door.post(headers, body)
        status, verdict, jobs = answer
        self._minutes.note(_WHO, "answered", delivery=delivery, status=status, verdict=verdict, jobs=jobs)
        return answer


def _final(answer: Answer) -> bool:
    return 200 <= answer.status < 500


def _headers(delivery: str, kind: str, body: bytes, *, forged: bool) -> dict[str, str]:
    signature = hmac.new(b"a guess" if forged else SECRET.encode(), body, "sha256").hexdigest()
    return {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": kind,
        "X-GitHub-Hook-ID": "292430182",
        "X-GitHub-Hook-Installation-Target-Type": "repository",
        "X-Hub-Signature-256": f"sha256={signature}",
    }
