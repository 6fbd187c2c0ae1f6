"""The example as a user runs it: its names, its README, its commands and its story."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from bridge.core.enums import IntentStatusEnum
from bridge.factory import open_bridge
from bridge.story.audit import audit
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored
from tests.examples.bridge_lite.old_writer import create_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.factory import Bridge

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "bridge_lite"
SIGNATURES = {
    "bridge.core.enums": {
        "LockStrategy": None,
        "IntentStatusEnum": None,
        "PhilosophicalActor": None,
        "ExecutionMode": None,
        "AuditEventType": None,
    },
    "bridge.core.concurrency": {"ConcurrencyConfig": None, "LockStrategy": None},
    "bridge.core.models.intent_model": {
        "IntentModel.increment_version": ["self"],
        "IntentModel.apply_correction": ["self", "diff", "source", "reason", "metadata"],
    },
    "bridge.core.errors": {
        "BridgeError": None,
        "BridgeExecutionError": None,
        "ConcurrencyConflictError": None,
        "DeadlockError": None,
        "IntentNotFoundError": None,
        "InvalidStatusTransitionError": None,
        "LockTimeoutError": None,
        "is_deadlock_error": ["error"],
    },
    "bridge.core.retry": {"retry_on_deadlock": ["max_retries", "base_delay", "max_delay", "jitter"]},
    "bridge.core.operations": {
        "update_intent_status": ["intent_id", "new_status", "data_bridge", "audit_logger"],
        "update_multiple_intents": ["intent_ids", "updates", "data_bridge"],
    },
    "bridge.core.transitions": {"is_valid_transition": ["status", "new_status"]},
    "bridge.core.corrections": {
        "generate_correction_id": ["intent_id", "diff"],
        "is_correction_applied": ["intent", "correction_id"],
    },
    "bridge.core.bridge_set": {
        "BridgeSet.execute_with_lock": ["self", "intent_id", "mode"],
        "BridgeSet._handle_bridge_error": ["self", "intent", "bridge", "error", "mode"],
    },
    "bridge.core.bridges": {
        "BaseBridge.execute": ["self", "intent"],
        "InputBridge": None,
        "NormalizeBridge": None,
        "FeedbackBridge": None,
        "OutputBridge": None,
    },
    "bridge.data.postgres_bridge": {
        "PostgresDataBridge.get_intent": ["self", "intent_id"],
        "PostgresDataBridge.lock_intent_for_update": ["self", "intent_id", "timeout"],
        "PostgresDataBridge.update_intent_if_version_matches": ["self", "intent_id", "intent", "expected_version"],
    },
    "bridge.api.reeval": {
        "reeval_intent_optimistic": ["request", "data_bridge", "max_retries"],
        "ReEvalClient.reeval": ["self", "request"],
    },
    "bridge.audit": {"AuditLogger.log": ["self", "event", "intent_id", "actor", "bridge_type", "payload"]},
    "bridge.factory": {},
}


def test_every_documented_name_and_signature_exists() -> None:
    for module, names in SIGNATURES.items():
        for name, parameters in names.items():
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            if parameters is not None:
                assert list(inspect.signature(found).parameters)[: len(parameters)] == parameters, name


def run(*arguments: str, cwd: Path = EXAMPLE, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(EXAMPLE), **environment},
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_the_example_in_the_readme_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "example.py").write_text(block)

    done = run("example.py", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False True\ncompleted {'to': 'eva'}\n")


def test_every_variable_in_the_readme_exists() -> None:
    named = set(re.findall(r"^\| `BRIDGE_(\w+)", (EXAMPLE / "README.md").read_text("utf-8"), re.MULTILINE))
    source = "\n".join(path.read_text("utf-8") for path in (EXAMPLE / "bridge").rglob("*.py"))

    for name in named:
        known = name.removeprefix("LOCK_STRATEGY_").lower()
        assert name in source or f'"{known}"' in source, name


def test_the_upgrade_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bridge.db"
    asyncio.run(create_table(url))

    assert "Imported 0 intents" in run("-m", "bridge", "upgrade", "--url", url).stdout
    assert "not kept equal any more" in run("-m", "bridge", "downgrade", BRIDGE_URL=url).stdout


async def test_interlock_run_continues_what_another_process_enqueued(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bridge.db"
    async with open_bridge(url) as bridge:
        intent = await create_test_intent(bridge)
        await bridge.bridge_set().enqueue(intent.id)
        worker = subprocess.Popen(
            [sys.executable, "-m", "interlock", "run", "bridge.program:app"],
            cwd=EXAMPLE,
            env={**os.environ, "BRIDGE_URL": url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(60):
                while (await stored(bridge, intent.id)).status is not IntentStatusEnum.COMPLETED:
                    await asyncio.sleep(0.05)
        finally:
            worker.terminate()
            await asyncio.to_thread(worker.wait, 30)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bridge", "serve", "--port", "0"],
        cwd=EXAMPLE,
        env={**os.environ, "BRIDGE_URL": f"sqlite:///{tmp_path}/bridge.db"},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_serving_ends_cleanly_with_a_signal(served: subprocess.Popen[str]) -> None:
    assert served.stdout is not None
    assert served.stdout.readline().startswith("Dashboard: http://127.0.0.1:0/?token=")
    served.send_signal(signal.SIGTERM)

    assert served.wait(30) in (0, -signal.SIGTERM)


def test_serving_other_machines_needs_tokens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bridge.db"
    done = run("-m", "bridge", "serve", "--host", "0.0.0.0", BRIDGE_URL=url, BRIDGE_API_TOKENS="")

    assert done.returncode == 1
    assert "Set BRIDGE_API_TOKENS" in done.stderr


async def test_the_audit_finds_what_is_wrong(bridge: Bridge) -> None:
    intent, unfinished = await create_test_intent(bridge, payload={"a": 1}), await create_test_intent(bridge)
    answer = await bridge.reeval_client.reeval(correction(intent.id, {"payload.x": 1}))
    await bridge.bridge_set().execute_with_lock(intent.id)
    delivery = {"intent": str(intent.id)}
    good = {intent.id: {answer.correction_id: ("x", 1)}}

    clean = await audit(bridge, good, [delivery, delivery])
    assert (clean.violations, clean.repeated_deliveries) == ([], 1)
    for accepted, deliveries, violation in (
        ({intent.id: {"other": ("x", 1)}}, [delivery], "has correction other 0 times"),
        ({intent.id: {answer.correction_id: ("x", 2)}}, [delivery], "lost the correction of x"),
        (good, [], "was never delivered"),
        ({unfinished.id: {}}, [], "never ended: it is received"),
        ({uuid4(): {}}, [], "is lost"),
    ):
        assert violation in (await audit(bridge, accepted, deliveries)).violations[0]


@pytest.mark.full
def test_a_story_that_is_ended_by_ctrl_c_has_no_violation() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bridge.story", "--seconds", "60", "--workers", "1", "--kill-every", "1.5"],
        cwd=EXAMPLE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "with kill -9" in line:
                process.send_signal(signal.SIGINT)
                break
        said += process.stdout.read()
        assert process.wait(60) == 0, said
    finally:
        process.kill()
        process.communicate()
    assert "corrections over HTTP" in said
    assert said.endswith("Nothing was lost, doubled or out of order.\n")


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_long_story_has_no_violation(request: pytest.FixtureRequest, store: str) -> None:
    more = [] if store == "sqlite" else ["--url", request.getfixturevalue("complete_postgres_url")]
    done = run("-m", "bridge.story", "--seconds", "40", *more)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Nothing was lost, doubled or out of order.\n")
