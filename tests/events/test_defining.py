"""Sources and handlers as an app defines them: what cannot work is refused when it is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock import App, Event, Events, GitHub, Hmac, Settings
from interlock.errors import (
    CapabilityError,
    InvalidArgumentError,
    MalformedEventError,
    MisuseError,
    NotFoundError,
    SignatureError,
)
from interlock.events import Incoming, Source
from interlock.testing.conformance.events.apps import SECRET, delivery, issue

EVENT = Event(
    id=7,
    source="github",
    type="issues.opened",
    delivery="g",
    actor="ann",
    payload=issue(),
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.fixture
def app() -> App:
    return App("memory://")


def test_two_sources_have_two_names(app: App) -> None:
    app.source(GitHub(SECRET))
    app.source(GitHub(SECRET, name="github-two"))
    app.source(Hmac("shop", SECRET))
    with pytest.raises(MisuseError, match="Duplicate source name"):
        app.source(Hmac("github", SECRET))

    assert list(app.events.sources) == ["github", "github-two", "shop"]
    assert isinstance(app.events.sources["github"], GitHub)


def test_what_is_no_source_is_refused(app: App) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a source"):
        app.source("github")  # type: ignore[arg-type]


def test_a_pattern_has_to_be_said(app: App) -> None:
    async def handler(event: Event) -> None: ...

    with pytest.raises(MisuseError, match="pattern"):
        app.on(handler)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "how",
    [
        {"lane": "{issue.number"},
        {"lane": "{a}{b}"},
        {"lane": 7},
        {"ignore": 7},
        {"ignore": [""]},
        {"priority": 101},
        {"queue": "no queue"},
        {"coalesce": True},
        {"colour": "red"},
    ],
)
def test_options_that_cannot_work_are_refused(app: App, how: dict[str, Any]) -> None:
    async def handler(event: Event) -> None: ...

    with pytest.raises(MisuseError):
        app.on("github.**", **how)(handler)


def test_a_handler_takes_one_event(app: App) -> None:
    async def none() -> None: ...

    async def two(event: Event, more: int) -> None: ...

    async def other(event: int) -> None: ...

    async def many(*events: Event) -> None: ...

    async def fine(it: Event) -> None: ...

    async def untyped(event) -> None: ...  # type: ignore[no-untyped-def]

    for wrong in (none, two, other, many):
        with pytest.raises(MisuseError):
            app.on("github.**")(wrong)  # type: ignore[call-overload]
    app.on("github.**")(fine)
    app.on("github.**")(untyped)

    assert [handler.job.name for handler in app.events.handlers] == ["fine", "untyped"]


def test_two_handlers_have_two_names(app: App) -> None:
    async def handler(event: Event) -> None: ...

    app.on("github.**")(handler)
    with pytest.raises(MisuseError, match="Two jobs have the name"):
        app.on("github.push")(handler)
    app.on("github.push", name="other")(handler)


async def test_calling_a_handler_calls_the_function(app: App) -> None:
    @app.on("github.**")
    async def handler(event: Event) -> str:
        return event.name

    @app.on("github.**")
    def plain(event: Event) -> str:
        return event.actor

    assert await handler(EVENT) == "github.issues.opened"
    assert plain(EVENT) == "ann"


async def test_only_an_event_that_is_kept_can_be_handed_to_a_handler(app: App) -> None:
    @app.on("github.**", lane="{issue.number}")
    async def handler(event: Event) -> None: ...

    assert handler.call(EVENT).lane == "7"
    assert handler.options(lane="x {sender.login}").call(EVENT).lane == "x ann"
    assert handler.options(lane="{nowhere.at.all}").call(EVENT).lane == ""
    assert handler.options(lane=None).call(event=EVENT).lane == ""
    for wrong in ((), (EVENT, EVENT), (7,), ({"id": 7},), (None,), (replace(EVENT, id=0),)):
        with pytest.raises(InvalidArgumentError):
            handler.call(*wrong)  # type: ignore[call-arg, arg-type]
    with pytest.raises(InvalidArgumentError):
        handler.call(other=EVENT)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("payload", "lane"),
    [
        (issue(), "acme/api#7"),
        (issue(repository={"full_name": "a#b"}), "a%23b#7"),
        ({"action": "x"}, ""),
        (issue(issue=None), ""),
        (issue(issue={"number": None}), ""),
        (issue(repository=[]), ""),
        (issue(repository={"full_name": 5}), "5#7"),
    ],
)
def test_an_event_without_a_subject_has_no_lane(app: App, payload: dict[str, Any], lane: str) -> None:
    async def handler(event: Event) -> None: ...

    job = app.on("github.**", lane="{repository.full_name}#{issue.number}")(handler)

    assert job.call(replace(EVENT, payload=payload)).lane == lane


def test_a_subject_that_is_no_key_is_refused(app: App) -> None:
    async def handler(event: Event) -> None: ...

    job = app.on("github.**", lane="{repository.full_name}")(handler)
    for name in ("x" * 600, {"a": 1}, [1], 1.5):
        with pytest.raises(InvalidArgumentError):
            job.call(replace(EVENT, payload=issue(repository={"full_name": name})))


def test_on_redis_there_are_no_events() -> None:
    app = App("redis://127.0.0.1:1/0")
    with pytest.raises(CapabilityError, match="no events"):
        app.on("github.**")
    with pytest.raises(CapabilityError, match="no events"):
        app.source(GitHub(SECRET))


async def test_events_work_alone() -> None:
    seen: list[str] = []
    async with Events.from_url("memory://") as events:
        events.source(GitHub(SECRET))

        @events.on("github.**")
        async def hear(event: Event) -> None:
            seen.append(event.name)

        await events.receive("github", *delivery(issue(), "g1"))
        await events.jobs.drain()

    assert seen == ["github.issues.opened"]
    with pytest.raises(MisuseError, match="not open"):
        await events.receive("github", *delivery(issue(), "g2"))


async def test_a_source_may_be_anybodys_own(app: App) -> None:
    class Ticker:
        name = "ticker"
        own = ("Me",)

        def verify(self, headers: Any, body: bytes) -> None: ...

        def read(self, headers: Any, body: bytes) -> Incoming:
            return Incoming(
                body.decode(), "tick", headers.get("who", ""), {"at": body.decode(), "nul": headers.get("x")}
            )

    seen: list[Event] = []

    @app.on("ticker.tick")
    async def hear(event: Event) -> None:
        seen.append(event)

    source: Source = Ticker()
    assert app.source(source) is source
    async with app:
        await app.events.receive("ticker", {}, b"1")
        assert (await app.events.receive("ticker", {"who": "me"}, b"2")).status == "ignored"
        for wrong in ("\0", "\ud800", float("nan"), {1}):
            with pytest.raises(MalformedEventError):
                await app.events.receive("ticker", {"x": wrong}, b"3")  # type: ignore[dict-item]
        await app.drain()

        assert [event.payload for event in seen] == [{"at": "1", "nul": None}]


@pytest.mark.parametrize(
    ("verify", "read", "error"),
    [
        (KeyError("x"), None, SignatureError),
        (None, KeyError("x"), MalformedEventError),
        (None, Incoming("", "t", "", {}), MalformedEventError),
        (None, Incoming("d", "a\nb", "", {}), MalformedEventError),
        (None, Incoming("d", "t", "a\0b", {}), MalformedEventError),
        (None, Incoming("d", "t", None, {}), MalformedEventError),  # type: ignore[arg-type]
        (None, None, MalformedEventError),
        (None, ("d", "t", "", {}), MalformedEventError),
        (None, Incoming("d", "t", "", []), MalformedEventError),  # type: ignore[arg-type]
        (False, Incoming("d", "t", "", {}), SignatureError),
        (True, Incoming("d", "t", "", {}), SignatureError),
        (0, Incoming("d", "t", "", {}), SignatureError),
    ],
)
async def test_a_source_that_fails_takes_nothing(app: App, verify: Any, read: Any, error: type[Exception]) -> None:
    class Broken:
        name = "broken"

        def verify(self, headers: Any, body: bytes) -> None:
            if isinstance(verify, Exception):
                raise verify
            return verify  # type: ignore[no-any-return]

        def read(self, headers: Any, body: bytes) -> Incoming:
            if isinstance(read, Exception):
                raise read
            return read  # type: ignore[no-any-return]

    app.source(Broken())

    @app.on("broken.**")
    async def hear(event: Event) -> None: ...

    async with app:
        with pytest.raises(error):
            await app.events.receive("broken", {}, b"1")
        assert await app.events.list() == []
        assert hear.name == "hear"


@pytest.mark.parametrize("step", ["verify", "read"])
def test_a_source_looks_at_the_bytes_at_once(app: App, step: str) -> None:
    async def late(*_: Any) -> None: ...

    class Late:
        name = "late"
        verify = read = staticmethod(lambda *_: None)

    setattr(Late, step, late)
    with pytest.raises(InvalidArgumentError, match="coroutine function"):
        app.source(Late())


@pytest.mark.filterwarnings("error")
async def test_a_verification_that_nobody_waited_for_is_none(app: App) -> None:
    async def late() -> None: ...

    class Late:
        name = "late"
        verify = staticmethod(lambda *_: late())
        read = staticmethod(lambda *_: Incoming("d", "t", "", {}))

    app.source(Late())
    async with app:
        with pytest.raises(SignatureError, match="coroutine"):
            await app.events.receive("late", {}, b"1")


async def test_what_is_asked_for_has_to_be_sayable(app: App) -> None:
    async with app:
        for wrong in ({"type": 7}, {"actor": "\0"}, {"limit": 0}, {"before": -1}, {"before": "x"}):
            with pytest.raises(InvalidArgumentError):
                await app.events.list(**wrong)  # type: ignore[arg-type]
        for number in (0, -1, 2**63, "1", True, None):
            with pytest.raises(InvalidArgumentError):
                await app.events.get(number)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            await app.events.replay(1, by="")
        with pytest.raises(NotFoundError):
            await app.events.explain(1)


def test_keep_events_seconds_is_checked() -> None:
    assert Settings().keep_events == 72 * 3600
    with pytest.raises(InvalidArgumentError):
        Settings(keep_events=0)


async def test_a_handler_of_a_source_that_is_not_there_is_told(app: App, caplog: pytest.LogCaptureFixture) -> None:
    app.source(GitHub(SECRET))
    for number, pattern in enumerate(("github.push", "gihub.push", "*.push", "**")):

        @app.on(pattern, name=f"handler-{number}")
        async def handle(event: Event) -> None: ...

    async with app:
        pass
    told = [record for record in caplog.records if getattr(record, "event", "") == "handler_source_unregistered"]
    assert [record.getMessage() for record in told] == [
        "handler_source_unregistered handler='handler-1' pattern='gihub.push' sources='github'"
    ]
    assert told[0].levelname == "WARNING"
