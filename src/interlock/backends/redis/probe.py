"""Checks whether a server is suitable for leases."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from interlock.errors import CapabilityError, StoreError, StoreUnavailableError
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.backends.redis.connection import Connection

__all__ = ["probe"]

_log = logging.getLogger("interlock.redis")
_MIN_VERSION = (6, 2)


async def probe(connection: Connection) -> None:
    """Refuse a server that evicts keys or is a cluster; log a warning if a restart would lose leases."""
    await connection.send("PING")
    try:
        text = await connection.send("INFO")
    except StoreUnavailableError:
        raise
    except StoreError:
        return  # this user may not run INFO
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = tuple(int(number) for number in re.findall(r"\d+", found.get("redis_version", ""))[:2])
    if version and version < _MIN_VERSION:
        raise CapabilityError(
            f"This server is Redis {found['redis_version']}; Interlock needs 6.2 or later.",
            remedy="Upgrade the server.",
        )
    if found.get("cluster_enabled") == "1":
        raise CapabilityError(
            "This server is a Redis Cluster, where one script cannot use several keys.",
            remedy="Use one primary, optionally with replicas (Sentinel, or a managed service without clustering).",
        )
    policy = found.get("maxmemory_policy", "")
    if policy.startswith("allkeys-") and found.get("maxmemory", "0") != "0":
        raise CapabilityError(
            f"This server evicts any key when its memory is full ({policy}), leases included.",
            remedy="Set maxmemory-policy to noeviction or one of volatile-*.",
        )
    if found.get("aof_enabled") == "0":
        emit(
            _log,
            logging.WARNING,
            "redis_not_persistent",
            remedy="a restart loses leases; fences still grow. Set appendonly yes to keep leases",
        )
