"""Handler versions as JSON: a fingerprint and a version for each job name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.ports.jobs import HandlerVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["decode_versions", "encode_versions"]


def encode_versions(reads: Sequence[HandlerVersion]) -> str:
    """Encode handler versions."""
    return json.dumps({read.name: [read.fingerprint, read.version] for read in reads})


def decode_versions(text: str) -> tuple[HandlerVersion, ...]:
    """The reverse."""
    return tuple(
        HandlerVersion(name, fingerprint, version) for name, (fingerprint, version) in json.loads(text).items()
    )
