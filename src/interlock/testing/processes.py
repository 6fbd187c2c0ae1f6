"""Real worker processes for tests: fresh interpreters that exchange JSON lines with the test.

The test holds a `Worker` for each and can pause, resume and kill it at a known point; a worker's code calls
`report`, `receive` and `wait_at_barrier`. Every worker is reaped, and none outlives the test process, even
when that is killed or the worker is paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, BinaryIO, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "Barrier",
    "Message",
    "Worker",
    "WorkerFailedError",
    "receive",
    "receive_async",
    "report",
    "wait_at_barrier",
    "wait_at_barrier_async",
]

Message = dict[str, Any]

STDERR_BYTES = 64 * 1024
UNREAD_MESSAGES = 100_000
KILL_SECONDS = 20.0
POLL_SECONDS = 0.2
BARRIER_LEAD_SECONDS = 0.02
ORPHAN_STATUS = 113
FINISHED = "finished"
BARRIER = "barrier"


class WorkerFailedError(AssertionError):
    """A worker ended, or sent no message, where the test relied on it; the message shows its standard error."""


class Worker:
    """One worker process, seen from the test. Enter it as an async context: leaving kills what is left.

    The waiting methods are coroutines; the others return as soon as the operating system has done its part.
    A worker's prints go to its standard error, of which the last 64 KiB are kept.
    """

    def __init__(self, process: subprocess.Popen[bytes], target: str) -> None:
        self.target = target
        self._process = process
        self._inbox = _Mailbox()
        self._stderr = bytearray()
        self._drainer = threading.Thread(target=self._drain, name=f"interlock-worker-{process.pid}", daemon=True)
        self._drainer.start()

    @classmethod
    def spawn(cls, target: str, args: Iterable[Any] = (), *, env: Mapping[str, str] | None = None) -> Self:
        """Start a process that calls `target`, "package.module:function", with JSON-able `args`.

        The function may be a coroutine function. It finds modules where this process does; what it returns,
        also JSON-able, arrives as the message "finished".
        """
        module, colon, function = target.partition(":")
        if not (module and colon and function):
            raise ValueError(f'a target is written "package.module:function", not {target!r}')
        # The kernel ties a worker's life to the thread that starts it: only the main thread may ask for that.
        tied = threading.current_thread() is threading.main_thread()
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, target, json.dumps(list(args)), str(os.getpid() if tied else 0)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(env or {})},
            process_group=0,
        )
        return cls(process, target)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal, or None while the worker lives."""
        return self._process.poll()

    @property
    def stderr(self) -> str:
        """The last part of what the worker wrote to its standard error, or printed."""
        return bytes(self._stderr).decode(errors="replace")

    async def wait_for(self, wanted: str | Callable[[Message], bool], timeout: float = 10.0) -> Message:
        """Take the oldest message of that name, or that the predicate accepts; the others stay.

        Raises `WorkerFailedError` when the worker ends without it, or after `timeout` seconds.
        """
        try:
            return await self._inbox.take_async(_matcher(wanted), timeout)
        except TimeoutError:
            raise self._failure(f"sent no {wanted!r} in {timeout:g} s") from None
        except EOFError as end:
            raise self._failure(f"ended with status {self.returncode} without {wanted!r}{end}") from None

    async def result(self, timeout: float = 10.0) -> Any:
        """Wait until the worker's function returns, and return its result."""
        return (await self.wait_for(FINISHED, timeout))["result"]

    async def wait(self, timeout: float = 10.0) -> int:
        """Wait until the worker has ended, and return its exit status."""
        try:
            await self._inbox.closed_async(timeout)
        except TimeoutError:
            raise self._failure(f"still runs after {timeout:g} s") from None
        return self._process.wait(KILL_SECONDS)

    def send(self, message: str | Mapping[str, Any], **fields: Any) -> None:
        """Send a message, or one of that name with these fields, for the worker to `receive`."""
        body = {"name": message} if isinstance(message, str) else dict(message)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(_encode({**body, **fields}))
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._failure(f"was gone when {message!r} was sent") from None

    def pause(self) -> None:
        """Suspend the worker (SIGSTOP), and return when it is suspended."""
        self._signal(signal.SIGSTOP)
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a paused worker (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the worker to end (SIGTERM); a paused worker receives it when it is resumed."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker (SIGKILL), paused or not, and reap it; messages that it sent can still be read."""
        self._signal(signal.SIGKILL)
        self._process.wait(KILL_SECONDS)
        self._drainer.join(KILL_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)  # does nothing once the process is reaped

    def _failure(self, what: str) -> WorkerFailedError:
        return WorkerFailedError(f"worker {self.pid} ({self.target}) {what}; its stderr:\n{self.stderr or '(empty)'}")

    def _drain(self) -> None:
        """Read what the worker writes until it has ended, so that it never waits for a reader."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        partial = b""
        with selectors.DefaultSelector() as selector:
            for pipe in (self._process.stdout, self._process.stderr):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(POLL_SECONDS)
                if not ready and self._process.poll() is not None:
                    break  # a process that the worker started still holds the pipes
                for key, _ in ready:
                    data = os.read(key.fd, 64 * 1024)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self._process.stderr:
                        self._stderr += data
                        del self._stderr[:-STDERR_BYTES]
                    else:
                        *lines, partial = (partial + data).split(b"\n")
                        for line in lines:
                            self._inbox.put(json.loads(line))
        self._process.wait()
        self._inbox.close()


class Barrier:
    """Releases workers that wait at `wait_at_barrier` with the same name at the same moment."""

    def __init__(self, *workers: Worker, name: str = BARRIER) -> None:
        self._workers = workers
        self._name = name

    async def ready(self, timeout: float = 10.0) -> None:
        """Wait until every worker is at the barrier; the error names each one that is not."""
        arrived = _at_barrier(self._name, "arrived")
        waits = (worker.wait_for(arrived, timeout) for worker in self._workers)
        ends = await asyncio.gather(*waits, return_exceptions=True)
        missing = [str(end) for end in ends if isinstance(end, Exception)]
        if missing:
            raise WorkerFailedError("\n".join(missing))

    async def release(self, timeout: float = 10.0) -> None:
        """Wait until every worker is at the barrier, then release all of them at the same time."""
        await self.ready(timeout)
        moment = time.monotonic() + BARRIER_LEAD_SECONDS
        for worker in self._workers:
            worker.send(BARRIER, barrier=self._name, step="go", at=moment)


def report(name: str, **fields: Any) -> None:
    """In a worker: send the test a message. The test always reads, so this does not wait."""
    _this_worker().report(name, fields)


def receive(wanted: str | Callable[[Message], bool] | None = None, timeout: float | None = None) -> Message:
    """In a worker: take the oldest message from the test, of that name if one is given."""
    return _this_worker().inbox.take(_matcher(wanted), timeout)


async def receive_async(wanted: str | Callable[[Message], bool] | None = None, timeout: float | None = None) -> Message:
    """In a worker: like `receive`, without blocking the event loop."""
    return await _this_worker().inbox.take_async(_matcher(wanted), timeout)


def wait_at_barrier(name: str = BARRIER, timeout: float | None = None) -> None:
    """In a worker: wait until the test's `Barrier` of that name releases all workers."""
    report(BARRIER, barrier=name, step="arrived")
    go = receive(_at_barrier(name, "go"), timeout)
    time.sleep(max(0.0, go["at"] - time.monotonic()))


async def wait_at_barrier_async(name: str = BARRIER, timeout: float | None = None) -> None:
    """In a worker: like `wait_at_barrier`, without blocking the event loop."""
    report(BARRIER, barrier=name, step="arrived")
    go = await receive_async(_at_barrier(name, "go"), timeout)
    await asyncio.sleep(max(0.0, go["at"] - time.monotonic()))


# Not `-m`: that would make a second copy of this module, and the worker's code would import the wrong one.
_BOOT = "from interlock.testing.processes import run_worker; run_worker()"


def run_worker() -> None:
    """Be a worker: the entry point of the processes that `Worker.spawn` starts."""
    global _worker
    target, args, parent = sys.argv[1:]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background processes with SIGINT ignored. The worker's code decides what to do with it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _worker = _WorkerSide(int(parent))
    module, _, function = target.partition(":")
    result = getattr(importlib.import_module(module), function)(*json.loads(args))
    if inspect.iscoroutine(result):
        result = asyncio.run(result)
    report(FINISHED, result=result)


class _WorkerSide:
    """The worker's end of the two pipes. It keeps them from the worker's own use of stdin and stdout."""

    def __init__(self, parent: int) -> None:
        self.inbox = _Mailbox()
        self._lock = threading.Lock()
        self._incoming: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._outgoing: BinaryIO = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        if parent:
            _die_with(parent)
        threading.Thread(target=self._listen, name="interlock-worker-inbox", daemon=True).start()

    def report(self, name: str, fields: Mapping[str, Any]) -> None:
        line = _encode({"name": name, **fields})
        with self._lock:
            try:
                self._outgoing.write(line)
                self._outgoing.flush()
            except BrokenPipeError:
                os._exit(ORPHAN_STATUS)

    def _listen(self) -> None:
        for line in self._incoming:
            self.inbox.put(json.loads(line))
        os._exit(ORPHAN_STATUS)  # the test is gone


_worker: _WorkerSide | None = None


def _this_worker() -> _WorkerSide:
    if _worker is None:
        raise RuntimeError("This process is not a worker: start the function with Worker.spawn.")
    return _worker


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its parent: a paused worker would not read the end of input."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(ORPHAN_STATUS)


class _Mailbox:
    """Messages in order of arrival, put by one thread and taken by any thread or event loop."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._overflow = False
        self._closed = False
        self._changed = threading.Condition()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def put(self, message: Message) -> None:
        with self._changed:
            if len(self._messages) < UNREAD_MESSAGES:
                self._messages.append(message)
            else:
                self._overflow = True
            self._wake()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._wake()

    def take(self, accept: Callable[[Message], bool], timeout: float | None) -> Message:
        with self._changed:
            found: list[Message] = []

            def look() -> bool:
                found.extend(self._look(accept))
                return bool(found)

            if not self._changed.wait_for(look, timeout):
                raise TimeoutError
            return found[0]

    async def take_async(self, accept: Callable[[Message], bool], timeout: float | None) -> Message:
        found: list[Message] = []

        def look() -> bool:
            found.extend(self._look(accept))
            return bool(found)

        await self._until(look, timeout)
        return found[0]

    async def closed_async(self, timeout: float | None) -> None:
        await self._until(lambda: self._closed, timeout)

    async def _until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        event = asyncio.Event()
        listener = (asyncio.get_running_loop(), event)
        with self._changed:
            self._listeners.add(listener)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    event.clear()
                    with self._changed:
                        if condition():
                            return
                    await event.wait()
        finally:
            with self._changed:
                self._listeners.discard(listener)

    def _look(self, accept: Callable[[Message], bool]) -> list[Message]:
        for position, message in enumerate(self._messages):
            if accept(message):
                del self._messages[position]
                return [message]
        if self._overflow:
            raise EOFError(f", after more than {UNREAD_MESSAGES} unread messages")
        if self._closed:
            raise EOFError
        return []

    def _wake(self) -> None:
        self._changed.notify_all()
        for loop, event in self._listeners:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits there
                loop.call_soon_threadsafe(event.set)


def _matcher(wanted: str | Callable[[Message], bool] | None) -> Callable[[Message], bool]:
    if wanted is None:
        return lambda _: True
    if isinstance(wanted, str):
        return lambda message: message.get("name") == wanted
    return wanted


class _at_barrier:  # noqa: N801 - a predicate that says in failures what was awaited
    def __init__(self, name: str, step: str) -> None:
        self._expected = {"name": BARRIER, "barrier": name, "step": step}

    def __call__(self, message: Message) -> bool:
        return self._expected.items() <= message.items()

    def __repr__(self) -> str:
        return f"{self._expected['step']} at barrier {self._expected['barrier']!r}"


def _encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
