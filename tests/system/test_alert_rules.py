"""The alert rules, judged by promtool: the file is valid, and each alert fires when it should and not otherwise."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

RULES = Path(__file__).parents[2] / "monitoring" / "bridge_concurrency.rules.yml"
BUCKETS = ("0.1", "0.25", "0.5", "1.0", "2.5", "+Inf")
FLAWED = "histogram_quantile(0.95, bridge_lock_acquisition_duration_seconds) > 0.5"


def counter(name: str, per_second: float, labels: str = "") -> list[dict[str, str]]:
    """A counter in two processes, which rises for 20 minutes."""
    step = per_second * 30 / 2
    return [
        {"series": f'{name}{{job="bridge",instance="{one}"{labels}}}', "values": f"0+{step:g}x40"} for one in ("a", "b")
    ]


def waits(share_within: float) -> list[dict[str, str]]:
    """A histogram of waits: this share takes up to 0.25 s, the rest up to 2.5 s."""
    found = []
    for bound in BUCKETS:
        step = {"0.1": 0.0, "2.5": 300.0, "+Inf": 300.0}.get(bound, 300 * share_within)
        labels = f',lock_type="pessimistic",le="{bound}"'
        found += counter("bridge_lock_acquisition_duration_seconds_bucket", step / 30, labels)
    return found


CASES: dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {
    "HighLockContention": (
        counter("bridge_lock_contentions_total", 12, ',lock_type="pessimistic"'),
        counter("bridge_lock_contentions_total", 9, ',lock_type="pessimistic"'),
    ),
    "FrequentDeadlocks": (
        counter("bridge_deadlock_detections_total", 1.4),
        counter("bridge_deadlock_detections_total", 0.8),
    ),
    "HighVersionConflicts": (
        counter("bridge_version_conflicts_total", 24),
        counter("bridge_version_conflicts_total", 18),
    ),
    "SlowLockAcquisition": (waits(0.90), waits(0.99)),
}
"""For each alert a load at which it fires, and one at which it does not."""


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60)


def alerts_at(tmp_path: Path, rules: Path, name: str, series: list[dict[str, str]], minute: int, fires: bool) -> None:
    """Let promtool judge whether an alert is firing at a minute."""
    expected: list[dict[str, Any]] = [{"exp_labels": {"severity": "warning"}}] if fires else []
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": series,
                "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}],
            }
        ],
    }
    file = tmp_path / f"{name}-{minute}-{fires}.yml"
    file.write_text(json.dumps(test))  # JSON is YAML
    done = promtool("test", "rules", str(file))
    said = done.stdout + done.stderr
    if fires:
        # promtool compares annotations too, which contain the value: it fails, and shows the alert that it got.
        assert f"alertname: {name}" in said, said
        got = said.partition("got:")[2]
        assert f'alertname="{name}"' in got, said
    else:
        assert done.returncode == 0, said


def test_the_rules_are_valid() -> None:
    done = promtool("check", "rules", str(RULES))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 rules found" in done.stdout


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_after_five_minutes_above_its_threshold(tmp_path: Path, name: str) -> None:
    above, _ = CASES[name]

    alerts_at(tmp_path, RULES, name, above, 4, fires=False)
    alerts_at(tmp_path, RULES, name, above, 12, fires=True)


@pytest.mark.parametrize("name", CASES)
def test_an_alert_does_not_fire_below_its_threshold(tmp_path: Path, name: str) -> None:
    _, below = CASES[name]

    alerts_at(tmp_path, RULES, name, below, 15, fires=False)


def test_f_b13_the_p95_alert_asks_for_rates_of_buckets(tmp_path: Path) -> None:
    text = RULES.read_text("utf-8")
    expression = next(line for line in text.splitlines() if "histogram_quantile(" in line)
    flawed = tmp_path / "flawed.rules.yml"
    flawed.write_text(text.replace(expression, f"        expr: {FLAWED}"))
    slow, _ = CASES["SlowLockAcquisition"]

    alerts_at(tmp_path, RULES, "SlowLockAcquisition", slow, 12, fires=True)
    alerts_at(tmp_path, flawed, "SlowLockAcquisition", slow, 12, fires=False)
