"""The demo on servers that it starts for itself: the same bot, the same harm, the same clean audit."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--postgres", "a PostgreSQL server started for the demo"),
        ("--redis", "locks and claims on a Redis server started for the demo"),
    ],
)
def test_demo_keeps_every_promise_on_a_server_of_its_own(flag: str, told: str) -> None:
    command = [sys.executable, "-c", "from interlock.cli import main; main()", "demo", flag, "--seconds", "10"]
    demo = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150)

    assert demo.returncode == 0, demo.stderr
    assert told in demo.stdout
    assert "kill -9 worker-" in demo.stdout
    assert "Every promise was kept." in demo.stdout
    assert demo.stderr == ""
