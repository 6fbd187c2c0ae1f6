"""Around the handler: the lifespan of an app, the resources that it provides, and middleware."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NewType, Protocol

import pytest

from interlock import App, Event, GitHub, JobState, Retry, Settings, current_job
from interlock.errors import InvalidArgumentError, MisuseError, NotFoundError
from interlock.jobs import INJECTED, CurrentJob, Jobs
from interlock.ports.jobs import Outcome
from interlock.testing.clock import until
from interlock.testing.conformance.events.apps import SECRET, delivery, issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

on_every_store = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


class Client:
    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.is_open = True


class Clock(Protocol):
    def now(self) -> float: ...


class FixedClock:
    def now(self) -> float:
        return 7.0


Replica = NewType("Replica", Client)


# -- lifespan and resources --------------------------------------------------------------------------------------------


@on_every_store
async def test_handlers_get_what_the_lifespan_provides(store_url: str) -> None:
    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[Mapping[Any, Any]]:
        client = Client()
        yield {Client: client, Replica: Client("replica"), Clock: FixedClock()}
        client.is_open = False

    app, got = App(store_url, lifespan=lifespan), []

    @app.job()
    async def fetch(url: str, client: Client = INJECTED, *, replica: Replica = INJECTED, depth: int = 3) -> str:
        return f"{url} {client.name} {replica.name} {depth}"

    @app.job(lane="{url}")
    def plain(url: str, clock: Clock = INJECTED) -> float:
        got.append(url)
        return clock.now()

    async with app:
        handle, other = await fetch.enqueue("u", depth=4), await plain.enqueue(url="v")
        async with app.worker():
            assert await handle.result(wait=20) == "u real replica 4"
            assert await other.result(wait=20) == 7.0
        assert (await app.jobs.get(handle)).arguments == '{"url":"u","depth":4}'
        client = app.resources[Client]
        assert await fetch("u") == "u real replica 3"
        assert await fetch("u", Client("fake")) == "u fake replica 3"
    assert not client.is_open
    assert Client not in app.resources
    with pytest.raises(NotFoundError, match="No resource of type Client is provided"):
        fetch("u", replica=Replica(Client()))


async def test_event_handlers_get_resources_too() -> None:
    app = App("memory://")
    got: list[object] = []

    @app.lifespan
    async def lifespan(_: App) -> AsyncIterator[dict[Any, Any]]:
        yield {Client: Client()}

    app.source(GitHub(SECRET))

    @app.on("github.issues.*")
    async def triage(event: Event, client: Client = INJECTED) -> None:
        got.append((event.payload["issue"]["number"], client.name, current_job().event_id, str(current_job().cause)))
        await child.enqueue()

    @app.job()
    async def child() -> None:
        got.append((str(current_job().cause), current_job().event_id))

    async with app:
        receipt = await app.events.receive("github", *delivery(issue(7), "d1"))
        await app.drain()
        (number,) = receipt.jobs
        assert got == [
            (7, "real", receipt.event, f"event:{receipt.event}"),
            (f"job:{number};event:{receipt.event}", receipt.event),
        ]


@pytest.mark.parametrize("given", [(), ("client",)])
async def test_a_resource_is_no_argument(given: tuple[str, ...]) -> None:
    app = App("memory://")

    @app.job()
    async def fetch(url: str, client: Client = INJECTED) -> None: ...

    assert fetch.definition.parameters == ("url",)
    assert "client" not in fetch.definition.schema
    if given:
        with pytest.raises(InvalidArgumentError, match="'client' of 'fetch' is a resource, not an argument"):
            fetch.call("u", client=Client())
    else:
        fetch.call("u")


async def test_a_missing_resource_is_named_when_a_worker_opens() -> None:
    app = App("memory://")

    @app.job()
    async def fetch(url: str, client: Client = INJECTED) -> None: ...

    @app.job()
    async def other(replica: Replica = INJECTED) -> None: ...

    message = (
        "Resources are missing: 'fetch' needs Client for its parameter 'client'; 'other' needs Replica for its"
        r" parameter 'replica'. Provide them in the lifespan of the app: yield \{Type: resource\}."
    )
    async with app:
        await fetch.enqueue("u")
        with pytest.raises(MisuseError, match=message):
            app.worker().open()
        with pytest.raises(MisuseError, match=message):
            await app.drain()
    jobs = Jobs.from_url("memory://")
    jobs.job()(fetch.definition.function)
    async with jobs:
        with pytest.raises(MisuseError, match="'fetch' needs Client"):
            jobs.worker().open()


async def test_workers_stop_before_the_lifespan_ends() -> None:
    seen: list[bool] = []

    async def lifespan(_: App) -> AsyncIterator[dict[Any, Any]]:
        client = Client()
        yield {Client: client}
        client.is_open = False

    app, started = App("memory://", lifespan=lifespan), asyncio.Event()

    @app.job()
    async def slow(client: Client = INJECTED) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append(client.is_open)

    async with app:
        await slow.enqueue()
        app.worker().open()
        await started.wait()
    assert seen == [True]


async def test_an_error_of_the_lifespan_closes_the_app() -> None:
    app = App("memory://")

    @app.lifespan
    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        assert await app.claims.claim("up")
        raise ConnectionError("away")
        yield

    with pytest.raises(ConnectionError, match="away"):
        await app.__aenter__()
    assert not app.is_open
    with pytest.raises(MisuseError, match="not open"):
        await app.jobs.list()


@pytest.mark.parametrize(
    ("yielded", "message"),
    [
        ([Client()], "The lifespan yielded a list"),
        ({Client: "text"}, "The lifespan provides a str as Client"),
    ],
)
async def test_what_a_lifespan_yields_is_checked(yielded: Any, message: str) -> None:
    async def lifespan(_: App) -> AsyncIterator[Any]:
        yield yielded

    with pytest.raises(MisuseError, match=message):
        await App("memory://", lifespan=lifespan).__aenter__()


async def test_a_lifespan_that_is_none_is_refused() -> None:
    async def not_one(_: App) -> None: ...

    given: Any = not_one
    app = App("memory://", lifespan=given)
    with pytest.raises(MisuseError, match="The lifespan returned a coroutine"):
        await app.__aenter__()
    with pytest.raises(MisuseError, match="already has a lifespan"):
        app.lifespan(given)
    with pytest.raises(MisuseError, match="The lifespan is an int"):
        App("memory://", lifespan=7)  # type: ignore[arg-type]


def test_an_injected_parameter_needs_a_type() -> None:
    app = App("memory://")
    with pytest.raises(MisuseError, match="'client' of 'fetch' is INJECTED, but has no type"):

        @app.job()
        async def fetch(client=INJECTED) -> None: ...  # type: ignore[no-untyped-def]


# -- middleware --------------------------------------------------------------------------------------------------------

TENANT: ContextVar[str] = ContextVar("tenant", default="none")


@on_every_store
async def test_middleware_runs_around_every_handler_in_order(store_url: str) -> None:
    app, steps = App(store_url), []

    @app.middleware
    async def outer(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
        assert job is current_job()
        TENANT.set(job.arguments["tenant"])
        steps.append(f"outer {job.name}")
        try:
            return f"<{await call_next()}>"
        finally:
            steps.append("outer end")

    @app.middleware
    async def inner(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(0)
        steps.append("inner")
        return await call_next()

    @app.job()
    async def works(tenant: str) -> str:
        await asyncio.sleep(0)
        steps.append(f"works {TENANT.get()}")
        return tenant

    @app.job()
    def plain(tenant: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        steps.append(f"plain {TENANT.get()} {current_job().name}")
        return tenant

    async with app, app.worker(concurrency=1):
        assert await (await works.enqueue("t1")).result(wait=20) == "<t1>"
        assert await (await plain.enqueue("t2")).result(wait=20) == "<t2>"
    assert steps == [
        *("outer works", "inner", "works t1", "outer end"),
        *("outer plain", "inner", "plain t2 plain", "outer end"),
    ]
    assert TENANT.get() == "none"


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_errors_in_and_below_middleware_are_the_handlers(kind: str) -> None:
    app, seen = App("memory://"), []

    @app.middleware
    async def around(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
        if job.arguments["where"] == "middleware":
            raise PermissionError("not you")
        try:
            return await call_next()
        except ValueError as error:
            seen.append(str(error))
            raise

    async def fails(where: str) -> None:
        raise ValueError("broken")

    def fails_plainly(where: str) -> None:
        raise ValueError("broken")

    job: Any = app.job(name="job", retry=Retry.NEVER)(fails if kind == "async" else fails_plainly)
    async with app:
        below, inside = await job.enqueue("handler"), await job.enqueue("middleware")
        assert await app.drain() == {Outcome.FAILED: 2}
        assert (await app.jobs.get(below)).error == "ValueError: broken"
        assert (await app.jobs.get(inside)).error == "PermissionError: not you"
        (attempt,) = (await app.jobs.get(below)).attempts
        assert "in fails" in attempt.trace
    assert seen == ["broken"]


async def test_middleware_may_answer_itself_and_calls_the_handler_at_most_once() -> None:
    app, runs = App("memory://"), []

    @app.middleware
    async def around(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
        if job.name == "skipped":
            return "not run"
        await call_next()
        return await call_next()

    @app.job()
    async def skipped() -> str:
        raise AssertionError

    @app.job(retry=Retry.NEVER)
    async def twice() -> None:
        runs.append(1)

    async with app:
        first, second = await skipped.enqueue(), await twice.enqueue()
        await app.drain()
        assert await first.result() == "not run"
        assert "called call_next() twice" in (await app.jobs.get(second)).error
    assert runs == [1]


async def test_a_thread_inside_middleware_can_be_cancelled_around_and_abandoned() -> None:
    app = App("memory://", settings=Settings())
    let_go, started, left = threading.Event(), threading.Event(), []

    @app.middleware
    async def around(_: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await call_next()
        finally:
            left.append(1)

    @app.job()
    def stuck() -> None:
        started.set()
        let_go.wait(30)

    async with app:
        handle = await stuck.enqueue()
        worker = app.worker(finish_within=0.01)
        worker.open()
        await until(started.is_set)
        await worker.stop()
        assert worker.unstopped == 1
        assert left == [1]
        assert (await handle.status()).state is not JobState.DONE
        let_go.set()


def test_middleware_has_to_be_a_coroutine_function() -> None:
    given: Any = lambda job, call_next: call_next()  # noqa: E731
    with pytest.raises(MisuseError, match="async def middleware"):
        App("memory://").middleware(given)
