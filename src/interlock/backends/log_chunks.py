"""Chunks of a job's log as the stores keep them: a JSON array of lines, each ``[microseconds, level, text]``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import micros, seconds
from interlock.ports.job_logs import LogEntry, LogSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.job_logs import LogChunk

__all__ = ["StoredChunk", "decode_chunks", "encode_chunk"]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class StoredChunk(NamedTuple):
    """A row of a chunk table."""

    first: int
    """The number of its first line."""
    attempt: int
    fence: int
    content: str


def encode_chunk(chunk: LogChunk) -> tuple[str, int]:
    """The content of a chunk, and its size in bytes."""
    content = _encode([[micros(line.at), line.level, line.text] for line in chunk.lines])
    return content, len(content) if content.isascii() else len(content.encode())


def decode_chunks(chunks: Iterable[Sequence[Any]], after: int, limit: int, *, more: bool) -> LogSlice:
    """The lines of chunks after a number, at most ``limit``. ``more``: whether there are further chunks."""
    entries: list[LogEntry] = []
    for chunk in chunks:
        first, attempt, fence, content = StoredChunk._make(chunk)
        for number, (at, level, text) in enumerate(json.loads(content), first):
            if number <= after:
                continue
            if len(entries) == limit:
                return LogSlice(entries, more=True)
            entries.append(LogEntry(number, seconds(at), level, text, attempt, fence))
    return LogSlice(entries, more)
