"""The way from synchronous code into an app: a background thread whose event loop has the app open.

A call uses the event loop on which the app is open already, such as a worker's. Otherwise the first call starts a
thread, opens the app there, and leaves it open for the calls that follow. The thread ends with the program. An app that
is idle is closed before a fork and opened again by the next call. A child process that was forked while the app was in
use forgets the connections of its parent, and opens its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from interlock import callers
from interlock.errors import MisuseError
from interlock.late_executor import LateExecutor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["Host", "Portal", "keep_forever"]

T = TypeVar("T")
_CHECK_SECONDS = 1.0
"""How often a waiting caller checks that the event loop still runs."""
_FORK_SECONDS = 5.0
"""How long a fork waits for short calls, and for an idle app to be closed."""
_EXIT_SECONDS = 10.0
"""How long the exit of the program waits for calls, and then for the app to be closed."""


class Host(NamedTuple):
    """What is opened for synchronous callers: an app, or a concept that is used alone."""

    name: str
    """Its name in errors."""
    open: Callable[[], Awaitable[object]]
    close: Callable[[], Awaitable[object]]
    loop: Callable[[], asyncio.AbstractEventLoop | None]
    """The event loop on which it is open; None if it is closed."""
    in_use: Callable[[], bool]
    """Whether closing it now would take a lease from its holder. Called on its event loop."""
    forget: Callable[[], None]
    """Become closed without touching connections and event loops, which belong to the parent process."""


class Portal:
    """Runs the calls of any number of threads on the event loop of one app."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._reset()
        with _guard:
            _portals.add(self)

    def _reset(self) -> None:
        self._state = threading.Condition()
        self._thread: _LoopThread | None = None
        self._opening = False
        self._barred = 0
        """How many are about to fork, to open the app elsewhere or to close it; new calls wait meanwhile."""
        self._calls: set[_Call[Any]] = set()
        """The calls under way in the background thread."""
        self.process = os.getpid()
        """What was acquired by another process is its parent's, and is released there."""

    def run(
        self,
        call: Callable[[], Awaitable[T]],
        what: str,
        *,
        instead: str = "",
        waits: bool = False,
        undo: Callable[[T], Awaitable[object]] | None = None,
    ) -> T:
        """Await a call on the app's event loop and return its result.

        ``what`` names it in errors, and ``instead`` is its asynchronous form. ``waits`` says that it may wait for
        others for long. ``undo`` is awaited with the result if the caller was interrupted before it got it.
        """
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public one raises without a loop
            raise MisuseError(
                f"{what} was called on the thread of a running event loop, which it would block.",
                remedy=(f"Write {instead}, or call it in a thread" if instead else "Call it in a thread")
                + ": await asyncio.to_thread(…).",
            )
        one = _Call(call, what, waits=waits, undo=undo)
        context = contextvars.copy_context()
        context.run(callers.call_as_thread)
        try:
            loop = self._enter(one)
            try:
                try:
                    loop.call_soon_threadsafe(one.start, context=context)
                except RuntimeError:  # the event loop was closed just now
                    raise _closed(what) from None
                return one.wait(loop)
            finally:
                self._leave(one)
        except Exception:
            if _exiting and not _is_last_thread():
                threading.Event().wait()  # the interpreter stops this daemon; an error would only be printed
            raise

    # -- opening and closing -----------------------------------------------------------------------------------------

    def _enter(self, call: _Call[Any]) -> asyncio.AbstractEventLoop:
        """Return the event loop on which the app is open, and open it if it is closed."""
        with self._state:
            while self._opening or (self._barred and not _is_last_thread()):
                self._state.wait()
            if self._thread is not None:
                self._calls.add(call)
                return self._thread.loop
            loop = self._host.loop()
            if loop is not None:
                if not loop.is_running():
                    raise MisuseError(
                        f"{call.what}: {self._host.name} is open on an event loop that is not running.",
                        remedy="Close it before its event loop ends: use async with.",
                    )
                return loop
            self._opening = True
        thread: _LoopThread | None = None
        try:
            thread = self._open(call.what)
            return thread.loop
        finally:
            with self._state:
                self._opening, self._thread = False, thread
                if thread is not None:
                    self._calls.add(call)
                self._state.notify_all()

    def _open(self, what: str) -> _LoopThread:
        _close_at_exit()
        thread = _LoopThread()
        try:
            thread.run(self._host.open, f"Opening {self._host.name} for {what}")
        except BaseException:
            thread.stop()
            raise
        with _guard:
            _open_portals.add(self)
        return thread

    def _leave(self, call: _Call[Any]) -> None:
        with self._state:
            self._calls.discard(call)
            if self._barred:
                self._state.notify_all()

    def bar(self, wait: float) -> bool:
        """Make new calls wait until :meth:`unbar`, and close the app unless it is in use; whether it is closed now.

        Waits for short calls. A call that may take long, or a lease that is held, keeps the app open.
        """
        give_up = time.monotonic() + wait
        with self._state:
            self._barred += 1
            if self._is_own_thread():
                return False  # what runs there is in use, and would wait for itself
            while self._opening or self._calls:
                left = give_up - time.monotonic()
                if left <= 0 or any(call.waits for call in self._calls):
                    return False
                self._state.wait(left)
            thread = self._thread
        if thread is None:
            return True
        closed, own = True, _own_threads()
        with contextlib.suppress(Exception):  # it is closed as far as it can be
            closed = thread.run(self._close_if_unused, f"Closing {self._host.name}")
        if closed:
            self._stop(thread, own)
        return closed

    def unbar(self) -> None:
        """Let calls continue."""
        with self._state:
            self._barred -= 1
            self._state.notify_all()

    @contextlib.asynccontextmanager
    async def handed_over(self) -> AsyncGenerator[None]:
        """Close the app in the background thread, so that the block can open it on the running event loop.

        Calls wait until the block has ended, and then use that event loop.
        """
        running, thread = asyncio.get_running_loop(), self._thread
        if thread is not None and thread.loop is running:
            yield  # opening it twice is the caller's mistake, and is reported as usual
            return
        if thread is None and not self._opening:
            with self._state:
                self._barred += 1
            closed = True
        else:
            closed = await running.run_in_executor(None, self.bar, _FORK_SECONDS)
        try:
            if not closed:
                raise MisuseError(
                    f"{self._host.name} is in use by synchronous code in another thread.",
                    remedy="Open it first: synchronous code then uses the same event loop.",
                )
            yield
        finally:
            self.unbar()

    def close(self, wait: float = _EXIT_SECONDS, *, exiting: bool = False) -> None:
        """Close the app if the background thread has it open: finish the calls under way, and end the thread.

        Calls that wait for others are cancelled. The next call opens the app again.
        """
        if self._is_own_thread():
            raise MisuseError(
                f"{self._host.name} cannot be closed on its own event loop, which would wait for itself.",
                remedy="Close it in another thread.",
            )
        give_up = time.monotonic() + wait
        with self._state:
            self._barred += 1
            while self._opening and time.monotonic() < give_up:
                self._state.wait(max(0.0, give_up - time.monotonic()))
            thread = self._thread
            if thread is not None:
                for call in self._calls:
                    if call.waits:
                        thread.call_soon(call.cancel)
            while thread is not None and self._calls and time.monotonic() < give_up:
                self._state.wait(max(0.0, give_up - time.monotonic()))
        if thread is not None:
            own = _own_threads()
            with contextlib.suppress(Exception):
                thread.run(self._host.close, f"Closing {self._host.name}", until=time.monotonic() + wait)
            self._stop(thread, own)
        if not exiting:
            self.unbar()

    def _is_own_thread(self) -> bool:
        """Whether this is the background thread."""
        return self._thread is not None and self._thread.loop is asyncio._get_running_loop()  # noqa: SLF001

    async def _close_if_unused(self) -> bool:
        if self._host.in_use():
            return False
        await self._host.close()
        return True

    def _stop(self, thread: _LoopThread, own: list[threading.Thread]) -> None:
        with self._state:
            self._thread = None
            self._state.notify_all()
        with _guard:
            _open_portals.discard(self)
        thread.stop()
        _await_end(own)

    def forget(self) -> None:
        """Begin anew in a process that was just forked."""
        loop = self._host.loop()
        if self._thread is not None or self._opening or loop is not None:
            keep_forever(self._thread, self._calls, loop)
            self._host.forget()
        self._reset()


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(LateExecutor(thread_name_prefix="interlock-pool"))
        self._stopping = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="interlock-sync", daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Awaitable[T]], what: str, *, until: float | None = None) -> T:
        """Await a call on the loop."""
        one = _Call(call, what)
        self.call_soon(one.start)
        return one.wait(self.loop, until)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Have the loop call a function."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End the thread. Others may do so at the same time."""
        if self._stopping.acquire(blocking=False):  # a second stop would interrupt what the loop does at its end
            self.call_soon(self.loop.stop)
        self._thread.join(_FORK_SECONDS)

    def _work(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


class _Call(Generic[T]):
    """One call of a thread. Its state changes on the event loop only."""

    __slots__ = (
        "_abandoned",
        "_call",
        "_cancelled",
        "_error",
        "_has_ended",
        "_task",
        "_undo",
        "_value",
        "waits",
        "what",
    )

    _value: T

    def __init__(
        self,
        call: Callable[[], Awaitable[T]],
        what: str,
        *,
        waits: bool = False,
        undo: Callable[[T], Awaitable[object]] | None = None,
    ) -> None:
        self._call = call
        self._undo = undo
        self.what = what
        self.waits = waits
        self._abandoned = self._cancelled = False
        self._task: asyncio.Task[T] | None = None
        self._error: BaseException | None = None
        self._has_ended = threading.Lock()
        self._has_ended.acquire()  # released at the end: cheaper than an event

    def wait(self, loop: asyncio.AbstractEventLoop, until: float | None = None) -> T:
        """Wait for the result, in the caller's thread. A caller that is interrupted leaves nothing behind."""
        try:
            while not self._has_ended.acquire(timeout=_CHECK_SECONDS):
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError
                if not loop.is_running() and not self._has_ended.acquire(timeout=_CHECK_SECONDS):
                    raise _closed(self.what)
        except BaseException:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._abandon)
            raise
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            if isinstance(error, asyncio.CancelledError):
                raise _closed(self.what)
            raise error
        finally:
            del error  # its traceback refers to this frame

    def start(self) -> None:
        """Start the call, on the event loop."""
        self._task = task = asyncio.get_running_loop().create_task(self._work(), name="interlock-sync-call")
        task.add_done_callback(self._ended)
        if self._cancelled:
            task.cancel()

    def cancel(self) -> None:
        """Cancel the call, on the event loop."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> T:
        return await self._call()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._value = task.result()
            if self._abandoned:
                self._start_undo()
        self._has_ended.release()

    def _abandon(self) -> None:
        """Cancel the call, or undo what it has done: its caller is gone."""
        self._abandoned = True
        if self._task is None or not self._task.done():
            self.cancel()
        elif not self._task.cancelled() and self._task.exception() is None:
            self._start_undo()

    def _start_undo(self) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            _undoing.add(task := asyncio.ensure_future(undo(self._value)))
            task.add_done_callback(_undone)


def _undone(task: asyncio.Future[object]) -> None:
    """Forget a task that has undone a call. Nobody is left to report an error to."""
    _undoing.discard(task)
    if not task.cancelled():
        task.exception()


def _closed(what: str) -> MisuseError:
    return MisuseError(f"{what} was interrupted: the app was closed.", remedy="Close it after the last call.")


# -- exit --------------------------------------------------------------------------------------------------------------

_guard = threading.Lock()
_portals: WeakSet[Portal] = WeakSet()
_open_portals: set[Portal] = set()
"""Those whose background thread runs. They are kept until they are closed."""
_undoing: set[asyncio.Future[object]] = set()
_exiting = False
_exit_pid = 0


def _close_at_exit() -> None:
    """Close every app before this process ends."""
    global _exit_pid
    if _exit_pid == os.getpid():
        return
    _exit_pid = os.getpid()
    atexit.unregister(_exit)  # a forked process has inherited it, or has lost it
    atexit.register(_exit)
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _end_child, exitpriority=-1000)  # its processes do not call what is registered with atexit


def _end_child() -> None:
    """Close every app at the end of a process of multiprocessing, after the calls of its threads.

    It waits for threads only after the finalizers, of which this is the last. They would wait for a closed app forever.
    """
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - what multiprocessing itself calls next
    _exit()


def _exit() -> None:
    """Close every app. All threads but the main one and daemons have ended."""
    global _exiting
    _exiting = True
    for portal in list(_open_portals):
        portal.close(exiting=True)


def _is_last_thread() -> bool:
    """Whether this thread runs what is left to do at exit."""
    return _exiting and threading.current_thread() is threading.main_thread()


# -- fork --------------------------------------------------------------------------------------------------------------

_forking = threading.local()


def keep_forever(*things: object) -> None:
    """Keep objects from ever being freed, not even when the interpreter ends.

    Freeing a connection or an event loop closes it, and those of a forked process also belong to its parent.
    """
    import ctypes

    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("interlock-")]


def _await_end(threads: list[threading.Thread]) -> None:
    """Wait until threads that have been joined are gone from the operating system as well.

    Joining a thread waits for its Python code only. What libraries do at the end of a thread comes later, and under
    their own locks: OpenSSL in a process that was forked meanwhile would wait for such a lock forever.
    """
    give_up = time.monotonic() + _CHECK_SECONDS
    for thread in threads:
        entry = f"/proc/self/task/{thread.native_id}"  # where there is no such directory, there is nothing to wait for
        while not thread.is_alive() and os.path.exists(entry) and time.monotonic() < give_up:
            time.sleep(0.0005)


def _before_fork() -> None:
    # An import lock that another thread holds during the fork is never released in the child, so nothing that a call
    # or the child needs may be imported only then.
    import ctypes  # noqa: F401 - for keep_forever  # pyright: ignore[reportUnusedImport]

    barred: list[Portal] = []
    _forking.portals = barred
    with _guard:
        portals = list(_portals)
    for portal in portals:
        barred.append(portal)
        portal.bar(_FORK_SECONDS)


def _after_fork_in_parent() -> None:
    for portal in _forking.portals:
        portal.unbar()
    _forking.portals = []


def _after_fork_in_child() -> None:
    global _guard, _exiting
    _guard, _exiting = threading.Lock(), False
    _forking.portals = []
    callers.forget_threads()
    keep_forever(*_open_portals)
    _open_portals.clear()
    for portal in list(_portals):
        portal.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
