"""The bot of the demo, as an example: how it handles webhooks, with which lanes, limits and locks.

It is an ordinary bot, except that each handler records what it does.
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

__all__ = ["COOLDOWN_SECONDS", "HEARD_BY", "MAX_CONTAINERS", "OWN", "SECRET", "SESSION_SECONDS", "Locations", "define"]

SECRET = "It's a Secret to Everybody"  # noqa: S105 - as the name says
OWN = "interlock-demo[bot]"
SESSION_SECONDS = 3.0
MAX_CONTAINERS = 2
COOLDOWN_SECONDS = 1.2
HEARD_BY = {
    "issues.opened": ("triage", "welcome"),
    "issues.labeled": ("triage",),
    "issues.closed": ("triage",),
    "issue_comment.created": ("answer",),
    "push": ("sync",),
    "check_suite.requested": ("build",),
}
"""The handlers of each event type, repeated here so that the audit does not depend on the app."""

_ISSUE = "{repository.full_name}#{issue.number}"
_CONTAINERS = Slots("containers", MAX_CONTAINERS)
_ACCOUNT = Cooldown("account", COOLDOWN_SECONDS, key="{repository.owner.login}")
_RETRY = Retry(attempts=3, delay=0.5, max_delay=2.0)
_PATIENT = Retry(attempts=20, delay=0.3, max_delay=2.0)
_KEEP_SECONDS = 900.0  # a demo may run for hours
_STEP = 0.12
_FAILS = 0.08
_ASKED_TO_WAIT = 0.03


@dataclass(frozen=True, slots=True)
class Locations:
    """The locations of everything. URLs may contain passwords, so they are passed in the environment."""

    url: str
    locks: str
    """The store of locks and claims, if it is another one."""
    namespace: str
    directory: str

    def app(self) -> App:
        """The app, not opened, without handlers."""
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
        """The arguments for a process."""
        return {"INTERLOCK_URL": self.url, "INTERLOCK_DEMO_LOCKS": self.locks}

    @classmethod
    def of_environment(cls, namespace: str, directory: str) -> Locations:
        """The arguments of this process."""
        return cls(os.environ["INTERLOCK_URL"], os.environ["INTERLOCK_DEMO_LOCKS"], namespace, directory)


def define(
    app: App, log: Notebook | None = None, target: Target | None = None, asked: Callable[[int], float] | None = None
) -> Freezer:
    """Add the source and the handlers to the app. Only workers need a log and a target."""
    app.source(GitHub(SECRET, own=[OWN]))
    chance = random.Random()  # noqa: S311 - nothing here is a secret
    told = _Teller(log, asked)
    freezer = Freezer()

    @app.on("github.issues.*", lane=_ISSUE, retry=_RETRY)
    async def triage(event: Event) -> str:
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            fail_now_and_then(chance)
        return f"{event.payload['action']}: triaged"

    @app.on("github.issue_comment.created", lane=_ISSUE, retry=_RETRY)
    async def answer(event: Event) -> str:
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.05, 0.35))
            if "/explode" in event.payload["comment"]["body"]:
                raise RuntimeError(f"cannot answer {event.payload['comment']['html_url']}")
            fail_now_and_then(chance)
        return f"answered {event.actor}"

    @app.on("github.issues.opened", name="welcome", retry=_PATIENT)
    async def welcome(event: Event) -> str:
        """Greet each person once, however many issues they open at the same time."""
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
        """Build in a limited number of containers at once, with a cooldown per account."""
        with told.working(event):
            await asyncio.sleep(chance.uniform(0.6, 1.4))
        return f"built {event.payload['check_suite']['head_sha'][:7]}"

    @app.on("github.push", retry=_PATIENT)
    async def sync(event: Event) -> str:
        """Change a repository, one process at a time; the target refuses writes with stale fences."""
        key = f"repo:{event.payload['repository']['full_name']}"
        with told.working(event) as tell:
            tell("asked", key=key)
            try:
                async with app.locks.acquire(key, wait=60) as lease:
                    lease.ensure()  # a process that was suspended meanwhile would record an old grant
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
    """Fail occasionally, as forges do, but never in the last attempt, so that permanent failures are known."""
    attempt = current_job().attempt
    if attempt == 1 and chance.random() < _ASKED_TO_WAIT:
        raise RetryLater(3, "the forge asks to slow down")
    if attempt < _RETRY.attempts and chance.random() < _FAILS:
        raise ConnectionError("the forge is unavailable")


class _Teller:
    """Records what handlers do."""

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
    """Suspends a process while it holds a lock."""

    def __init__(self) -> None:
        self.told = False

    def stand_still_if_told(self, tell: Callable[..., None], **fields: Any) -> None:
        """Stop until SIGCONT."""
        if self.told:
            self.told = False
            tell("frozen", **fields)
            os.kill(os.getpid(), signal.SIGSTOP)
            tell("thawed", **fields)
