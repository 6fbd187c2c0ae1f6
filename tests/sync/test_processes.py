"""Programs of synchronous code that fork, exit and are killed: every accepted job is there once, and none hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

durable = pytest.mark.parametrize("every_store_url", ["sqlite", "postgres"], indirect=True)
PROGRAMS = Path(__file__).with_name("programs.py")
ROOT = Path(__file__).parents[2]


def run(name: str, url: str, *arguments: object, status: int = 0) -> Any:
    """Run a program; returns what it printed. It must end in time and leave nothing on its standard error."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), name, url, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == status, done.stderr
    assert not done.stderr
    return json.loads(done.stdout) if done.stdout else None


def jobs(url: str) -> Counter[int]:
    """How many jobs there are, by their number."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            rows = connection.execute("select arguments from interlock_job").fetchall()
    else:
        with psycopg.connect(url) as server:
            rows = server.execute("select arguments from interlock.job").fetchall()
    return Counter(json.loads(arguments)["number"] for (arguments,) in rows)


@contextlib.contextmanager
def gunicorn(directory: Path, web: str, **environment: str) -> Iterator[str]:
    """Four forked workers of a preloaded program; yields its address. They must end cleanly."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = directory / "gunicorn.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--threads", "4"),
                *("--bind", address, "--worker-tmp-dir", str(directory), web),
            ],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            stdout=output,
            stderr=output,
        )
    try:
        give_up = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(tuple(address.split(":"))).close()  # type: ignore[arg-type]
                break
            except ConnectionError:
                assert time.monotonic() < give_up, log.read_text()
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
        yield f"http://{address}"
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
        assert "Error" not in log.read_text(), log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def post(url: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=120) as answer:
        return str(answer.read().decode())


@pytest.mark.full
@pytest.mark.timeout(300)
@durable
def test_ten_thousand_jobs_of_four_gunicorn_workers_are_there_once(every_store_url: str, tmp_path: Path) -> None:
    with (
        gunicorn(tmp_path, "tests.sync.gunicorn_app:web", STORE_URL=every_store_url) as address,
        ThreadPoolExecutor(16) as clients,
    ):
        requests = [f"{address}/enqueue/{start}/100" for start in range(0, 10_000, 100)]
        processes = set(clients.map(post, requests))

    assert len(processes) == 4, "every worker took part"
    assert jobs(every_store_url) == once(-1, *range(10_000))


@pytest.mark.full
def test_the_flask_program_of_the_documentation_runs_under_gunicorn(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sync.md").read_text("utf-8")
    (program,) = re.findall(r"^`web\.py`:\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "web.py").write_text(program)

    with gunicorn(tmp_path, "web:web") as address:
        numbers = {json.loads(post(f"{address}/welcome/{n}"))["job"] for n in range(20)}
        with urllib.request.urlopen(f"{address}/jobs/{min(numbers)}", timeout=30) as answer:
            assert json.loads(answer.read()) == {"state": "ready"}

    assert len(numbers) == 20


def once(*numbers: int) -> Counter[int]:
    return Counter(numbers)


@pytest.mark.parametrize("every_store_url", ["sqlite"], indirect=True)
def test_a_program_forks_between_calls(every_store_url: str) -> None:
    run("fork", every_store_url)

    assert jobs(every_store_url) == once(0, 1, 2, 3, 4, 10, 11, 12, 20, 21, 22, 30, 31, 32, 101, 102)


@pytest.mark.full
@pytest.mark.parametrize("every_store_url", ["postgres"], indirect=True)
def test_a_program_on_a_server_forks_between_calls(every_store_url: str) -> None:
    test_a_program_forks_between_calls(every_store_url)


@durable
def test_a_program_exits_while_threads_are_in_calls(every_store_url: str) -> None:
    run("exit", every_store_url)

    found = jobs(every_store_url)
    del found[0]  # those of the daemon thread
    assert found == once(1, 2, 3)


@durable
def test_a_process_of_multiprocessing_ends_after_the_calls_of_its_threads(every_store_url: str) -> None:
    assert run("end_child", every_store_url) == 0
    assert jobs(every_store_url) == once(*range(30))


@durable
def test_a_task_on_the_background_event_loop_forks(every_store_url: str) -> None:
    assert run("fork_on_own_loop", every_store_url) is True
    assert jobs(every_store_url) == once(1)


@pytest.mark.full
@durable
def test_what_is_registered_for_the_exit_may_call(every_store_url: str) -> None:
    run("exit_early", every_store_url)

    assert jobs(every_store_url) == once(1, 2)


@pytest.mark.full
@durable
def test_a_fork_leaves_the_lease_with_the_parent(every_store_url: str) -> None:
    answer = run("fork_in_use", every_store_url)

    if "sqlite" in every_store_url:
        assert "was open when this process was forked" in answer
        assert jobs(every_store_url) == once(2)
    else:
        assert answer[1:] == [1, True], "the child has its own session, and the lock is held"
        assert jobs(every_store_url) == once(1, 2)


@pytest.mark.full
@durable
def test_an_asynchronous_program_forks(every_store_url: str) -> None:
    answer = run("asynchronous_parent", every_store_url)

    if "sqlite" in every_store_url:
        assert "was open when this process was forked" in answer
    assert jobs(every_store_url) == (once(1, 2) if "sqlite" in every_store_url else once(1, 2, 3))


@pytest.mark.full
@durable
def test_threads_enqueue_while_their_process_forks(every_store_url: str) -> None:
    answer = run("fork_under_load", every_store_url, 20)

    assert all(isinstance(one, int) for one in answer["children"]), answer["children"]
    found = jobs(every_store_url)
    assert set(found.values()) == {1}
    assert set(range(20)) <= set(found)
    assert len(found) == 20 + answer["threads"]


@pytest.mark.full
@durable
def test_a_job_that_was_committed_before_the_process_was_killed_is_there_once(every_store_url: str) -> None:
    run("die", every_store_url, status=-9)

    assert jobs(every_store_url) == once(1, 2)
