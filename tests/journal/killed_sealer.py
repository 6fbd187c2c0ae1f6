"""A process that starts to seal a journal and stops at a chosen point, to be killed there."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from interlock.backends import from_url
from interlock.journal.hashing import draft_seal
from interlock.settings import Settings


def _stop(*_: object) -> None:
    print("here", flush=True)
    time.sleep(60)


async def _main(url: str, point: str) -> None:
    store: Any = from_url(url, settings=Settings())
    await store.open()
    unsealed = await store.journal.unsealed(3)
    if point == "before":
        _stop()
    if url.startswith("sqlite"):
        write = store.journal._write

        async def traced(do: Any) -> Any:
            def watched(db: Any) -> Any:
                # The seal is written, its entries are not, and nothing is committed.
                db.set_trace_callback(lambda text: _stop() if text.startswith("update interlock_journal ") else None)
                return do(db)

            return await write(watched)

        store.journal._write = traced
    print("going", flush=True)
    await store.journal.seal(draft_seal(unsealed), [row[0] for row in unsealed.rows])


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
