"""A job's limits as they are kept with it: compact JSON, in whole microseconds."""

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
    """One limit that a job is under."""

    key: str
    quota: Quota


def encode_limits(uses: Sequence[Use]) -> str | None:
    """Limits as text; None for none."""
    if not uses:
        return None
    return json.dumps([(use.key, use.most, micros(use.per)) for use in uses], separators=(",", ":"))


@lru_cache(maxsize=4096)
def decode_limits(text: str) -> tuple[Limit, ...]:
    """And back. Most jobs of a kind share their limits, so that few texts are ever read."""
    return tuple(Limit(key, Quota(most, per)) for key, most, per in json.loads(text))


@lru_cache(maxsize=4096)
def slots_of(text: str | None) -> tuple[str, ...]:
    """The keys of slots among limits."""
    return tuple(key for key, quota in decode_limits(text) if not quota.per) if text else ()


@lru_cache(maxsize=4096)
def is_paced(text: str | None) -> bool:
    """Whether there is a pace among limits."""
    return bool(text) and any(quota.per for _, quota in decode_limits(text or ""))


def decode_uses(text: str | None) -> tuple[Use, ...]:
    """Limits as the port has them."""
    return tuple(Use(key, most, seconds(per)) for key, (most, per) in decode_limits(text)) if text else ()


def fetch_class_for(uses: Sequence[Use]) -> int:
    """How a fetch has to handle a job with these limits."""
    if not uses:
        return FetchClass.PLAIN
    return FetchClass.PACED if any(use.per > 0 for use in uses) else FetchClass.SLOTS
