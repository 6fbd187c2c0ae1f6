"""PostgreSQL databases that last as long as somebody needs them."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["new_database"]


def new_database(server: Any, template: str = "template0", *, migrated: bool = False) -> Iterator[str]:
    """The name of a database that is new, or a copy of another one, dropped afterwards."""
    name = f"interlock_{uuid.uuid4().hex}"
    server.create_database(name, template)
    try:
        if migrated:
            with ThreadPoolExecutor(1) as thread:  # the caller's may be running an event loop
                thread.submit(asyncio.run, _migrate(server.url(name))).result()
        yield name
    finally:
        server.drop_database(name)


async def _migrate(url: str) -> None:
    store = from_url(url, settings=Settings())
    await store.open()
    await store.close()
