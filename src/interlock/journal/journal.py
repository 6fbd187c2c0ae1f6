"""``app.journal``: add to, read, seal, verify and export the journal of an app's durable store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_limit, checked_prefix
from interlock.clock import as_datetime
from interlock.errors import InvalidArgumentError
from interlock.journal.entries import program_entry
from interlock.journal.export import export_lines
from interlock.journal.sealer import seal_all
from interlock.journal.verifier import verify
from interlock.operations import unknown_entry
from interlock.ports.journal import JournalFilter, JournalPosition, Verification

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from interlock.journal.verifier import VerificationReport
    from interlock.ports.journal import JournalEntry, JournalStatus, JournalStore
    from interlock.store_client import StoreClient

__all__ = ["EntryView", "Journal", "checked_head", "record"]

_HASH_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry as a program sees it: the time is aware and in UTC, ``before`` and ``after`` are decoded."""

    id: int
    at: datetime
    actor: str
    reason: str
    action: str
    subject_kind: str
    subject_key: str
    from_version: int | None
    to_version: int | None
    before: Any
    after: Any
    cause_event: int | None
    cause_job: int | None
    cause_fence: int | None
    batch: int | None
    """The sealed batch that the entry belongs to; None while it is not sealed."""


class Journal:
    """The journal of one store. Its methods work while the app is open."""

    def __init__(self, store_client: StoreClient) -> None:
        self._client = store_client

    @property
    def _store(self) -> JournalStore:
        return self._client.store.journal

    async def list(
        self,
        *,
        kind: str = "",
        key: str = "",
        actor: str = "",
        action: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        job: int | None = None,
        event: int | None = None,
        before: EntryView | None = None,
        limit: int = 100,
    ) -> Sequence[EntryView]:
        """List entries, newest first: those about a subject, of an actor, with an action, from and until a time.

        ``job`` and ``event`` are the cause. ``before`` continues behind an entry of the list before.
        """
        if key and not kind:
            raise InvalidArgumentError(
                "A key needs the kind of its subject.", remedy="Pass kind= as well, such as kind='job'."
            )
        for text in (kind, key, actor, action):
            checked_prefix(text)
        wanted = JournalFilter(kind, key, actor, action, _time("since", since), _time("until", until), job, event)
        position = None if before is None else JournalPosition(before.at.timestamp(), before.id)
        count = checked_limit(limit)
        entries = await self._client.repeat(lambda: self._store.list(wanted, limit=count, before=position))
        return [_view(entry) for entry in entries]

    async def get(self, id: int) -> EntryView:  # noqa: A002
        """Return one entry. Raises :class:`NotFoundError` if there is none with this ID, or none any more."""
        entry = await self._client.repeat(lambda: self._store.get(id))
        if entry is None:
            raise unknown_entry(id)
        return _view(entry)

    async def add(
        self, action: str, key: object, *, by: str, reason: str = "", before: object = None, after: object = None
    ) -> int:
        """Add an entry of the program's own, and return its ID. It is durable when this returns.

        ``action`` is the kind of subject and a verb: ``order.ship``. ``key`` identifies the subject. ``before`` and
        ``after`` are data. In a job's handler the entry also names the job and its event. The entry is repeated if the
        store does not answer, so there may be two. It commits alone: changes of records have their own entries, and
        ``interlock.contrib.sqlalchemy`` adds entries in the transactions of a program's own tables.
        """
        entry = program_entry(action, key, by=by, reason=reason, before=before, after=after)
        return await self._client.repeat(lambda: self._store.add(entry))

    async def status(self) -> JournalStatus:
        """Return how far the journal is sealed and verified."""
        return await self._client.repeat(self._store.status)

    async def seal(self) -> int:
        """Seal what has been added, without waiting for a worker; return how many entries were sealed."""
        return await seal_all(self._store, self._client.settings.seal_limit)

    async def verify(self, *, head: str = "") -> VerificationReport:
        """Recompute every hash and report what does not match; keep the result for the dashboard and health.

        ``head`` is the hash of a seal that you kept elsewhere: the journal must still contain it.
        """
        report = await verify(self._store, head=checked_head(head))
        await record(self._store, report)
        return report

    async def export(self, **wanted: Any) -> AsyncIterator[str]:
        """Yield the journal as lines of JSON with its seals; the keywords are the fields of ``JournalFilter``."""
        async for line in export_lines(self._store, JournalFilter(**wanted)):
            yield line


async def record(store: JournalStore, report: VerificationReport) -> None:
    """Keep the result of a verification in its store."""
    first = report.problems[0].message if report.problems else ""
    head = bytes.fromhex(report.head)
    await store.verified(Verification(0.0, report.batches, report.entries, report.problem_count, first, head))


def checked_head(head: str) -> str:
    """Check the hash of a seal, which may be empty."""
    text = head.strip().lower()
    if text and (len(text) != _HASH_LENGTH or set(text) - set("0123456789abcdef")):
        raise InvalidArgumentError(
            f"Invalid hash {head[:80]!r} of a seal: use its 64 hexadecimal digits.",
            remedy="Use `head` of an earlier verification or export.",
        )
    return text


def _time(name: str, value: datetime | None) -> float | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise InvalidArgumentError(f"{name} has no time zone.", remedy="Use an aware datetime, such as in UTC.")
    return value.timestamp()


def _view(entry: JournalEntry) -> EntryView:
    values = entry._asdict()
    for name in ("before", "after"):
        values[name] = None if values[name] is None else json.loads(values[name])
    return EntryView(**values | {"at": as_datetime(entry.at)})
