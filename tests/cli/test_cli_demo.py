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
from interlock.cli.demo.deliveries import INBOX, Sender
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
    assert counts["workers killed"] >= 1
    assert counts["locks granted"] > 5
    assert counts["deliveries handled"] > 3
    assert counts["duplicates turned away"] > counts["deliveries handled"]
    assert counts["containers run"] > 3
    assert counts["comments done"] > 10
    assert [counts[name] for name in MUST_BE_ZERO] == [0] * 13
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_demo_runs_on_a_store_of_ones_own(
    run_demo: Callable[..., subprocess.Popen[str]], request: pytest.FixtureRequest, store: str
) -> None:
    url = request.getfixturevalue(f"interlock_{store}_url")
    process = run_demo("--seconds", "3", "--workers", "3", "--url", url)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert f"share one store: {store}." in output
    counts = _counts(output)
    assert counts["locks granted"] > 0
    assert counts["deliveries handled"] > 0
    assert counts["containers run"] > 0
    assert (counts.get("comments done", 0) > 0) == (store != "redis")


def test_demo_interrupted_ends_with_its_audit(run_demo: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = run_demo("--seconds", "600")
    assert process.stdout is not None
    while "took over repo:" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert "ending early" in output
    assert _counts(output)["locks taken over"] >= 1
    assert _counts(output)["deliveries lost"] == 0
    assert _counts(output)["comments lost"] == 0
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
    assert (findings.locks.grants, findings.kills, findings.locks.takeovers) == (2, 0, [])


def test_audit_sees_overlaps_and_fences_that_go_back(tmp_path: Path) -> None:
    _write(tmp_path, [*_hold("a", 7, 0, 5), *_hold("b", 6, 4, 9)])

    findings = audit(tmp_path)

    assert (findings.locks.overlaps, findings.locks.fences_back, findings.clean) == (1, 1, False)


def test_audit_counts_a_hold_up_to_the_kill_and_times_the_takeover(tmp_path: Path) -> None:
    killed = {"at": 3.5, "who": "director", "what": "killed", "victim": "a", "sent": 3.0}
    _write(tmp_path, [*_hold("a", 1, 0, 99)[:2], killed, *_hold("b", 2, 3.2, 9)])

    findings = audit(tmp_path)

    assert findings.clean
    assert (findings.kills, findings.locks.takeovers) == (1, [pytest.approx(0.2)])


def test_audit_sees_a_holder_that_worked_on_after_a_takeover(tmp_path: Path) -> None:
    killed = {"at": 3.5, "who": "director", "what": "killed", "victim": "a", "sent": 3.0}
    _write(tmp_path, [*_hold("a", 1, 0, 99)[:2], killed, *_hold("b", 2, 2.9, 9)])

    assert audit(tmp_path).locks.overlaps == 1


def test_audit_sees_one_that_was_served_before_its_turn(tmp_path: Path) -> None:
    early = {"who": "early", "key": "k"}
    records = [
        {**early, "at": 1, "what": "asked"},
        {**early, "at": 2, "what": "queued"},
        *_hold("late", 1, 3, 5),
        {**early, "at": 6, "what": "granted", "fence": 2},
    ]
    _write(tmp_path, records)

    assert audit(tmp_path).locks.inversions == 1


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


def test_audit_of_deliveries_that_were_handled_or_taken_over_is_clean(tmp_path: Path) -> None:
    killed = {"at": 1.5, "who": "director", "what": "killed", "victim": "a", "sent": 1.4}
    _send(tmp_path, "d1", "d1", "d2", "d3")
    _write(
        tmp_path,
        [
            *_handling("a", "d1", 0, 1),
            {"at": 1.1, "who": "b", "what": "duplicate", "delivery": "d1", "state": "done"},
            *_handling("a", "d2", 1.2, 9)[:1],
            killed,
            *_handling("b", "d2", 4.4, 5),
            # Whoever handled this one was killed before it could write that down; others were told.
            *_handling("c", "d3", 5, 6)[:1],
            {"at": 7, "who": "b", "what": "duplicate", "delivery": "d3", "state": "done"},
        ],
    )

    findings = audit(tmp_path)

    assert findings.clean
    assert (findings.deliveries.sent, findings.deliveries.handled, findings.deliveries.duplicates) == (3, 3, 2)
    assert findings.deliveries.takeovers == [pytest.approx(3.0)]


def test_audit_sees_a_delivery_that_was_handled_twice(tmp_path: Path) -> None:
    _send(tmp_path, "d1")
    _write(tmp_path, [*_handling("a", "d1", 0, 1), *_handling("b", "d1", 2, 3)])

    findings = audit(tmp_path)

    assert (findings.deliveries.twice, findings.deliveries.overlaps, findings.clean) == (1, 0, False)


def test_audit_sees_a_delivery_that_was_lost(tmp_path: Path) -> None:
    _send(tmp_path, "d1", "d2")
    _write(
        tmp_path,
        [
            *_handling("a", "d1", 0, 1),
            *_handling("a", "d2", 2, 3)[:1],
            {"at": 4, "who": "b", "what": "duplicate", "delivery": "d2", "state": "in progress"},
        ],
    )

    findings = audit(tmp_path)

    assert (findings.deliveries.lost, findings.clean) == (1, False)


def test_audit_sees_two_at_work_on_a_delivery(tmp_path: Path) -> None:
    _send(tmp_path, "d1")
    _write(tmp_path, [*_handling("a", "d1", 0, 3), *_handling("b", "d1", 1, 2)[:1]])

    findings = audit(tmp_path)

    assert (findings.deliveries.overlaps, findings.clean) == (1, False)


def test_audit_sees_too_many_containers(tmp_path: Path) -> None:
    few = [*_container("a", "acme", 0, 2), *_container("b", "globex", 1, 3), *_container("c", "initech", 2, 4)]
    _write(tmp_path, few)
    assert audit(tmp_path).clean

    _write(tmp_path, [*few, *_container("d", "hooli", 1.5, 1.6)])
    findings = audit(tmp_path)

    assert (findings.containers.at_once, findings.containers.too_many, findings.clean) == (3, 1, False)


def test_audit_sees_starts_that_were_too_close(tmp_path: Path) -> None:
    apart = [*_container("a", "acme", 0, 1), *_container("b", "acme", 1.5, 2), *_container("c", "globex", 1.6, 2)]
    _write(tmp_path, apart)
    assert audit(tmp_path).clean

    _write(tmp_path, [*apart, *_container("d", "acme", 2.9, 3)])
    findings = audit(tmp_path)

    assert (findings.containers.started, findings.containers.too_soon, findings.clean) == (4, 1, False)


def test_sender_repeats_what_nobody_called_handled(tmp_path: Path) -> None:
    sender = Sender(tmp_path, workers=2)
    inbox = Reader(tmp_path / INBOX)

    def sent(now: float, *, new: bool = False) -> list[str]:
        sender.send(now, new=new)
        return [record["delivery"].rpartition("-")[2] for record in inbox.new()]

    assert sent(0.0, new=True) == ["1"]
    assert sent(0.1, new=True) == []
    assert sent(1.0, new=True) == ["1", "2"]
    (first, _) = sender._due
    sender.hear([{"what": "duplicate", "delivery": first, "state": "in progress"}])
    assert sent(2.0) == ["1", "2"]
    sender.hear([{"what": "duplicate", "delivery": first, "state": "done"}])
    assert sent(3.0) == ["2"]
    assert sender.waiting
    sender.close()


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


MUST_BE_ZERO = (
    "two holders of a lock",
    "fences going back",
    "order inversions",
    "stale writes accepted",
    "deliveries handled twice",
    "deliveries lost",
    "two at work on a delivery",
    "too many containers",
    "starts inside a cooldown",
    "comments lost",
    "comments out of order",
    "two comments of a lane at once",
    "comments acknowledged twice",
)


def _hold(who: str, fence: int, begin: float, end: float) -> list[dict[str, Any]]:
    common = {"who": who, "key": "k", "fence": fence}
    return [
        {**common, "at": begin - 0.001, "what": "asked"},
        {**common, "at": begin, "what": "granted"},
        {**common, "at": end, "what": "done"},
    ]


def _handling(who: str, delivery: str, begin: float, end: float) -> list[dict[str, Any]]:
    common = {"who": who, "delivery": delivery}
    return [
        {**common, "at": begin, "what": "claimed", "attempt": 1, "fence": 1},
        {**common, "at": end, "what": "handled", "attempt": 1},
    ]


def _container(who: str, account: str, begin: float, end: float) -> list[dict[str, Any]]:
    common = {"who": who, "account": account}
    return [
        {**common, "at": begin, "what": "container started", "asked": begin - 0.01},
        {**common, "at": end, "what": "container ended"},
    ]


def _write(directory: Path, records: list[dict[str, Any]]) -> None:
    (directory / LOG).write_text("".join(f"{json.dumps(record)}\n" for record in records))


def _send(directory: Path, *deliveries: str) -> None:
    inbox = Notebook(directory / INBOX, "sender")
    for delivery in deliveries:
        inbox.write("sent", delivery=delivery)
    inbox.close()


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
