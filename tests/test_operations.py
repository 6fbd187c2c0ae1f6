"""Operations: their actor, reason and cause, and where the entry goes if the store has no journal."""

from __future__ import annotations

import contextlib
import json

import pytest

from interlock import App
from interlock.backends.memory import MemoryStore
from interlock.errors import InvalidArgumentError, NotFoundError, StoreUnavailableError
from interlock.jobs.jobs import engine_of
from interlock.operations import Operations
from interlock.ports.claims import ClaimFilter, ClaimRequest, ClaimState
from interlock.ports.job_views import JobFilter
from interlock.ports.journal import Action, JournalFilter
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.selections import LaneFilter


class WithoutJournal(MemoryStore):
    """A store such as Redis."""

    capabilities = MemoryStore.capabilities - {Capability.JOURNAL}


async def _claimed() -> WithoutJournal:
    store = WithoutJournal()
    await store.sessions.begin(SessionCard("a", "host-a", 7, "test"), 15.0)
    await store.claims.claim(ClaimRequest("k", "a1", "a", 60.0, 60.0))
    return store


async def test_the_entry_of_another_store_is_written_before_the_change() -> None:
    store, durable = await _claimed(), MemoryStore()
    forgotten = await Operations(store, durable.journal).forget_claim("k", by="ann", reason="again")

    assert forgotten is not None
    (entry,) = await durable.journal.list(JournalFilter())
    assert (entry.action, entry.subject_key, entry.actor, entry.reason) == ("claim.forget", "k", "ann", "again")
    assert entry.from_version == forgotten.fence
    assert json.loads(entry.before or "")["state"] == "in progress"


async def test_nothing_to_change_in_another_store_leaves_no_entry() -> None:
    store, durable = WithoutJournal(), MemoryStore()
    operations = Operations(store, durable.journal)

    assert await operations.forget_claim("k", by="ann", reason="again") is None
    assert await operations.force_release("k", by="ann", reason="stuck") is None
    assert await operations.forget_cursor("c", by="ann", reason="anew") is None
    assert list(await durable.journal.list(JournalFilter())) == []


async def test_a_change_that_another_process_made_first_is_recorded_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store, durable = await _claimed(), MemoryStore()

    async def gone(*_: object) -> None:
        return None

    monkeypatch.setattr(store.claims, "forget", gone)
    assert await Operations(store, durable.journal).forget_claim("k", by="ann", reason="again") is None
    after = [entry.after for entry in await durable.journal.list(JournalFilter())]
    assert [None if text is None else json.loads(text) for text in after] == [{"changed": False}, None]


async def test_no_change_is_made_without_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    store, durable = await _claimed(), MemoryStore()

    async def away(*_: object) -> int:
        raise StoreUnavailableError("The store is away.")

    monkeypatch.setattr(durable.journal, "add", away)
    with pytest.raises(StoreUnavailableError):
        await Operations(store, durable.journal).forget_claim("k", by="ann", reason="again")
    assert len(await store.claims.list("k")) == 1


async def test_an_operation_inside_a_handler_names_the_job_as_its_cause() -> None:
    async with App("memory://") as app:

        @app.job()
        async def tidy() -> None:
            await app.lanes.hold("l", by="tidy", reason="tidying up")

        handle = await tidy.enqueue()
        await app.drain()
        (entry,) = await app.insight.journal()

    assert (entry.actor, entry.cause_job, entry.cause_event) == ("tidy", handle.id, None)
    assert entry.cause_fence is not None


async def test_retrying_keeps_the_actor_and_the_reason() -> None:
    async with App("memory://") as app:

        @app.job()
        async def fails() -> None:
            raise LookupError("no")

        handle = await fails.enqueue()
        await app.drain()
        await app.jobs.retry(handle, by="ann", reason="it is there now")
        with pytest.raises(NotFoundError):
            await app.jobs.retry(10**9, by="ann")
        with pytest.raises(InvalidArgumentError):
            await app.jobs.retry(handle, by=" ")
        page = await app.insight.journal(JournalFilter(subject_kind="job", subject_key=str(handle.id)))
        with pytest.raises(InvalidArgumentError, match="subject_kind"):
            await app.insight.journal(JournalFilter(subject_key="7"))

    assert [(entry.action, entry.actor, entry.reason) for entry in page] == [("job.retry", "ann", "it is there now")]


async def test_the_journal_is_read_page_by_page() -> None:
    async with App("memory://") as app:
        for n in range(5):
            await app.lanes.hold(f"l{n}", by="ann", reason="looking")
        first = await app.insight.journal(limit=3)
        rest = await app.insight.journal(limit=3, before=first.more)
        with pytest.raises(InvalidArgumentError, match="Invalid position"):
            await app.insight.journal(before="nonsense")

    assert [entry.subject_key for entry in (*first, *rest)] == ["l4", "l3", "l2", "l1", "l0"]
    assert rest.more is None


# -- everything that matches a filter ----------------------------------------------------------------------------------


async def test_what_no_longer_matches_is_left_alone_and_reported() -> None:
    async with App("memory://") as app:

        @app.job(lane="{lane}")
        async def build(lane: str) -> None: ...

        for lane in ("a", "b", "c"):
            await build.enqueue(lane=lane)
        operations, wanted = engine_of(app.jobs).store_client.operations, LaneFilter()
        counted = await operations.matching(wanted, Action.LANE_HOLD)
        await app.lanes.hold("b", by="bob", reason="mine")
        result = await operations.apply(Action.LANE_HOLD, wanted, by="ann", reason="all", refs=[*counted, "unknown"])
        by_ann = await app.insight.journal(JournalFilter(actor="ann"))

    assert (result.changed, result.unchanged, result.matched) == (("a", "c"), ("b", "unknown"), 4)
    assert [entry.subject_key for entry in by_ann] == ["c", "a"]


async def test_a_claim_that_is_taken_again_is_not_forgotten_as_a_failed_one() -> None:
    async with App("memory://") as app:
        failed = ClaimFilter(state=ClaimState.FAILED)
        for key in ("a", "b"):
            with contextlib.suppress(LookupError):
                async with app.claims.claim(key):
                    raise LookupError("no")
        operations = app.claims._running.operations
        counted = await operations.matching(failed, Action.CLAIM_FORGET)
        again = await app.claims.claim("a")
        result = await operations.apply(Action.CLAIM_FORGET, failed, by="ann", reason="anew", refs=counted)
        await again.done()

    assert (result.changed, result.unchanged) == (("b",), ("a",))


async def test_a_job_that_is_removed_meanwhile_counts_as_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with App("memory://") as app:

        @app.job()
        async def build() -> None: ...

        handle = await build.enqueue()
        operations = engine_of(app.jobs).store_client.operations

        async def gone(*_: object) -> None:
            return None

        monkeypatch.setattr(engine_of(app.jobs).jobs, "cancel", gone)
        result = await operations.apply(Action.JOB_CANCEL, JobFilter(), by="ann", reason="all")

    assert (result.changed, result.unchanged) == ((), (handle.id,))


async def test_each_change_in_a_store_without_a_journal_has_its_own_entry() -> None:
    store, durable = await _claimed(), MemoryStore()
    await store.claims.claim(ClaimRequest("l", "a2", "a", 60.0, 60.0))
    result = await Operations(store, durable.journal).apply(
        Action.CLAIM_FORGET, ClaimFilter(), by="ann", reason="again"
    )

    assert result.changed == ("k", "l")
    entries = await durable.journal.list(JournalFilter())
    assert [(entry.subject_key, entry.actor, entry.reason) for entry in entries] == [
        ("l", "ann", "again"),
        ("k", "ann", "again"),
    ]


async def test_an_operation_needs_the_filter_of_its_subjects() -> None:
    operations = Operations(MemoryStore())
    with pytest.raises(InvalidArgumentError, match=r"lane\.hold does not apply to a ClaimFilter"):
        await operations.matching(ClaimFilter(), Action.LANE_HOLD)
    with pytest.raises(InvalidArgumentError, match="reason"):
        await operations.apply(Action.LANE_HOLD, LaneFilter(), by="ann", reason=" ")
