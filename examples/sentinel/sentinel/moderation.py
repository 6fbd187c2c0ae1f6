"""The client of the moderation API, where a report becomes a review of an item."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

__all__ = ["ModerationClient", "ModerationError", "ModerationUnavailableError"]

_SECONDS = 10.0


class ModerationError(Exception):
    """The API refused a review: another attempt would be refused too."""


class ModerationUnavailableError(Exception):
    """The API did not answer, or asked for patience: another attempt may succeed."""


class ModerationClient:
    """Calls the API over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def review(self, item: str, account_id: int, key: str) -> int:
        """Report an item from an account and return the review's number.

        The API answers a repeated ``key`` with the first review, so a report that a crash repeats is counted once.
        """
        body = {"account_id": account_id, "key": key}
        calling = asyncio.ensure_future(asyncio.to_thread(self._post, f"/items/{item}/reviews", body))
        try:
            answer = await asyncio.shield(calling)
        except asyncio.CancelledError:
            # The call goes on in its thread. The report is not over before it has ended.
            await asyncio.wait([calling])
            raise
        return int(answer["review"])

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - a URL of our own configuration
            self.url + path, data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1000).decode(errors="replace")
            if error.code == 429 or error.code >= 500:
                raise ModerationUnavailableError(f"The moderation API answered {error.code}: {text}") from None
            raise ModerationError(f"The moderation API refused the report ({error.code}): {text}") from None
        except OSError as error:
            raise ModerationUnavailableError(f"The moderation API cannot be reached: {error}") from error
