"""The journal as lines of JSON, with its seals, so that it can be kept and verified elsewhere.

An export has a first line that says what it is, then each batch (its entries, then its seal), then the entries that are
not sealed, and a last line with the head. A file without the last line is incomplete.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.errors import InvalidArgumentError
from interlock.journal.hashing import FORMAT
from interlock.journal.verifier import Verifier
from interlock.ports.journal import ENTRY_COLUMNS, Batch, JournalFilter, Seal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from interlock.journal.verifier import VerificationReport
    from interlock.ports.journal import EntryRow, JournalStore

__all__ = ["export_lines", "verify_lines"]

_PAGE = 2000
_HASHES = ("previous", "root", "hash", "leaves")
_MICROS = 1_000_000


async def export_lines(store: JournalStore, wanted: JournalFilter | None = None) -> AsyncIterator[str]:
    """Yield the lines of an export, batch by batch, in bounded memory.

    ``wanted`` leaves out other entries; the seals are complete. An entry that is sealed while the export runs may be in
    it twice: without its batch, then with it.
    """
    status = await store.status()
    filtered = wanted is not None and wanted != JournalFilter()
    yield _line("journal", format=FORMAT, namespace=status.namespace, filtered=filtered)
    count, head = 0, Seal(0, b"", 0, 0, 0, 0, 0, b"", b"", None)
    after_id, more = 0, True
    while True:
        while batches := await store.batches(head.batch, _PAGE):
            for batch in batches:
                head = batch.seal
                for row in batch.rows:
                    if wanted is None or _matches(row, wanted):
                        count += 1
                        yield _entry_line(row, head.batch)
                yield _seal_line(head)
        if not more:  # what was sealed since the last look at unsealed entries is here now
            break
        rows = (await store.unsealed(_PAGE, after=after_id)).rows
        for row in rows:
            if wanted is None or _matches(row, wanted):
                count += 1
                yield _entry_line(row, None)
        more = len(rows) == _PAGE
        after_id = rows[-1][0] if rows else after_id
    yield _line("end", entries=count, head_batch=head.batch, head=head.hash.hex())


def verify_lines(lines: Iterable[str], *, head: str = "") -> VerificationReport:
    """Verify an export without its store. Memory is bounded by the largest batch.

    Raises ``InvalidArgumentError`` for text that is not a complete, unfiltered export.
    """
    parsed = _parsed(lines)
    first = next(parsed, {})
    if first.get("type") != "journal" or first.get("format") != FORMAT:
        raise InvalidArgumentError("This is not an export of a journal.", remedy="Use: interlock journal export.")
    if first.get("filtered"):
        raise InvalidArgumentError(
            "An export of some entries cannot be verified.", remedy="Export the whole journal: without filters."
        )
    verifier, rows, unsealed, first_kept = Verifier(str(first.get("namespace")), head), [], 0, 0
    for line in parsed:
        match line.get("type"):
            case "entry" if line.get("batch") is None:
                unsealed += 1
            case "entry" if isinstance(line.get("id"), int):
                rows.append(tuple(line.get(column) for column in ENTRY_COLUMNS))
            case "seal":
                seal = _seal(line)
                first_kept = first_kept or (seal.batch if seal.pruned_at is None else 0)
                verifier.check(Batch(seal, rows))
                rows = []
            case "end":
                return verifier.report(unsealed, first_kept=first_kept or verifier.batch + 1)
            case _:
                break
    raise InvalidArgumentError("The export has no last line: it is incomplete.", remedy="Export the journal again.")


def _line(kind: str, **values: Any) -> str:
    return json.dumps({"type": kind, **values})


def _entry_line(row: EntryRow, batch: int | None) -> str:
    values = dict(zip(ENTRY_COLUMNS, row, strict=True))
    return _line("entry", batch=batch, time=as_text(row[1] / _MICROS), **values)


def _seal_line(seal: Seal) -> str:
    values = seal._asdict()
    hashes = {name: values[name] if values[name] is None else values[name].hex() for name in _HASHES}
    return _line("seal", time=as_text(seal.sealed_at / _MICROS), **values | hashes)


def _parsed(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise InvalidArgumentError(f"Line {number} is not a JSON object.", remedy="Export the journal again.")
        yield value


def _seal(line: dict[str, Any]) -> Seal:
    try:
        hashes = {name: line[name] if line[name] is None else bytes.fromhex(line[name]) for name in _HASHES}
        return Seal(**{name: line[name] for name in Seal._fields} | hashes)
    except (KeyError, TypeError, ValueError):
        raise InvalidArgumentError(
            f"The seal of batch {str(line.get('batch'))[:20]} is not complete.", remedy="Export the journal again."
        ) from None


def _matches(row: EntryRow, wanted: JournalFilter) -> bool:
    entry = dict(zip(ENTRY_COLUMNS, row, strict=True))
    at = entry["at"] / _MICROS
    return (
        all(
            getattr(wanted, name) in ("", None, entry[name])
            for name in ("subject_kind", "subject_key", "actor", "action", "cause_job", "cause_event")
        )
        and (wanted.since is None or at >= wanted.since)
        and (wanted.until is None or at < wanted.until)
    )
