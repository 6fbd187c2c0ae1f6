"""The bot that the demo runs, as an example of one: what it does about webhooks, under which lanes, limits and locks.

Nothing in it says that it is watched, except that each handler writes down what it does.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.app import App
from interlock.errors import InterlockError
from interlock.events import Event, GitHub
from interlock.jobs import Retry, RetryLater, current_job
from interlock.limits import Cooldown, Slots
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock.cli.demo.records import Notebook
    from interlock.cli.demo.target import Target
    from interlock.locks import Lease

__all__ = ["COOLDOWN_SECONDS", "HEARD_BY", "MOST_CONTAINERS", "OWN", "SECRET", "SESSION_SECONDS", "Place", "define"]

SECRET = "It's a Secret to Everybody"  # noqa: S105 - as the name says
OWN = "interlock-demo[bot]"
SESSION_SECONDS = 3.0
MOST_CONTAINERS = 2
COOLDOWN_SECONDS = 1.2
HEARD_BY = {
    "issues.opened": ("triage", "welcome"),
    "issues.labeled": ("triage",),
    "issues.closed": ("triage",),
    "issue_comment.created": ("answer",),
    "push": ("sync",),
    "check_suite.requested": ("build",),
}
"""Which handlers have to hear what; said once more here, so that the audit need not ask the app."""

_ISSUE = "{repository.full_name}#{issue.number}"
_CONTAINERS = Slots("containers", MOST_CONTAINERS)
_ACCOUNT = Cooldown("account", COOLDOWN_SECONDS, key="{repository.owner.login}")
_RETRY = Retry(attempts=3, delay=0.5, max_delay=2.0)
_PATIENT = Retry(attempts=20, delay=0.3, max_delay=2.0)
_KEEP_SECONDS = 900.0  # a demo may run for hours
_STEP = 0.12
_FAILS = 0.08
_ASKED_TO_WAIT = 0.03


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is. URLs may hold passwords, so they go by the environment, where nobody else sees them."""

    url: str
    locks: str
    """Where locks and claims are, if elsewhere."""
    namespace: str
    directory: str

    def app(self) -> App:
        """The app, not open yet, without handlers."""
        settings = Settings(
            namespace=self.namespace,
            session_ttl=SESSION_SECONDS,
            recheck_interval=1.0,
            keep_history=_KEEP_SECONDS,
            keep_events=_KEEP_SECONDS,
        )
        return App(self.url, locks=self.locks or None, claims=self.locks or None, settings=settings)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with."""
        return {"INTERLOCK_URL": self.url, "INTERLOCK_DEMO_LOCKS": self.locks}

    @classmethod
    def of_environment(cls, namespace: str, directory: str) -> Place:
        """What a process was started with."""
        return cls(os.environ["INTERLOCK_URL"], os.environ["INTERLOCK_DEMO_LOCKS"], namespace, directory)


def define(
    app: App, log: Notebook | None = None, target: Target | None = None, asked: Callable[[int], float] | None = None
) -> Freezer:
    """Give the app its source and its handlers. Only where they run do they need a log and a target."""
    app.source(GitHub(SECRET, own=[OWN]))
    chance = random.Random()  # noqa: S311 - nothing here is a secret
    told = _Teller(log, asked)
    freezer = Freezer()

    @app.on("github.issues.*", lane=_ISSUE, retry=_RETRY)
    async def triage(event: Event) -> str:
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            fail_now_and_then(chance)
        return f"{event.payload['action']}: looked at"

    @app.on("github.issue_comment.created", lane=_ISSUE, retry=_RETRY)
    async def answer(event: Event) -> str:
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.05, 0.35))
            if "/explode" in event.payload["comment"]["body"]:
                raise RuntimeError(f"nobody knows how to answer {event.payload['comment']['html_url']}")
            fail_now_and_then(chance)
        return f"answered {event.actor}"

    @app.on("github.issues.opened", name="welcome", retry=_PATIENT)
    async def welcome(event: Event) -> str:
        """Greet everybody once, however many issues they open at the same time."""
        key = f"welcome:{event.payload['repository']['owner']['login']}:{event.actor}"
        with told.working(event) as tell:
            async with app.claims.claim(key, keep=_KEEP_SECONDS) as claim:
                if not claim.new:
                    tell("greeted before", key=key)
                    return f"{event.actor} is {'being greeted' if claim.state == 'in progress' else 'known'}"
                tell("greets", key=key, fence=claim.fence)
                await asyncio.sleep(chance.uniform(0.3, 0.8))
            tell("greeted", key=key)
        return f"greeted {event.actor}"

    @app.on("github.check_suite.requested", limits=[_CONTAINERS, _ACCOUNT], retry=_PATIENT)
    async def build(event: Event) -> str:
        """Only so many containers at once, and for each account only so often."""
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.6, 1.4))
        return f"built {event.payload['check_suite']['head_sha'][:7]}"

    @app.on("github.push", retry=_PATIENT)
    async def sync(event: Event) -> str:
        """One at a time may change a repository; the target refuses the writes of those who no longer may."""
        key = f"repo:{event.payload['repository']['full_name']}"
        with told.working(event) as tell:
            tell("asked", key=key)
            try:
                async with app.locks.acquire(key, wait=60) as lease:
                    lease.ensure()  # a process that stood still meanwhile would write down a grant long gone
                    tell("granted", key=key, fence=lease.fence)
                    try:
                        await change(key, lease, tell)
                    finally:
                        tell("released", key=key, fence=lease.fence)
            except BaseException:
                tell("gave up", key=key)
                raise
        return f"synced {event.payload['after'][:7]}"

    async def change(key: str, lease: Lease, tell: Callable[..., None]) -> None:
        assert target is not None
        for _ in range(chance.randint(2, 5)):
            if not target.write(key, lease.fence):
                raise ConnectionError(f"{key} refused fence {lease.fence}")
            await asyncio.sleep(_STEP)
            freezer.stand_still_if_told(tell, key=key, fence=lease.fence)

    return freezer


def fail_now_and_then(chance: random.Random) -> None:
    """As forges do; never the last time, so that it is known which ones fail for good."""
    attempt = current_job().attempt
    if attempt == 1 and chance.random() < _ASKED_TO_WAIT:
        raise RetryLater(3, "the forge asks to slow down")
    if attempt < _RETRY.attempts and chance.random() < _FAILS:
        raise ConnectionError("the forge is away")


class _Teller:
    """Writes down what handlers do."""

    def __init__(self, log: Notebook | None, asked: Callable[[int], float] | None) -> None:
        self._log = log
        self._asked = asked

    @contextmanager
    def working(self, event: Event) -> Generator[Callable[..., None]]:
        """A handler at work."""
        assert self._log is not None
        assert self._asked is not None
        log, job = self._log, current_job()

        def tell(what: str, **fields: Any) -> None:
            log.write(what, job=job.id, **fields)

        tell(
            "began",
            handler=job.name,
            delivery=event.delivery,
            attempt=job.attempt,
            fence=job.fence,
            asked=self._asked(job.id),
            replay=event.replay_of is not None,
        )
        try:
            yield tell
        except asyncio.CancelledError:
            tell("stopped")
            raise
        except (Exception, RetryLater) as error:
            tell("failed", error=type(error).__name__, lost=isinstance(error, InterlockError))
            raise
        else:
            tell("ended")


class Freezer:
    """Lets a process stand still, as if suspended, while it holds a lock."""

    def __init__(self) -> None:
        self.told = False

    def stand_still_if_told(self, tell: Callable[..., None], **fields: Any) -> None:
        """Stop until somebody sends SIGCONT."""
        if self.told:
            self.told = False
            tell("frozen", **fields)
            os.kill(os.getpid(), signal.SIGSTOP)
            tell("thawed", **fields)
