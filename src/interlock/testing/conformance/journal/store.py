"""The journal port: an entry exists exactly when its change does, and lists are bounded and in order."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from interlock.errors import InterlockError
from interlock.journal.sealer import seal_all
from interlock.journal.verifier import verify
from interlock.ports.claims import ClaimRequest
from interlock.ports.cursors import Move
from interlock.ports.jobs import JobState, OnFailure, Outcome
from interlock.ports.journal import Action, Attribution, JournalFilter, JournalPosition, NewEntry
from interlock.ports.store import Capability
from interlock.testing.conformance.jobs.driver import near
from interlock.testing.conformance.journal.seals import JournalSealConformance

if TYPE_CHECKING:
    from interlock.ports.journal import JournalEntry
    from interlock.testing.conformance.events.driver import EventDriver

__all__ = ["JournalStoreConformance"]

EVA = Attribution("eva", "größere Arbeiten", 4, 7, 11)


async def _entries(b: EventDriver, **wanted: Any) -> list[JournalEntry]:
    """All entries, the oldest first."""
    return list(await b.store.journal.list(JournalFilter(**wanted)))[::-1]


async def _one(b: EventDriver) -> tuple[str, str, str, Any, Any]:
    """The only entry: its action, subject, and what it says about before and after."""
    (entry,) = await _entries(b)
    assert (entry.actor, entry.reason) == ("eva", "größere Arbeiten")
    assert (entry.cause_event, entry.cause_job, entry.cause_fence) == (4, 7, 11)
    assert entry.at == near(b.now)
    assert entry.batch is None
    before, after = (None if text is None else json.loads(text) for text in (entry.before, entry.after))
    return entry.action, entry.subject_kind, entry.subject_key, before, after


class JournalStoreConformance(JournalSealConformance):
    """Operations and their entries."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS, Capability.EVENTS, Capability.JOURNAL)

    # -- entries of a program's own ------------------------------------------------------------------------------------

    async def test_entries_that_are_added_at_the_same_time_are_all_kept(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            journal = b.store.journal
            entries = [NewEntry(EVA, "order.ship", "order", str(n), None, json.dumps({"n": n})) for n in range(100)]
            ids = await asyncio.gather(*(journal.add(entry) for entry in entries))

            assert len(set(ids)) == 100
            for id, wanted in list(zip(ids, entries, strict=True))[::9]:  # noqa: A001
                found = await journal.get(id)
                assert found is not None
                assert (found.subject_key, found.after, found.reason) == (wanted.subject_key, wanted.after, EVA.reason)

    # -- an entry for each operation that changes something ------------------------------------------------------------

    async def test_a_hold_and_a_release_are_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await b.add(lane="l")
            await b.jobs.hold("l", EVA)
            nobody = {"held_by": None, "held_reason": None, "parked_reason": None}
            eva = {**nobody, "held_by": "eva", "held_reason": "größere Arbeiten"}
            assert await _one(b) == ("lane.hold", "lane", "l", nobody, eva)

            await b.jobs.hold("l", EVA)
            assert len(await _entries(b)) == 1, "holding again with the same words changes nothing"
            await b.jobs.hold("l", EVA._replace(reason="longer"))
            assert await b.jobs.release("l", Attribution("ann"))
            assert not await b.jobs.release("l", Attribution("ann"))
            entries = await _entries(b)
            assert [(entry.action, entry.actor, entry.reason) for entry in entries[1:]] == [
                ("lane.hold", "eva", "longer"),
                ("lane.release", "ann", ""),
            ]
            assert json.loads(entries[2].before or "") == {**eva, "held_reason": "longer"}
            assert json.loads(entries[2].after or "") == nobody

    async def test_releasing_a_parked_lane_is_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await b.add(lane="l", on_failure=OnFailure.PARK)
            await b.end(await b.one(), Outcome.FAILED, error="ValueError: broken")
            assert await _entries(b) == [], "what Interlock does by itself is no operation"
            assert await b.jobs.release("l", EVA)
            _, _, _, before, _ = await _one(b)
            assert before == {"held_by": None, "held_reason": None, "parked_reason": "ValueError: broken"}

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.PARKED, Outcome.RETRY])
    async def test_a_retry_is_recorded(self, store_url: str, outcome: Outcome) -> None:
        async with self.event_driver(store_url) as b:
            job_id = await b.add()
            await b.end(await b.one(), outcome, error="no", delay=60.0 if outcome is Outcome.RETRY else 0.0)
            state = await b.state(job_id)
            assert await b.jobs.retry(job_id, EVA) is JobState.READY
            assert await _one(b) == ("job.retry", "job", str(job_id), {"state": str(state)}, {"state": "ready"})
            assert await b.jobs.retry(job_id, EVA) is JobState.READY
            assert len(await _entries(b)) == 1, "there is nothing to retry"

    async def test_a_cancellation_is_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            job_id = await b.add(lane="l")
            assert await b.jobs.cancel(job_id, EVA) is JobState.CANCELLED
            assert await _one(b) == ("job.cancel", "job", str(job_id), {"state": "ready"}, {"state": "cancelled"})
            assert await b.jobs.cancel(job_id, EVA) is JobState.CANCELLED
            assert len(await _entries(b)) == 1

    async def test_asking_a_running_job_to_end_is_recorded_once(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            job_id = await b.add()
            job = await b.one()
            await b.started(job)
            for _ in range(2):  # the answer to the first may have been lost
                assert await b.jobs.cancel(job_id, EVA) is JobState.RUNNING
            before, after = {"state": "running"}, {"state": "running", "cancel_requested": True}
            assert await _one(b) == ("job.cancel", "job", str(job_id), before, after)
            (entry,) = await _entries(b)
            assert entry.from_version == job.fence

    async def test_a_forced_release_is_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            fence = await b.granted("a1")
            assert await b.locks.force("k", "why", EVA)
            assert await b.locks.force("k", "why", EVA) is None
            holder = {"holder": "a1", "session": "a", "host": "host-a", "pid": 7, "program": "test", "fence": fence}
            assert await _one(b) == ("lock.force_release", "lock", "k", holder, None)
            (entry,) = await _entries(b)
            assert (entry.from_version, entry.to_version) == (fence, None)

    async def test_a_forgotten_claim_is_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await b.store.claims.claim(ClaimRequest("c", "a1", "a", 60.0, 60.0))
            assert await b.store.claims.forget("c", "why", EVA)
            assert await b.store.claims.forget("c", "why", EVA) is None
            action, kind, key, before, after = await _one(b)
            assert (action, kind, key, after) == ("claim.forget", "claim", "c", None)
            assert (before["state"], before["attempt"], before["session"]) == ("in progress", 1, "a")

    async def test_a_forgotten_cursor_is_recorded(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await b.store.cursors.move(Move("c", 0, '{"page":7}', "m1", "test"))
            assert await b.store.cursors.forget("c", EVA)
            assert await b.store.cursors.forget("c", EVA) is None
            action, kind, key, before, after = await _one(b)
            assert (action, kind, key, after) == ("cursor.forget", "cursor", "c", None)
            assert (before["value"], before["by"]) == ({"page": 7}, "test")

    async def test_a_replay_is_recorded_with_the_event_and_its_jobs(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            first = await b.accepted()
            assert await _entries(b) == []
            again = await b.accepted("again", replay_of=first.id, attribution=EVA, jobs=2)
            assert list(await b.events.accept([again])) == [again.id], "its answer was lost"
            after = {"event": again.id, "jobs": [job.id for job in again.jobs]}
            assert await _one(b) == ("event.replay", "event", str(first.id), None, after)

    # -- and none without a change -------------------------------------------------------------------------------------

    async def test_operations_that_find_nothing_leave_no_entry(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            (never,) = await b.jobs.ids(1)
            done = await b.add()
            await b.done(await b.one())
            assert await b.jobs.retry(never, EVA) is None
            assert await b.jobs.cancel(never, EVA) is None
            assert await b.jobs.retry(done, EVA) is JobState.DONE
            assert await b.jobs.cancel(done, EVA) is JobState.DONE
            assert not await b.jobs.release("l", EVA)
            assert await b.locks.force("k", "why", EVA) is None
            assert await b.store.claims.forget("c", "why", EVA) is None
            assert await b.store.cursors.forget("c", EVA) is None

            assert await _entries(b) == []

    async def test_a_change_that_is_rolled_back_leaves_no_entry(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            first = await b.accepted()
            wrong = await b.event("again", replay_of=first.id, attribution=EVA)
            wrong = wrong._replace(jobs=(wrong.jobs[0]._replace(id=first.jobs[0].id),))
            with pytest.raises(InterlockError):
                await b.events.accept([wrong])

            assert await b.kept(wrong) is None
            assert await _entries(b) == []

    async def test_a_change_whose_entry_cannot_be_written_is_not_made(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            job_id = await b.add(lane="l")
            await b.granted("a1")
            unwritable = Attribution(None, "no actor")  # type: ignore[arg-type]
            with pytest.raises(Exception, match=r"actor|null|NULL"):
                await b.jobs.hold("l", unwritable)
            with pytest.raises(Exception, match=r"actor|null|NULL"):
                await b.locks.force("k", "why", unwritable)

            assert await b.state(job_id) is JobState.READY
            assert (await b.locks.list("k"))[0].holder is not None
            assert await _entries(b) == []

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _add(
        self, b: EventDriver, key: str, actor: str = "ann", action: Action = Action.LOCK_FORCE_RELEASE
    ) -> int:
        b.clock.advance(1.0)
        entry = NewEntry(Attribution(actor, "because"), action, action.subject_kind, key, '{"a": 1}', None, 3, 4)
        return await b.store.journal.add(entry)

    async def test_an_entry_of_another_store_is_kept_as_given(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            number = await self._add(b, "k")
            entry = await b.store.journal.get(number)
            assert entry is not None
            assert (entry.id, entry.action, entry.subject_kind, entry.subject_key) == (
                number, "lock.force_release", "lock", "k"
            )  # fmt: skip
            assert (entry.from_version, entry.to_version, json.loads(entry.before or ""), entry.after) == (
                3, 4, {"a": 1}, None
            )  # fmt: skip
            assert await b.store.journal.get(number + 1000) is None

    async def test_lists_are_filtered_newest_first_and_in_parts(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            ids = [
                await self._add(b, "k"),
                await self._add(b, "l", "eva"),
                await self._add(b, "k", "eva"),
                await self._add(b, "k", "eva", Action.CLAIM_FORGET),
            ]
            since = b.now

            async def found(**wanted: Any) -> list[int]:
                return [ids.index(entry.id) for entry in await b.store.journal.list(JournalFilter(**wanted))]

            assert await found() == [3, 2, 1, 0]
            assert await found(subject_kind="lock") == [2, 1, 0]
            assert await found(subject_kind="lock", subject_key="k") == [2, 0]
            assert await found(subject_kind="lock", subject_key="k", actor="eva") == [2]
            assert await found(actor="eva") == [3, 2, 1]
            assert await found(actor="eva", action="claim.forget") == [3]
            assert await found(since=since) == [3]
            assert await found(since=since + 1) == []
            assert await found(until=since) == [2, 1, 0]
            assert await found(until=since, actor="eva") == [2, 1]
            first = await b.store.journal.list(JournalFilter(), limit=2)
            rest = await b.store.journal.list(JournalFilter(), before=JournalPosition(first[-1].at, first[-1].id))
            assert [ids.index(entry.id) for entry in (*first, *rest)] == [3, 2, 1, 0]

    async def test_namespaces_have_their_own_journals(self, store_url: str) -> None:
        if store_url.startswith("memory"):
            return  # it has one namespace
        async with (
            self.event_driver(store_url) as a,
            self.event_driver(store_url, namespace=f"{self.namespace[:40]}-2") as b,
        ):
            number = await self._add(a, "k")
            assert await b.store.journal.get(number) is None
            assert await _entries(b) == []
            assert (await b.store.journal.unsealed(10)).rows == []
            assert (await b.store.journal.status()).unsealed == 0
            await seal_all(a.store.journal, 10)
            assert list(await b.store.journal.batches(0, 10)) == []
            a.clock.advance(10.0)
            b.clock.advance(20.0)
            assert await b.store.journal.prune(0.0) == 0
            assert len(await _entries(a)) == 1
            assert await self._add(b, "k") > number
            assert await seal_all(b.store.journal, 10) == 1
            assert (await verify(a.store.journal)).batches == (await verify(b.store.journal)).batches == 1

    async def test_lists_are_filtered_by_cause(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            for job, event in ((7, 4), (8, 4), (None, None)):
                attribution = Attribution("ann", "", event, job, 1 if job else None)
                await b.store.journal.add(NewEntry(attribution, "lock.force_release", "lock", f"k{job}"))

            async def found(**wanted: Any) -> list[str]:
                return [entry.subject_key for entry in await _entries(b, **wanted)]

            assert await found(cause_job=7) == ["k7"]
            assert await found(cause_event=4) == ["k7", "k8"]
            assert await found(cause_event=4, cause_job=8) == ["k8"]
            assert await found(cause_job=7, subject_kind="lock", subject_key="k8") == []
            assert await found(cause_job=7, actor="eva") == []
            assert await found(cause_job=9) == []
