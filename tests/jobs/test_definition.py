"""What may be a job, and what a job is to the code that defines it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Jobs
from interlock.errors import CapabilityError, InvalidArgumentError, MisuseError, NotFoundError
from interlock.jobs import AsyncJob, PlainJob
from interlock.jobs.definition import Definition
from interlock.jobs.options import JobOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from decimal import Decimal as OnlyForCheckers


def define(function: Any, name: str | None = None) -> Definition:
    return Definition(function, JobOptions(), name=name)


async def positional(a: int, /) -> None: ...
async def many(*args: int) -> None: ...
async def keywords(**kwargs: int) -> None: ...
async def agen() -> AsyncIterator[int]:
    yield 1


def gen() -> Iterator[int]:
    yield 1


async def unresolvable(a: OnlyForCheckers) -> None: ...
async def unresolvable_result() -> OnlyForCheckers: ...
async def unkeepable(a: Definition) -> None: ...
async def unkeepable_result() -> Definition: ...


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (positional, "positional-only"),
        (many, "args"),
        (keywords, "kwargs"),
        (agen, "generator"),
        (gen, "generator"),
        (unresolvable, "TYPE_CHECKING"),
        (unresolvable_result, "TYPE_CHECKING"),
        (unkeepable, "plain types"),
        (unkeepable_result, "plain types"),
        (Definition, "function"),
        (7, "is an int. Use a function"),
        (len, "function"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_cannot_be_a_job(wrong: Any, why: str) -> None:
    with pytest.raises(MisuseError, match=why):
        define(wrong, "job")


@pytest.mark.parametrize("name", ["", "a b", "_hidden", "x" * 64, "a/b", "<lambda>", 7])
def test_what_a_job_cannot_be_called(name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid job name"):
        define(lambda: None, name)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidArgumentError, match="lambda"):
        define(lambda: None)

    assert define(lambda: None, "mine").name == "mine"


def test_types_that_are_defined_next_to_the_function() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    jobs = Jobs.from_url("memory://")

    @jobs.job()
    async def report(value: Local) -> Local:
        return value

    text, _ = report.definition.bind((), {"value": Local(1)})
    assert report.definition.read(text) == {"value": Local(1)}


class Bot:
    def __init__(self) -> None:
        self.seen: list[int] = []

    async def handle(self, number: int) -> None:
        self.seen.append(number)


async def test_a_method_may_be_a_job() -> None:
    bot, jobs = Bot(), Jobs.from_url("memory://")

    job = jobs.job()(bot.handle)
    await job(7)

    assert (job.name, job.definition.parameters, bot.seen) == ("handle", ("number",), [7])


async def test_calling_a_job_just_calls_the_function() -> None:
    jobs = Jobs.from_url("memory://")

    @jobs.job(name="slow-report", queue="slow")
    async def report(account: str, target: int = 5) -> str:
        """Make a report."""
        return f"{account} {target}"

    @jobs.job()
    def plain(number: int) -> int:
        return number + 1

    assert await report("a", target=7) == "a 7"
    assert plain(1) == 2
    assert isinstance(report, AsyncJob)
    assert isinstance(plain, PlainJob)
    assert report.definition.is_async
    assert not plain.definition.is_async
    assert (report.name, report.__name__, report.__doc__) == ("slow-report", "report", "Make a report.")
    assert report.options(priority=80).name == "slow-report"
    assert isinstance(report.options(priority=80), AsyncJob)


def test_names_are_unique_in_an_app() -> None:
    jobs = Jobs.from_url("memory://")
    jobs.job(name="one")(lambda: None)

    with pytest.raises(MisuseError, match="Two jobs have the name or alias 'one'"):
        jobs.job(name="one")(lambda: None)
    assert "one" in jobs
    assert jobs["one"].name == "one"


def test_a_job_that_nobody_defined() -> None:
    jobs = Jobs.from_url("memory://")
    jobs.job(name="known")(lambda: None)
    jobs.job(name="other")(lambda: None)

    with pytest.raises(NotFoundError, match=r"'unknown'.+known, other"):
        jobs["unknown"]
    assert "unknown" not in jobs


def test_a_store_without_jobs_says_so_when_one_is_defined(interlock_redis_url: str) -> None:
    app = App(interlock_redis_url)

    for use in (app.job, lambda: app.jobs, lambda: Jobs.from_url(interlock_redis_url)):
        with pytest.raises(CapabilityError, match=r"no jobs"):
            use()


def test_a_decorator_without_parentheses_is_refused_and_says_so() -> None:
    app: Any = App("memory://")

    with pytest.raises(MisuseError, match=r"Write @app\.job\(\)"):
        app.job(positional)
