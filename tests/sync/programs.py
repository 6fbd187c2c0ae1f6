"""Programs of synchronous code that fork, exit and die. Each is started as a process: ``python -m … NAME URL``."""

from __future__ import annotations

import asyncio
import atexit
import json
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

from interlock import App

if TYPE_CHECKING:
    from collections.abc import Callable

app = App(sys.argv[2])


@app.job()
def count(number: int) -> None: ...


def in_child(work: Callable[[], Any]) -> Any:
    """Run a function in a forked process, which ends as programs do; returns what the function returned."""
    reader, writer = os.pipe()
    is_asynchronous = asyncio._get_running_loop() is not None
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            answer = json.dumps(work())
        except Exception as error:
            answer = json.dumps(repr(error))
        os.write(writer, answer.encode())
        os.close(writer)
        if not is_asynchronous:
            sys.exit()
        os._exit(0)  # the rest of the program belongs to the event loop of the parent
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(answer)


def fork() -> None:
    """Use the app before and after several forks, in both processes."""
    count.enqueue_sync(0)
    for number in range(1, 4):
        assert in_child(lambda: [count.enqueue_sync(10 * number + n).id for n in range(3)])  # noqa: B023
        count.enqueue_sync(number)
    children = [multiprocessing.get_context("fork").Process(target=count.enqueue_sync, args=(100 + n,)) for n in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    count.enqueue_sync(4)


def fork_in_use() -> None:
    """Fork while a lease is held. Its holder keeps it; the child has its own session, or is refused."""
    with app.sync.locks.acquire("k") as lease:
        answer = in_child(lambda: [count.enqueue_sync(1).id, len(app.sync.locks.list()), app.sync.run(acquire_nothing)])
        lease.ensure()
        count.enqueue_sync(2)
        lease.ensure()
    print(json.dumps(answer))


def in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


async def acquire_nothing() -> bool:
    return await app.locks.try_acquire("k") is None


def fork_under_load() -> None:
    """Fork again and again while threads enqueue; each child enqueues too."""
    done = threading.Event()
    counts = [0] * 4

    def enqueue(thread: int) -> None:
        while not done.is_set():
            count.enqueue_sync(1_000_000 * (thread + 1) + counts[thread])
            counts[thread] += 1

    threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    forks = int(sys.argv[3])
    answers = [in_child(lambda: count.enqueue_sync(n).id) for n in range(forks)]  # noqa: B023
    done.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"children": answers, "threads": sum(counts)}))


def exit() -> None:  # noqa: A001
    """End while threads are in calls: one that ends by itself, and daemons that never would."""
    waiting = threading.Event()
    handle = count.enqueue_sync(1)

    def daemon_waits() -> None:
        waiting.set()
        handle.result(wait=3600)

    def daemon_enqueues() -> None:
        while True:
            count.options(queue="daemon").enqueue_sync(0)

    def goes_on() -> None:
        threading.main_thread().join()
        count.enqueue_sync(2)

    atexit.register(count.enqueue_sync, 3)
    for work in (daemon_waits, daemon_enqueues):
        threading.Thread(target=work, daemon=True).start()
    waiting.wait()
    threading.Thread(target=goes_on).start()
    with app.sync.locks.acquire("held") as lease:
        lease.ensure()


def exit_early() -> None:
    """End with what was registered before the first call."""


def end_child() -> None:
    """End a process of multiprocessing while a thread of it makes calls. It waits for such threads at its end."""

    def in_process() -> None:
        count.enqueue_sync(0)
        ending = threading.Event()

        def goes_on() -> None:
            ending.wait()
            for number in range(1, 30):
                count.enqueue_sync(number)

        Finalize(None, ending.set, exitpriority=0)
        threading.Thread(target=goes_on).start()

    child = multiprocessing.get_context("fork").Process(target=in_process)
    child.start()
    child.join(30)
    status = child.exitcode
    child.kill()
    print(json.dumps(status))


def fork_on_own_loop() -> None:
    """Fork in a task on the background event loop, while no call is under way."""
    forked = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def fork_later() -> None:
        await returned.wait()
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        forked.set()

    async def start() -> None:
        tasks.append(asyncio.create_task(fork_later()))

    returned = asyncio.Event()
    app.sync.run(start)
    tasks[0].get_loop().call_soon_threadsafe(returned.set)
    print(json.dumps(forked.wait(30)), flush=True)
    count.enqueue_sync(1)


def die() -> None:
    """Be killed after the commit and before the call returns."""
    count.enqueue_sync(1)
    engine = app.jobs._opened
    enqueue = engine.jobs.enqueue

    async def killed(*args: Any, **how: Any) -> None:
        await enqueue(*args, **how)
        os.kill(os.getpid(), signal.SIGKILL)

    engine.jobs.enqueue = killed  # type: ignore[method-assign,assignment]
    count.enqueue_sync(2)


def asynchronous_parent() -> None:
    """Fork in an asynchronous program; the child uses the app from synchronous code."""

    async def main() -> Any:
        async with app:
            await count.enqueue(1)
            answer = in_child(lambda: in_thread(lambda: count.enqueue_sync(3).id))
            await count.enqueue(2)
            return answer

    print(json.dumps(asyncio.run(main())))


if __name__ == "__main__":
    if sys.argv[1] == "exit_early":
        atexit.register(lambda: count.enqueue_sync(2))
        count.enqueue_sync(1)
    globals()[sys.argv[1]]()
