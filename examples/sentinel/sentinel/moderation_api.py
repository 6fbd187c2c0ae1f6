"""A small moderation service to try the console with: ``python -m sentinel.moderation_api [--port 8090]``.

It keeps its state in memory: items, and the reviews of each. It also notes what a careless client would do to it, for
the audit: two reviews of one item at once, and every call of each account.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import time
from collections import Counter
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

__all__ = ["Moderation", "create_moderation_api"]


class ReviewRequest(BaseModel):
    """A report of an item."""

    account_id: int
    key: Annotated[str, Field(min_length=1, max_length=200)]


class Behavior(BaseModel):
    """How the service treats an item, for tests: slow, unwilling, or unavailable for some calls."""

    seconds: float = 0.0
    refuse: bool = False
    unavailable: int = 0


class Moderation:
    """The state of the service."""

    def __init__(self, seconds: tuple[float, float] = (0.0, 0.0)) -> None:
        self._seconds = seconds
        self._reviews: dict[str, asyncio.Future[int]] = {}
        self._active: Counter[str] = Counter()
        self._last = 0
        self.behavior: dict[str, Behavior] = {}
        self.calls: list[dict[str, Any]] = []
        """Each call with its item, account, key and time of arrival."""
        self.overlaps: list[str] = []
        """Items that two different reviews were made of at once."""

    async def review(self, item: str, request: ReviewRequest) -> int:
        """Make a review; a repeated key gets the first one's number."""
        self.calls.append({"item": item, "account_id": request.account_id, "key": request.key, "at": time.time()})
        how = self.behavior.get(item, Behavior())
        if how.refuse:
            raise HTTPException(422, f"Item {item} is not open for reports.")
        if how.unavailable:
            how.unavailable -= 1
            raise HTTPException(503, "Try again later.")
        made = self._reviews.get(request.key)
        if made is None:
            made = self._reviews[request.key] = asyncio.ensure_future(self._make(item, how.seconds))
        return await asyncio.shield(made)  # the review goes on if its client dies

    async def _make(self, item: str, seconds: float) -> int:
        self._active[item] += 1
        if self._active[item] > 1:
            self.overlaps.append(item)
        try:
            await asyncio.sleep(seconds or random.uniform(*self._seconds))  # noqa: S311
        finally:
            self._active[item] -= 1
        self._last += 1
        return self._last

    def state(self) -> dict[str, Any]:
        """The reviews, the calls and the overlaps, for an audit."""
        done = {key: made.result() for key, made in self._reviews.items() if made.done()}
        return {"reviews": done, "calls": self.calls, "overlaps": self.overlaps}


def create_moderation_api(moderation: Moderation) -> FastAPI:
    """Return the service as an ASGI application."""
    api = FastAPI(title="Moderation", openapi_url=None)

    @api.post("/items/{item}/reviews", status_code=201)
    async def review(item: str, request: ReviewRequest) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        return {"review": await moderation.review(item, request)}

    @api.put("/items/{item}/behavior")
    async def behave(item: str, behavior: Behavior) -> Behavior:  # pyright: ignore[reportUnusedFunction]
        moderation.behavior[item] = behavior
        return behavior

    @api.get("/state")
    async def state() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return moderation.state()

    return api


def main() -> None:
    """Serve until the process is ended. Prints the URL first."""
    parser = argparse.ArgumentParser(prog="python -m sentinel.moderation_api", description=__doc__)
    parser.add_argument("--port", type=int, default=8090, help="0 for a free one (8090)")
    parser.add_argument("--seconds", type=float, default=0.2, help="the longest time that a review takes (0.2)")
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", options.port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        api = create_moderation_api(Moderation((options.seconds / 10, options.seconds)))
        uvicorn.Server(uvicorn.Config(api, log_level="error")).run([listening])


if __name__ == "__main__":
    main()
