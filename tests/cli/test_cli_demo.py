from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.cli.demo.audit import audit
from interlock.cli.demo.records import Notebook, Reader
from interlock.cli.demo.target import LEDGER, Target
from interlock.cli.demo.worker import LOG

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator


@pytest.fixture
def run_demo(
    spawn: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the demo with a temporary directory of the test's own; none of its processes may be left."""
    environment = {"TMPDIR": str(tmp_path), "INTERLOCK_URL": "postgresql://nobody@127.0.0.1:1/not-for-demos"}
    yield lambda *args, **options: spawn("demo", *args, env=environment, **options)
    assert not _processes_about(tmp_path)


def test_demo_keeps_every_promise_and_leaves_nothing_behind(
    run_demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = run_demo("--seconds", "5")
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert "kill -9 worker-" in output
    counts = _counts(output)
    assert counts["grants"] > 5
    assert counts["kills"] >= 1
    assert [counts[name] for name in MUST_BE_ZERO] == [0, 0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_demo_runs_on_a_store_of_ones_own(
    run_demo: Callable[..., subprocess.Popen[str]], interlock_postgres_url: str
) -> None:
    process = run_demo("--seconds", "3", "--workers", "3", "--postgres", interlock_postgres_url)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert "Store: postgres" in output
    assert _counts(output)["grants"] > 0


def test_demo_interrupted_ends_with_its_audit(run_demo: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = run_demo("--seconds", "600")
    assert process.stdout is not None
    while "took over" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert "ending early" in output
    assert _counts(output)["takeovers"] >= 1
    assert _counts(output)["overlaps"] == 0
    assert list(tmp_path.iterdir()) == []


def test_workers_of_a_killed_demo_die_with_it(run_demo: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = run_demo("--seconds", "600")
    assert process.stdout is not None
    while "held by" not in process.stdout.readline():
        assert process.poll() is None
    workers = _processes_about(tmp_path)
    process.kill()
    process.communicate()

    assert len(workers) >= 4
    _until(lambda: not _processes_about(tmp_path))


def test_demo_needs_a_store_for_several_processes(run_demo: Callable[..., subprocess.Popen[str]]) -> None:
    process = run_demo("--url", "memory://")
    output, errors = process.communicate(timeout=30)

    assert (process.returncode, output) == (1, "")
    assert "memory offers no processes" in errors


# -- the audit sees what it is there to see ----------------------------------------------------------------------------


def test_audit_of_orderly_holds_is_clean(tmp_path: Path) -> None:
    _write(tmp_path, [*_hold("a", 1, 0, 5), *_hold("b", 2, 5, 9)])

    findings = audit(tmp_path)

    assert findings.clean
    assert (findings.grants, findings.kills, findings.takeovers) == (2, 0, [])


def test_audit_sees_overlaps_and_fences_that_go_back(tmp_path: Path) -> None:
    _write(tmp_path, [*_hold("a", 7, 0, 5), *_hold("b", 6, 4, 9)])

    findings = audit(tmp_path)

    assert (findings.overlaps, findings.fences_back, findings.clean) == (1, 1, False)


def test_audit_counts_a_hold_up_to_the_kill_and_times_the_takeover(tmp_path: Path) -> None:
    killed = {"at": 3.5, "who": "director", "what": "killed", "victim": "a", "sent": 3.0}
    _write(tmp_path, [*_hold("a", 1, 0, 99)[:2], killed, *_hold("b", 2, 3.2, 9)])

    findings = audit(tmp_path)

    assert findings.clean
    assert (findings.kills, findings.takeovers) == (1, [pytest.approx(0.2)])


def test_audit_sees_a_holder_that_worked_on_after_a_takeover(tmp_path: Path) -> None:
    killed = {"at": 3.5, "who": "director", "what": "killed", "victim": "a", "sent": 3.0}
    _write(tmp_path, [*_hold("a", 1, 0, 99)[:2], killed, *_hold("b", 2, 2.9, 9)])

    assert audit(tmp_path).overlaps == 1


def test_audit_sees_one_that_was_served_before_its_turn(tmp_path: Path) -> None:
    early = {"who": "early", "key": "k"}
    records = [
        {**early, "at": 1, "what": "asked"},
        {**early, "at": 2, "what": "queued"},
        *_hold("late", 1, 3, 5),
        {**early, "at": 6, "what": "granted", "fence": 2},
    ]
    _write(tmp_path, records)

    assert audit(tmp_path).inversions == 1


def test_audit_excuses_a_waiter_that_was_gone(tmp_path: Path) -> None:
    early = {"who": "early", "key": "k"}
    killed = {"at": 2.5, "who": "director", "what": "killed", "victim": "early", "sent": 2.4}
    records = [
        {**early, "at": 1, "what": "asked"},
        {**early, "at": 2, "what": "queued"},
        killed,
        *_hold("late", 1, 3, 5),
    ]
    _write(tmp_path, records)

    assert audit(tmp_path).clean


def test_audit_sees_a_stale_write_that_was_taken(tmp_path: Path) -> None:
    ledger = Notebook(tmp_path / LEDGER, "a")
    for fence in (2, 1):
        ledger.write("write", key="k", fence=fence, accepted=True)
    ledger.close()

    assert audit(tmp_path).stale_accepted == 1


def test_target_refuses_a_stale_fence(tmp_path: Path) -> None:
    target = Target(tmp_path, "a")

    assert [target.write("k", fence) for fence in (3, 3, 2, 4)] == [True, True, False, True]
    assert target.write("other", 1)
    assert [write["accepted"] for write in Reader(tmp_path / LEDGER).new()] == [True, True, False, True, True]


def test_reader_leaves_a_line_that_is_not_finished(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_text('{"at": 1}\n{"at"')
    reader = Reader(path)

    assert list(reader.new()) == [{"at": 1}]
    with path.open("a") as file:
        file.write(": 2}\n")
    assert list(reader.new()) == [{"at": 2}]


def test_processes_for_tests_need_no_pytest(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    import subprocess

    code = "import sys; sys.modules['pytest'] = None; import interlock.cli.demo.director, interlock.cli.demo.worker"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


MUST_BE_ZERO = ("overlaps", "fences going back", "stale writes accepted", "order inversions")


def _hold(who: str, fence: int, begin: float, end: float) -> list[dict[str, Any]]:
    common = {"who": who, "key": "k", "fence": fence}
    return [
        {**common, "at": begin - 0.001, "what": "asked"},
        {**common, "at": begin, "what": "granted"},
        {**common, "at": end, "what": "done"},
    ]


def _write(directory: Path, records: list[dict[str, Any]]) -> None:
    (directory / LOG).write_text("".join(f"{json.dumps(record)}\n" for record in records))


def _counts(output: str) -> dict[str, int]:
    """The rows of the audit's table."""
    counts = {}
    for line in output.partition("Audit")[2].splitlines():
        words = line.split()
        number = next((word for word in words if word.isdigit()), None)
        if number is not None:
            counts[line.partition(number)[0].strip()] = int(number)
    return counts


def _processes_about(directory: Path) -> list[int]:
    """The processes that carry a directory in their command line: workers do."""
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
