"""Without an extra the rest works, and the error names the extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.packaging.isolated import evaluate, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.full

COUNTED = """
import asyncio
from interlock import App
from interlock.errors import MisuseError

async def main():
    async with App("memory://") as app:
        async with app.locks.acquire("key"):
            pass
        count = app.locks.metrics.waits.count
        try:
            list(app.metrics.collect())
        except MisuseError as error:
            return count, str(error)

count, message = asyncio.run(main())
"""
COMMAND = "from interlock.__main__ import main; main()"


def test_metrics_are_counted_without_prometheus_client() -> None:
    count, message = evaluate(COUNTED, "[count, message]", without=["prometheus_client"])

    assert count == 1
    assert "prometheus_client" in message
    assert "pip install 'interlock[metrics]'" in message


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_the_command_names_the_extra_it_needs(package: str, tmp_path: Path) -> None:
    store = ["--url", f"sqlite:///{tmp_path}/bot.db"]
    assert run(COMMAND, arguments=[*store, "migrate", "up"]).returncode == 0

    done = run(COMMAND, without=[package], arguments=[*store, "migrate", "status"])

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"The interlock command requires the package {package}, which is not installed. "
        "Run: pip install 'interlock[cli]'.\n"
    )


def test_an_error_inside_the_command_line_is_not_blamed_on_the_extra() -> None:
    done = run(COMMAND, without=["contextlib"])

    assert "interlock[cli]" not in done.stderr


@pytest.mark.parametrize("package", ["starlette", "jinja2", "prometheus_client"])
def test_the_web_app_names_the_extra_it_needs(package: str) -> None:
    code = """
from interlock import App
from interlock.errors import MisuseError
try:
    App("memory://").web()
    message = "made"
except MisuseError as error:
    message = str(error)
"""
    message = evaluate(code, "message", without=[package])

    assert package in message
    assert "pip install 'interlock[web]'" in message


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("postgresql://localhost/db", "asyncpg", "postgres"),
        ("redis://localhost", "redis", "redis"),
        ("redis://localhost", "hiredis", "redis"),
    ],
)
def test_a_store_names_the_extra_it_needs(url: str, package: str, extra: str) -> None:
    code = f"""
from interlock import App
from interlock.errors import MisuseError
try:
    App({url!r})
    message = "made"
except MisuseError as error:
    message = str(error)
"""
    message = evaluate(code, "message", without=[package])

    assert package in message
    assert f"pip install 'interlock[{extra}]'" in message


def test_the_sqlalchemy_module_names_the_extra_it_needs() -> None:
    code = """
from interlock.errors import MisuseError
try:
    import interlock.contrib.sqlalchemy
    message = "imported"
except MisuseError as error:
    message = str(error)
"""
    message = evaluate(code, "message", without=["sqlalchemy"])

    assert "pip install 'interlock[sqlalchemy]'" in message
