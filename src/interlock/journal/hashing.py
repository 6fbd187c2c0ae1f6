"""The hashes of the journal: of an entry, of a batch, and of a seal.

Everything is hashed as a compact JSON array in UTF-8, so that any language with JSON and SHA-256 can recompute it.
docs/journal.md describes the format; a change of it needs a new ``FORMAT``.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

from interlock.ports.journal import Seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import EntryRow, Unsealed

__all__ = ["FIRST", "FORMAT", "draft_seal", "entry_hash", "leaves_of", "parse_leaves", "root_of", "seal_hash"]

FIRST = bytes(32)
"""The previous hash of the first seal, which has no seal before it."""
FORMAT = "interlock-journal-1"
"""The format of hashes and exports."""
_LEAF = struct.Struct(">q32s")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr).encode


def entry_hash(row: EntryRow) -> bytes:
    """Hash all columns of an entry, in the order of ``ENTRY_COLUMNS``."""
    return _hash(row)


def leaves_of(rows: Sequence[EntryRow]) -> bytes:
    """Concatenate ID and hash of each entry, 40 bytes each."""
    return b"".join(_LEAF.pack(row[0], entry_hash(row)) for row in rows)


def parse_leaves(leaves: bytes) -> dict[int, bytes]:
    """Return the hashes by ID. Ignores trailing bytes that are not a whole leaf."""
    whole = len(leaves) - len(leaves) % _LEAF.size
    return dict(_LEAF.iter_unpack(leaves[:whole]))


def root_of(leaves: bytes) -> bytes:
    """Hash the leaves of a batch."""
    return hashlib.sha256(leaves).digest()


def seal_hash(namespace: str, seal: Seal) -> bytes:
    """Hash a seal with its namespace and the hash of the seal before."""
    return _hash(
        (
            *(FORMAT, namespace, seal.batch, _hex(seal.previous), seal.sealed_at, seal.size),
            *(seal.first_id, seal.last_id, seal.newest_at, _hex(seal.root)),
        )
    )


def draft_seal(unsealed: Unsealed) -> Seal:
    """Compute the seal of the next batch from what a store returned; there must be entries."""
    head, rows = unsealed.head, unsealed.rows
    leaves = leaves_of(rows)
    seal = Seal(
        batch=1 if head is None else head.batch + 1,
        previous=FIRST if head is None else head.hash,
        sealed_at=unsealed.now,
        size=len(rows),
        first_id=rows[0][0],
        last_id=rows[-1][0],
        newest_at=max(row[1] for row in rows),
        root=root_of(leaves),
        hash=b"",
        leaves=leaves,
    )
    return seal._replace(hash=seal_hash(unsealed.namespace, seal))


def _hash(values: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(_encode(values).encode("utf-8", "surrogatepass")).digest()


def _hex(value: object) -> str:
    # A seal that was tampered with may hold any value here, and must still be hashed.
    return value.hex() if isinstance(value, bytes) else repr(value)
