"""What `import interlock` loads, and that it loads quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import interlock
from tests.packaging.isolated import evaluate

HEAVY = {
    "asyncpg",
    "click",
    "hiredis",
    "http",
    "importlib.metadata",
    "jinja2",
    "prometheus_client",
    "pydantic",
    "pydantic_core",
    "redis",
    "rich",
    "sqlalchemy",
    "starlette",
    "typer",
    "uvicorn",
}
USED = """
import asyncio
from interlock import App, Slots

async def main():
    async with App("memory://") as app:
        async with app.locks.acquire("key"), app.limits.acquire(Slots("one", 1)):
            pass

asyncio.run(main())
"""


def _loaded(code: str) -> set[str]:
    before: list[str] = evaluate("import sys", "sorted(sys.modules)")
    after: list[str] = evaluate(f"import sys\n{code}", "sorted(sys.modules)")
    return set(after) - set(before)


def test_importing_the_package_loads_one_module_of_it() -> None:
    assert {name for name in _loaded("import interlock") if name.startswith("interlock")} == {"interlock"}


@pytest.mark.parametrize(
    "code",
    ["import interlock", f"from interlock import {', '.join(interlock.__all__)}", USED],
    ids=["import", "every-name", "in-use"],
)
def test_no_extra_and_no_pydantic_is_loaded_before_it_is_needed(code: str) -> None:
    loaded = _loaded(code)

    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("interlock.testing")}


def test_importing_every_public_name_loads_few_modules() -> None:
    loaded = _loaded(f"from interlock import {', '.join(interlock.__all__)}")

    assert len(loaded) < 300, f"{len(loaded)} modules, of which 200 or so are expected: what was added?"


def test_the_package_imports_quickly() -> None:
    # Processor time, which other processes affect little: 10 ms where it was measured.
    code = "import time; begun = time.process_time(); import interlock; print(time.process_time() - begun)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]

    assert min(times) < 0.06


def test_the_names_that_are_declared_are_those_that_are_imported() -> None:
    tree = ast.parse(Path(str(interlock.__file__)).read_text("utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    declared = {
        alias.name: statement.module
        for statement in guarded.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    assert declared == interlock._MODULE_OF
    assert sorted(declared) == sorted(interlock.__all__)
    assert all(getattr(interlock, name) is not None for name in interlock.__all__)
    assert set(interlock.__all__) <= set(dir(interlock))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'interlock' has no attribute 'Lok'"):
        _ = interlock.Lok  # type: ignore[attr-defined]
