"""A table of intents without versions is upgraded in place, while an old program still writes to it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bridge.core.enums import IntentStatusEnum
from bridge.core.errors import BridgeError, ConcurrencyConflictError
from bridge.core.operations import update_intent_status
from bridge.data.upgrade import downgrade_intents_table, upgrade_intents_table
from bridge.factory import open_bridge
from interlock.testing.processes import Worker
from tests.examples.bridge_lite.intents import correction, stored
from tests.examples.bridge_lite.old_writer import create_table, row, table

if TYPE_CHECKING:
    from bridge.core.models import IntentModel


async def test_an_old_writer_and_interlock_lose_no_write_of_one_another(url: str) -> None:
    await create_table(url)
    ids = [uuid4() for _ in range(3)]
    async with table(url) as old:
        for one in ids:
            await old.insert(one, "received", {"old": 0, "new": 0})
    made = dict.fromkeys(ids, 0)

    def add(intent: IntentModel) -> None:
        intent.payload["new"] += 1

    async with Worker.spawn("tests.examples.bridge_lite.old_writer:write", [url, [str(one) for one in ids]]) as writer:
        await writer.wait_for("ready", 30)
        imported = await upgrade_intents_table(url)
        async with open_bridge(url) as bridge:
            for number in range(30):
                for one in ids:
                    while True:
                        try:
                            if number % 3:
                                await bridge.data_bridge.update_intent(one, add)
                            else:
                                async with bridge.data_bridge.lock_intent_for_update(one) as intent:
                                    add(intent)
                        except ConcurrencyConflictError:
                            continue  # the old program does not queue: it was faster, and nothing was written
                        made[one] += 1
                        break
            writer.send("stop")
            written = await writer.result(30)
            assert imported >= len(ids)
            for one in ids:
                intent = await stored(bridge, one)
                assert intent.payload == {"old": written["counts"][str(one)], "new": made[one]}
                found = await row(url, one)
                assert found is not None
                assert (found["payload"], found["version"]) == (intent.payload, intent.version)
                entries = await bridge.data_bridge.intents.history(str(one), limit=1000)
                versions = [entry.to_version for entry in reversed(entries)]
                assert versions == list(range(intent.version + 1)), "every version has its entry, in order"
            for added in written["added"]:
                assert await bridge.data_bridge.intents.get(added)


async def test_every_kind_of_write_appears_on_the_other_side(url: str) -> None:
    await create_table(url)
    first, second = uuid4(), uuid4()
    before = [{"correction_id": "c-1", "source": "yuno", "reason": "old", "applied_at": "2026-01-02T03:04:05Z"}]
    async with table(url) as old, open_bridge(url) as bridge:
        await old.insert(first, " Processed", {"a": 1}, before)
        assert (await upgrade_intents_table(url), await upgrade_intents_table(url)) == (1, 0)

        await old.insert(second, "received", {"b": 2})
        assert (await stored(bridge, second)).payload == {"b": 2}
        await old.count(second)
        assert (await stored(bridge, second)).version == 1
        events = await bridge.audit_logger.events(second)
        assert events == []

        answer = await bridge.reeval_client.reeval(correction(first, {"payload.a": 9}))
        intent = await stored(bridge, first)
        assert [one.correction_id for one in intent.correction_history] == ["c-1", answer.correction_id]
        found = await row(url, first)
        assert found is not None
        assert (found["status"], found["payload"], found["version"]) == ("corrected", {"a": 9}, 1)
        assert [one["correction_id"] for one in found["correction_history"]] == ["c-1", answer.correction_id]

        # The old program appends to the list as it read it.
        await old.set_history(first, [*found["correction_history"], {"correction_id": "c-2", "source": "kana"}])
        intent = await stored(bridge, first)
        assert sorted(one.correction_id for one in intent.correction_history) == sorted(
            ["c-1", "c-2", answer.correction_id]
        )
        assert (await bridge.reeval_client.reeval(correction(first, {"payload.a": 9}))).already_applied

        await update_intent_status(first, IntentStatusEnum.COMPLETED, bridge.data_bridge, bridge.audit_logger)
        found = await row(url, first)
        assert found is not None
        assert found["status"] == "completed"
        await bridge.data_bridge.intents.delete(str(first))
        assert await row(url, first) is None
        await old.run(f"delete from intents where id = '{second}'")
        assert await bridge.data_bridge.get_intent(second) is None
        made = await bridge.data_bridge.create_intent(intent.model_copy(update={"id": uuid4(), "status": "received"}))
        found = await row(url, made.id)
        assert found is not None

        await downgrade_intents_table(url)
        await old.count(made.id)
        assert (await stored(bridge, made.id)).version == 0
        assert (await bridge.app.journal.verify()).ok


async def test_an_edit_under_which_the_old_program_writes_fails_and_loses_nothing(url: str) -> None:
    await create_table(url)
    one = uuid4()
    async with table(url) as old, open_bridge(url) as bridge:
        await old.insert(one, "received", {"old": 0})
        await upgrade_intents_table(url)
        with pytest.raises(ConcurrencyConflictError, match="bypasses Interlock"):  # noqa: PT012
            async with bridge.data_bridge.lock_intent_for_update(one) as intent:
                intent.payload["old"] = 100
                await old.count(one)

        assert (await stored(bridge, one)).payload == {"old": 1}


async def test_a_write_waits_for_an_old_program_that_has_the_row_locked(complete_postgres_url: str) -> None:
    import asyncpg

    url = complete_postgres_url
    await create_table(url)
    one = uuid4()
    async with table(url) as old, open_bridge(url) as bridge:
        await old.insert(one, "received", {"old": 0})
        await upgrade_intents_table(url)
        connection = await asyncpg.connect(url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("select from intents where id = $1 for update", one)
            correcting = asyncio.create_task(bridge.reeval_client.reeval(correction(one, {"payload.new": 1})))
            await asyncio.sleep(0.3)
            assert not correcting.done()
            # The old program wants the record, which the correction may not keep locked while it waits.
            await connection.execute("update intents set payload = $1 where id = $2", json.dumps({"old": 7}), one)
            await transaction.commit()
            await correcting
        finally:
            await connection.close()

        assert (await stored(bridge, one)).payload == {"old": 7, "new": 1}


async def test_an_invalid_row_is_named_and_nothing_is_changed(url: str) -> None:
    await create_table(url)
    good, bad = uuid4(), uuid4()
    async with table(url) as old, open_bridge(url) as bridge:
        await old.insert(good, "received", {})
        await old.insert(bad, "lost", {})
        with pytest.raises(BridgeError, match=f"{bad} is not a valid intent; nothing was changed"):
            await upgrade_intents_table(url)

        assert await bridge.data_bridge.get_intent(good) is None
        found = await row(url, good)
        assert found is not None
        assert "version" not in found
