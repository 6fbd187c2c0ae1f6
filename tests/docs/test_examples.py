"""The documentation is tested: its Python runs, its commands parse, and its tables match the code."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from interlock.cli import app
from interlock.telemetry.claims import ClaimMetrics
from interlock.telemetry.events import EventMetrics
from interlock.telemetry.jobs import JobMetrics
from interlock.telemetry.journal import JournalMetrics
from interlock.telemetry.limits import LimitMetrics
from interlock.telemetry.metrics import LockMetrics, Together
from interlock.telemetry.pipelines import PipelineMetrics
from interlock.telemetry.schedules import ScheduleMetrics
from interlock.telemetry.web import WebMetrics

ROOT = Path(__file__).parents[2]
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])
PAGES = [ROOT / "README.md", *DOCS]
EVERY_PAGE = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
ALL_DOCS = "\n".join(page.read_text("utf-8") for page in DOCS)


TESTING = ROOT / "docs" / "testing.md"
KINDS = {"python", "console", "sql", "json", "toml", "ini", "yaml", "text", "javascript"}
"""The kinds of code blocks. The tests do not check ini, yaml and text: they are for other programs, or output.
JavaScript is run by the system tests."""


@pytest.mark.parametrize("page", [page for page in PAGES if page != TESTING], ids=lambda page: page.stem)
def test_every_example_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if 'os.environ["DATABASE_URL"]' in page.read_text("utf-8"):
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("complete_postgres_url"))
    monkeypatch.setenv("WEBHOOK_SECRET", "a secret")
    _run(page)


@pytest.mark.full
def test_every_file_on_the_testing_page_passes(tmp_path: Path, interlock_postgres_server: Any) -> None:
    text = TESTING.read_text("utf-8")
    (settings,) = (block for kind, _, block in _blocks(TESTING) if kind == "toml")
    (tmp_path / "pyproject.toml").write_text(settings)
    files = re.findall(r"`(\w+\.py)`[^`]*:\n\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for name, example in files:
        (tmp_path / name).write_text(example)
    environment = os.environ | {"INTERLOCK_TEST_POSTGRES_URL": interlock_postgres_server.url("postgres")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert len(files) == len(_examples(TESTING)), "a block without a file name"
    output = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore", "test_my_store.py")
    assert "10 passed" in output, output
    assert "TestLockStore" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "test_my_store.py")
    run("simulate.py")


@pytest.mark.full
def test_the_race_on_the_testing_page_is_found_and_its_fix_passes_a_thousand_seeds(tmp_path: Path) -> None:
    text = TESTING.read_text("utf-8")
    for name, example in re.findall(r"`(\w+\.py)`[^`]*:\n\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if name in ("bot.py", "test_race.py"):
            (tmp_path / name).write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_race.py"],
        cwd=tmp_path,
        env=os.environ | {"SEEDS": "1000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert "2 passed" in done.stdout, done.stdout


def test_the_poller_on_the_cursors_page_misses_nothing_at_equal_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = _run(ROOT / "docs" / "cursors.md")

    assert sorted(names["handled"]) == sorted({note.id for note in names["NOTES"]})
    assert len({note.updated_at for note in names["NOTES"]}) < len(names["NOTES"])


def test_every_code_block_has_a_known_kind() -> None:
    unknown = [(page.name, line, kind) for page in PAGES for kind, line, _ in _blocks(page) if kind not in KINDS]

    assert not unknown


def test_every_command_line_can_be_parsed() -> None:
    root = typer.main.get_command(app)
    parsed = 0
    for page in PAGES:
        for kind, line, block in _blocks(page):
            for command in re.findall(r"^\$ interlock (.+)$", block, re.MULTILINE) if kind == "console" else ():
                if "…" in command or command.isupper():
                    continue  # a synopsis, not a command line
                words = shlex.split(command.split(" | ")[0].split(" 2>")[0].split(" > ")[0], comments=True)
                parsed += 1
                try:
                    _parse(root, words)
                except click.UsageError as error:
                    raise AssertionError(f"{page.name}:{line}: interlock {command}: {error.format_message()}") from None
    assert parsed >= 5


def test_json_and_toml_blocks_are_valid() -> None:
    for page in PAGES:
        for kind, _, block in _blocks(page):
            if kind == "json":
                json.loads(block)
            elif kind == "toml":
                tomllib.loads(block)


async def test_every_sql_block_runs(complete_postgres_url: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(complete_postgres_url)
    try:
        for page in PAGES:
            for kind, _, block in _blocks(page):
                if kind == "sql":
                    await connection.execute(block)
    finally:
        await connection.close()


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        found = page.parent / path if path else page
        assert found.is_file(), target
        assert not heading or heading in _headings(found), target


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    index = (decisions / "README.md").read_text("utf-8")
    missing = [page.name for page in decisions.glob("0*.md") if f"]({page.name})" not in index]

    assert not missing


def test_every_log_event_is_documented() -> None:
    missing = [row for row in _log_events() if row not in ALL_DOCS]

    assert not missing


def test_every_documented_log_event_exists() -> None:
    documented = re.findall(r"^\| `\w+` \| (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \| .* \|$", ALL_DOCS, re.MULTILINE)

    assert not set(documented) - set(_log_events())


def test_every_metric_is_documented() -> None:
    names = set()
    kinds = (
        *(LockMetrics, ClaimMetrics, LimitMetrics, JobMetrics, EventMetrics),
        *(JournalMetrics, PipelineMetrics, ScheduleMetrics),
    )
    for family in Together(*(kind("memory") for kind in kinds), WebMetrics()).collect():
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)

    assert not [name for name in names if f"| `{name}` |" not in ALL_DOCS]


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    commands = [f"interlock {command.name}" for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert command.callback is not None
            commands.append(f"interlock {group.name} {command.name or command.callback.__name__}")

    assert len(commands) >= 29
    assert not [command for command in commands if command not in page]


def _run(page: Path) -> dict[str, Any]:
    """Run a page from top to bottom, as if typed into ``python -m asyncio``, and return the names that it defined."""
    names: dict[str, Any] = {"__name__": "example"}
    with asyncio.Runner() as runner:
        for line, example in _examples(page):
            # Leading newlines make a traceback point to the line in the page.
            code = compile("\n" * line + example, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
            result = eval(code, names)
            if inspect.iscoroutine(result):
                runner.run(result)
    return names


def _blocks(page: Path) -> list[tuple[str, int, str]]:
    """The code blocks of a page: kind, number of the line before, and text."""
    text = page.read_text("utf-8")
    return [
        (match[1], text[: match.start(2)].count("\n"), match[2])
        for match in re.finditer(r"^ *```([^\n]*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    ]


def _examples(page: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the number of the line before it."""
    return [(line, block) for kind, line, block in _blocks(page) if kind == "python"]


def _parse(command: click.Command, words: list[str]) -> None:
    """Parse a command line down to the command that would run, without running it."""
    context = command.make_context("interlock", list(words), resilient_parsing=False)
    while isinstance(command, click.Group):
        left = [*context._protected_args, *context.args]
        if not left:
            return
        name, found, rest = command.resolve_command(context, left)
        assert found is not None
        command, context = found, found.make_context(name or "", rest, parent=context)


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@functools.cache
def _log_events() -> list[str]:
    """The table row of each ``emit(logger, logging.LEVEL, "event", field=…)`` in the source."""
    rows = []
    for path in (ROOT / "src" / "interlock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "emit":
                _, level, event = node.args
                assert isinstance(level, ast.Attribute)
                assert isinstance(event, ast.Constant)
                fields = ", ".join(f"`{keyword.arg}`" for keyword in node.keywords)
                rows.append(f"| `{event.value}` | {level.attr} | {fields} |")
    assert len(rows) > 10
    return rows
