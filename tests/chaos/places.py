"""A store of its own for a run, of each kind: where it is, the ways to it, and what can be done to it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import LocalServer, PostgresServer, RedisServer
from tests.chaos.store_faults import FLUSH, FileFaults, FlushFaults, ServerFaults, StoreFaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["FAULTS", "KINDS", "PROCESSES", "Place", "place"]

KINDS = ("sqlite", "postgres", "redis")
PROCESSES = {"kill -9", "SIGTERM", "short pause", "pause", "long pause"}
_NETWORK = {"reset", "blackhole", "half_open", "drop_replies", "delay", "refuse"}
_SERVERS = PROCESSES | _NETWORK | {"server restart", "server crash"}
FAULTS = {
    "sqlite": PROCESSES | {"write lock held"},
    "postgres": _SERVERS,
    "redis": _SERVERS,
    "forgetful redis": PROCESSES | _NETWORK | {FLUSH, FlushFaults.restart_name, FlushFaults.crash_name},
}
"""What must have fired in a run on each kind of store."""


@dataclass(frozen=True)
class Place:
    """A store that only one run uses."""

    kind: str
    name: str
    url: str
    """The straight way, for those who look at it afterwards."""
    ways: Sequence[str]
    """The ways that processes take, in turn."""
    faults: StoreFaults


@contextlib.contextmanager
def place(kind: str, folder: Path, *, scale: float = 1.0) -> Iterator[Place]:
    """A store of that kind; ``scale`` makes what is done to it shorter or longer."""
    if kind == "sqlite":
        path = folder / "store.db"
        url = f"sqlite:///{path}"
        yield Place(kind, "SQLite", url, [url], FileFaults(path, scale))
        return
    faults, name = ServerFaults, "PostgreSQL"
    server: LocalServer
    if kind == "postgres":
        server = PostgresServer(settings={"track_commit_timestamp": "on"})
    elif kind == "redis":
        server, name = RedisServer(appendonly=True), "Redis"
    else:
        server, name, faults = RedisServer(), "Redis that forgets", FlushFaults
    with contextlib.ExitStack() as stack:
        stack.enter_context(server)
        assert isinstance(server, (PostgresServer, RedisServer))
        direct = server.url()
        proxies = [stack.enter_context(ThreadedFaultProxy("127.0.0.1", server.port)) for _ in range(2)]
        ways = [proxy.url(direct) for proxy in proxies]
        yield Place(kind, name, direct, ways, faults(server, proxies, scale))
