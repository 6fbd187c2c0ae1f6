"""The arguments that workers can read, as JSON: a fingerprint of the handler and a version for each name of a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.ports.jobs import HandlerVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_reads", "write_reads"]


def write_reads(reads: Sequence[HandlerVersion]) -> str:
    """For the store."""
    return json.dumps({read.name: [read.fingerprint, read.version] for read in reads})


def read_reads(text: str) -> tuple[HandlerVersion, ...]:
    """And back."""
    return tuple(
        HandlerVersion(name, fingerprint, version) for name, (fingerprint, version) in json.loads(text).items()
    )
