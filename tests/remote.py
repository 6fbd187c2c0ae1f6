"""A store on a server, reached through a proxy that can lose what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.testing.proxy import ThreadedFaultProxy


class Remote:
    """``url`` leads through the proxy, ``direct`` around it."""

    def __init__(self, direct: str, proxy: ThreadedFaultProxy) -> None:
        self.direct = direct
        self.url = proxy.url(direct)
        self.proxy = proxy
