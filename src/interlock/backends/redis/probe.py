"""What is at the other end, and whether leases are safe there."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from interlock.errors import CapabilityError, StoreError, StoreUnavailableError
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.backends.redis.lane import Lane

__all__ = ["probe"]

_log = logging.getLogger("interlock.redis")
_LEAST_VERSION = (6, 2)


async def probe(lane: Lane) -> None:
    """Refuse a server that would forget leases or split them up; say so where a restart forgets them."""
    await lane.send("PING")
    try:
        text = await lane.send("INFO")
    except StoreUnavailableError:
        raise
    except StoreError:
        return  # this user may not ask; whoever made it so knows the server
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = tuple(int(number) for number in re.findall(r"\d+", found.get("redis_version", ""))[:2])
    if version and version < _LEAST_VERSION:
        raise CapabilityError(
            f"This Redis is {found['redis_version']}; Interlock needs 6.2 or later.", remedy="Upgrade it."
        )
    if found.get("cluster_enabled") == "1":
        raise CapabilityError(
            "This Redis is a cluster, in which one step cannot touch several keys.",
            remedy="Use one primary, with replicas if need be (Sentinel, or a managed service without clustering).",
        )
    policy = found.get("maxmemory_policy", "")
    if policy.startswith("allkeys-") and found.get("maxmemory", "0") != "0":
        raise CapabilityError(
            f"This Redis drops any key when its memory is full ({policy}), and so leases.",
            remedy="Set maxmemory-policy to noeviction or one of volatile-*.",
        )
    if found.get("aof_enabled") == "0":
        emit(
            _log,
            logging.WARNING,
            "redis_not_persistent",
            remedy="a restart forgets leases, their holders are told, fences still grow; appendonly yes keeps them",
        )
