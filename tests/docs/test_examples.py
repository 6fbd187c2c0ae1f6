"""What the pages say is tried: their Python is run, and their tables are held against the code."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from interlock.cli import app
from interlock.telemetry.claims import ClaimMetrics
from interlock.telemetry.events import EventMetrics
from interlock.telemetry.jobs import JobMetrics
from interlock.telemetry.limits import LimitMetrics
from interlock.telemetry.metrics import LockMetrics, Together
from interlock.telemetry.web import WebMetrics

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
ALL_DOCS = "\n".join(page.read_text("utf-8") for page in DOCS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBHOOK_SECRET", "a secret")
    _run(page)


def test_every_test_on_the_page_about_testing_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interlock_postgres_url: str
) -> None:
    page = ROOT / "docs" / "testing.md"
    (worker,) = (example for _, example in _examples(page) if 'report("holding")' in example)
    (tmp_path / "my_worker.py").write_text(worker)
    monkeypatch.syspath_prepend(tmp_path)
    fixtures = {"tmp_path": tmp_path, "interlock_postgres_url": interlock_postgres_url}

    tests = {name: test for name, test in _run(page).items() if name.startswith("test_")}
    for test in tests.values():
        asyncio.run(test(**{name: fixtures[name] for name in inspect.signature(test).parameters}))

    assert len(tests) == 6


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        found = page.parent / path if path else page
        assert found.is_file(), target
        assert not heading or heading in _headings(found), target


def test_every_log_event_is_on_a_page() -> None:
    missing = [row for row in _log_events() if row not in ALL_DOCS]

    assert not missing


def test_every_metric_is_on_a_page() -> None:
    names = set()
    kinds = (LockMetrics, ClaimMetrics, LimitMetrics, JobMetrics, EventMetrics)
    for family in Together(*(kind("memory") for kind in kinds), WebMetrics()).collect():
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)

    assert not [name for name in names if f"| `{name}` |" not in ALL_DOCS]


def test_every_command_is_on_its_page() -> None:
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
    """Run a page from top to bottom, as if typed into ``python -m asyncio``; gives the names it made."""
    names: dict[str, Any] = {"__name__": "example"}
    with asyncio.Runner() as runner:
        for line, example in _examples(page):
            # Lines of their own, so that a traceback points into the page.
            code = compile("\n" * line + example, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.iscoroutine(result):
                runner.run(result)
    return names


def _examples(page: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the number of the line before it."""
    text = page.read_text("utf-8")
    return [
        (text[: match.start(1)].count("\n"), match[1])
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def _log_events() -> list[str]:
    """The row that each ``emit(logger, logging.LEVEL, "event", field=…)`` in the source should have."""
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
