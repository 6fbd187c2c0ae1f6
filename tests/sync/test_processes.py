"""Programs of synchronous code that fork, exit and are killed: every accepted job is there once, and none hangs."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

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
