"""Loopback ports that a server can bind and keep."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

__all__ = ["can_bind", "first_outgoing_port", "free_port"]


def free_port(second: int = 0) -> int:
    """A port on 127.0.0.1 that is free now, outside the range that outgoing connections draw from.

    ``second`` is for servers that also bind the port that is higher by this number.

    A port inside that range could be taken while its server is down, or make a client that retries connect to
    itself.
    """
    low = 10_240
    high = min(first_outgoing_port(), 32_768) - second
    if high - low < 1_000:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    while True:
        port = random.randrange(low, high)
        if can_bind(port) and can_bind(port + second):
            return port


def can_bind(port: int) -> bool:
    """Whether a port on 127.0.0.1 is free now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def first_outgoing_port() -> int:
    """Where the range begins that outgoing connections draw their ports from."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 32_768
