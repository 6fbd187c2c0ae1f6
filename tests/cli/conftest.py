"""Runs the command line: in this process for speed, as a process of its own where that is the point."""

from __future__ import annotations

import contextlib
import functools
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from typer.testing import CliRunner

from interlock.cli import app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from interlock.cli import main; main()"]

_command_of = functools.cache(typer.main.get_command)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask on a real terminal for one store only: the question is the same for all of them."""
    for item in items:
        store = getattr(getattr(item, "callspec", None), "params", {}).get("ready_url", "sqlite")
        if "on_terminal" in getattr(item, "fixturenames", ()) and store != "sqlite":
            item.add_marker(pytest.mark.full)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command line in this process; gives its exit code, stdout and stderr."""
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    # The runner builds all commands anew for each command line, which takes longer than most of them.
    monkeypatch.setattr("typer.testing._get_command", _command_of, raising=False)

    def run(*args: str, env: dict[str, str] | None = None) -> Any:
        result = CliRunner().invoke(app, list(args), env=env or {})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[str]]:
    """Start a command line as a process of its own."""

    def start(*args: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*COMMAND, *args], text=True, env={**os.environ, **(env or {})}, **{**pipes, **options})

    return start


@pytest.fixture
def on_terminal() -> Callable[..., tuple[int, str]]:
    """Run a command on a terminal of its own, and answer its question; gives its exit code and what was to be seen."""

    def run(answer: str, *args: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, *args], stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "200"}
        )
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # a terminal that its last process left
            while chunk := os.read(ours, 1024):
                seen += chunk
                if b"[y/N]" in seen and answer:
                    os.write(ours, answer.encode())
                    answer = ""
        os.close(ours)
        return process.wait(20), seen.decode()

    return run


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store without a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    url: str = request.getfixturevalue("interlock_postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def ready_url(request: pytest.FixtureRequest, tmp_path: Path, cli: Callable[..., Any]) -> str:
    """The URL of a store with a complete schema, or of one that needs none."""
    if request.param == "redis":
        return str(request.getfixturevalue("interlock_redis_url"))
    url = f"sqlite:///{tmp_path / 'test.db'}"
    if request.param == "postgres":
        return str(request.getfixturevalue("complete_postgres_url"))
    assert cli("migrate", "up", "--url", url).exit_code == 0
    return url


@pytest.fixture
def file_url(tmp_path: Path, cli: Callable[..., Any]) -> str:
    """A store that has jobs, where it does not matter which."""
    url = f"sqlite:///{tmp_path / 'test.db'}"
    assert cli("migrate", "up", "--url", url).exit_code == 0
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def jobs_url(request: pytest.FixtureRequest, tmp_path: Path, cli: Callable[..., Any]) -> str:
    """The URL of a store that has jobs, with a complete schema."""
    url = f"sqlite:///{tmp_path / 'test.db'}"
    if request.param == "postgres":
        return str(request.getfixturevalue("complete_postgres_url"))
    assert cli("migrate", "up", "--url", url).exit_code == 0
    return url
