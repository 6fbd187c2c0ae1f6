"""Processes that are killed (SIGKILL) while a transaction with a job is under way: one for each driver and moment.

``python -m tests.jobs.transactions.killed POSTGRES_URL SQLITE_URL`` starts them all, each as a fork, because importing
every driver takes far longer than the rest.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from interlock import App
from tests.jobs.transactions.drivers import DRIVERS, enqueue

MOMENTS = ("before the commit", "between commit and return")


def main() -> None:
    urls = dict(zip(("postgres", "sqlite"), sys.argv[1:], strict=True))
    for name, driver in DRIVERS.items():
        for moment in MOMENTS:
            child = os.fork()
            if child == 0:
                try:
                    asyncio.run(_transaction(name, moment, urls[driver.store]))
                finally:
                    os._exit(1)  # it should have been killed
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                sys.exit(f"{name}, {moment}: exited with {os.waitstatus_to_exitcode(status)}")


async def _transaction(name: str, moment: str, url: str) -> None:
    app = App(url)

    @app.job()
    async def report(driver: str, moment: str) -> None: ...

    async with DRIVERS[name].open(url) as transaction:
        await transaction.execute("insert into orders values (7)")
        await enqueue(report, transaction.connection, driver=name, moment=moment)
        if moment == "before the commit":
            os.kill(os.getpid(), signal.SIGKILL)
        await transaction.commit()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
