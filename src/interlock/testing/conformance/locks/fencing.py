"""Transactions that only a live lease can commit."""

from __future__ import annotations

import pytest

from interlock.errors import LeaseLostError
from interlock.ports.store import Capability
from interlock.testing.conformance.base import needs
from interlock.testing.conformance.driver import DriverSuite

__all__ = ["FencingConformance"]


class FencingConformance(DriverSuite):
    """Fenced transactions."""

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_write_commits_while_the_lease_is_live(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            fence = await b.granted("a1")
            async with b.locks.fenced("k", "a1", fence) as tx:
                await tx.execute("create table target (value integer)")
                await tx.execute("insert into target (value) values (1)")
            async with b.locks.fenced("k", "a1", fence) as tx:
                rows = await tx.fetch("select value from target")

            assert [tuple(row) for row in rows] == [(1,)]

    @needs(Capability.TRANSACTIONS)
    async def test_a_stale_fenced_write_is_refused(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            old = await b.granted("a1", ttl=5.0)
            b.clock.advance(6)
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "a1", old):
                    pytest.fail("the body must not run")  # pragma: no cover
            await b.granted("b1")
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "a1", old):
                    pytest.fail("the body must not run")  # pragma: no cover
            with pytest.raises(LeaseLostError):
                async with b.locks.fenced("k", "b1", old):
                    pytest.fail("the body must not run")  # pragma: no cover

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_write_that_fails_leaves_nothing(self, store_url: str) -> None:
        async with self.driver(store_url) as b:
            fence = await b.granted("a1")
            async with b.locks.fenced("k", "a1", fence) as tx:
                await tx.execute("create table target (value integer)")
            with pytest.raises(RuntimeError, match="on purpose"):
                async with b.locks.fenced("k", "a1", fence) as tx:
                    await tx.execute("insert into target (value) values (1)")
                    raise RuntimeError("on purpose")
            async with b.locks.fenced("k", "a1", fence) as tx:
                assert list(await tx.fetch("select value from target")) == []
