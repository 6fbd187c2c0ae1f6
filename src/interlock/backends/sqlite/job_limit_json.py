"""A job's limits as compact JSON, in whole microseconds."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.pacing import Quota, micros, seconds
from interlock.backends.sqlite.job_rows import FetchClass
from interlock.ports.limits import Use

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Limit", "decode_uses", "fetch_class_for", "is_paced", "decode_limits", "slots_of", "encode_limits"]


class Limit(NamedTuple):
    """One limit of a job."""

    key: str
    quota: Quota


def encode_limits(uses: Sequence[Use]) -> str | None:
    """Encode limits; None if there are none."""
    if not uses:
        return None
    return json.dumps([(use.key, use.max_count, micros(use.per)) for use in uses], separators=(",", ":"))


@lru_cache(maxsize=4096)
def decode_limits(text: str) -> tuple[Limit, ...]:
    """Decode limits. Most jobs of a kind share their limits, so few texts are ever decoded."""
    return tuple(Limit(key, Quota(max_count, per)) for key, max_count, per in json.loads(text))


@lru_cache(maxsize=4096)
def slots_of(text: str | None) -> tuple[str, ...]:
    """Return the keys of limits with slots."""
    return tuple(key for key, quota in decode_limits(text) if not quota.per) if text else ()


@lru_cache(maxsize=4096)
def is_paced(text: str | None) -> bool:
    """Return whether a limit is a rate or a cooldown."""
    return bool(text) and any(quota.per for _, quota in decode_limits(text or ""))


def decode_uses(text: str | None) -> tuple[Use, ...]:
    """Decode limits into the port's type."""
    return tuple(Use(key, max_count, seconds(per)) for key, (max_count, per) in decode_limits(text)) if text else ()


def fetch_class_for(uses: Sequence[Use]) -> int:
    """Return the fetch class of a job with these limits."""
    if not uses:
        return FetchClass.PLAIN
    return FetchClass.PACED if any(use.per > 0 for use in uses) else FetchClass.SLOTS
