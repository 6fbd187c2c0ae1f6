"""A TCP proxy for tests that injects network faults between a client and a real server.

Faults are switched on and off while connections are open, apply to old and new connections alike, and are
counted when they really fire. At most a few chunks per connection are in memory; the rest waits in the peers'
sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

from interlock.testing.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Gate = Callable[[bytes, bool], Awaitable[bool]]

__all__ = ["FaultProxy", "ThreadedFaultProxy"]

CHUNK_BYTES = 64 * 1024
BIND_ATTEMPTS = 5
THREAD_SECONDS = 10.0

Result = TypeVar("Result")
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FaultProxy:
    """Forwards connections on `port` to the target, with the faults that are switched on.

    Controls take effect at once and must be called on the proxy's event loop (`ThreadedFaultProxy` may be
    called from anywhere). Faults of different kinds add up; `heal` ends all of them. `fired` counts, by
    control name, the chunks that were delayed, swallowed, held or dropped (an end of stream is a chunk, too),
    the connections that `reset` cut, and how often `refuse` closed the port; under `unreachable` it counts
    the connections that the target refused.
    """

    def __init__(self, target_host: str, target_port: int) -> None:
        self.target = (target_host, target_port)
        self.port = 0
        self.accepted = 0
        self.fired: Counter[str] = Counter()
        self._delay = 0.0
        self._blackhole = False
        self._half_open = False
        self._drops_left = 0
        self._drop_containing = b""
        self._connections: set[_Connection] = set()
        self._listener: socket.socket | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for attempts_left in reversed(range(BIND_ATTEMPTS)):
            self.port = free_port()
            try:
                self._listen()
            except OSError:
                if not attempts_left:
                    raise
            else:
                break
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_listening()
        tasks = [connection.cut() for connection in self._connections]
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many client connections are open now; `accepted` counts all there ever were."""
        return len(self._connections)

    def url(self, url: str) -> str:
        """The same URL with the proxy's host and port."""
        return _through(url, self.port)

    def delay(self, seconds: float) -> None:
        """Hold every chunk for `seconds`, both ways, in order; chunks behind it wait their turn."""
        self._delay = seconds
        self._notify()

    def blackhole(self) -> None:
        """Accept everything and pass on nothing, not even that a side has closed; connections stay open."""
        self._blackhole = True
        self._notify()

    def half_open(self) -> None:
        """Let requests through and hold replies; `heal` delivers what was held, in order."""
        self._half_open = True
        self._notify()

    def drop_replies(self, n: int = 1, *, containing: bytes = b"") -> None:
        """Discard the next `n` reply chunks and reset the connection of each: done, but the reply is lost.

        `containing` spares all other chunks, to lose the answer to one kind of command, e.g. `b"COMMIT"`.
        """
        self._drops_left = n
        self._drop_containing = containing

    def reset(self) -> None:
        """Cut all current connections with a TCP reset, to the client and to the server."""
        for connection in self._connections:
            connection.cut()
            self.fired["reset"] += 1

    def refuse(self) -> None:
        """Refuse new connections, as a server that is down does; current connections stay."""
        if self._listener is not None:
            self._stop_listening()
            self.fired["refuse"] += 1

    def point_at(self, host: str, port: int) -> None:
        """Send new connections to another target, as after a failover; current ones are reset."""
        self.target = (host, port)
        self.reset()

    def heal(self) -> None:
        """End all faults. A connection that lost bytes in a black hole is reset: its stream has a gap."""
        self._delay = 0.0
        self._blackhole = self._half_open = False
        self._drops_left = 0
        for connection in self._connections:
            if connection.has_gap:
                connection.cut()
        if self._listener is None:
            self._listen()
        self._notify()

    def _listen(self) -> None:
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen(256)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        # The client may be gone again before we get here.
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            client.setblocking(False)
            self.accepted += 1
            connection = _Connection(client, self.target, self._passes, self.fired)
            self._connections.add(connection)
            connection.task.add_done_callback(lambda _: self._connections.discard(connection))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _passes(self, chunk: bytes, is_reply: bool) -> bool:
        """Hold a chunk as long as the faults require, then return whether it may pass."""
        due = self._loop.time() + self._delay
        held = delayed = False
        while not self._blackhole:
            wait = due - self._loop.time() if self._delay else 0.0
            if is_reply and self._half_open:
                self.fired["half_open"] += not held
                held = True
                await self._changed.wait()
            elif wait > 0:
                self.fired["delay"] += not delayed
                delayed = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
            else:
                break
        if self._blackhole:
            self.fired["blackhole"] += 1
            return False
        if is_reply and chunk and self._drops_left and self._drop_containing in chunk:
            self._drops_left -= 1
            self.fired["drop_replies"] += 1
            raise ConnectionResetError("reply dropped")
        return True


class ThreadedFaultProxy:
    """A `FaultProxy` in a thread of its own, with the same controls, callable from any thread."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._proxy: FaultProxy
        self._loop: asyncio.AbstractEventLoop
        self._finish: asyncio.Event
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="interlock-fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join()

    @property
    def port(self) -> int:
        """The port that the proxy listens on."""
        return self._proxy.port

    @property
    def fired(self) -> Counter[str]:
        """A copy of the counts of faults that fired."""
        return self._call(lambda: Counter(self._proxy.fired))

    @property
    def connections(self) -> int:
        """How many client connections are open now."""
        return self._call(lambda: self._proxy.connections)

    @property
    def accepted(self) -> int:
        """How many client connections there ever were."""
        return self._call(lambda: self._proxy.accepted)

    def url(self, url: str) -> str:
        """The same URL with the proxy's host and port."""
        return _through(url, self.port)

    def delay(self, seconds: float) -> None:
        """See `FaultProxy.delay`."""
        self._call(lambda: self._proxy.delay(seconds))

    def blackhole(self) -> None:
        """See `FaultProxy.blackhole`."""
        self._call(lambda: self._proxy.blackhole())

    def half_open(self) -> None:
        """See `FaultProxy.half_open`."""
        self._call(lambda: self._proxy.half_open())

    def drop_replies(self, n: int = 1, *, containing: bytes = b"") -> None:
        """See `FaultProxy.drop_replies`."""
        self._call(lambda: self._proxy.drop_replies(n, containing=containing))

    def reset(self) -> None:
        """See `FaultProxy.reset`."""
        self._call(lambda: self._proxy.reset())

    def refuse(self) -> None:
        """See `FaultProxy.refuse`."""
        self._call(lambda: self._proxy.refuse())

    def point_at(self, host: str, port: int) -> None:
        """See `FaultProxy.point_at`."""
        self._call(lambda: self._proxy.point_at(host, port))

    def heal(self) -> None:
        """See `FaultProxy.heal`."""
        self._call(lambda: self._proxy.heal())

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that enters
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._finish = asyncio.Event()
        async with FaultProxy(*self._target) as self._proxy:
            self._started.set()
            await self._finish.wait()

    def _call(self, control: Callable[[], Result]) -> Result:
        async def apply() -> Result:
            return control()

        return asyncio.run_coroutine_threadsafe(apply(), self._loop).result(THREAD_SECONDS)


class _Connection:
    """One client's connection and its counterpart to the target."""

    def __init__(self, client: socket.socket, target: tuple[str, int], passes: Gate, fired: Counter[str]) -> None:
        self.has_gap = False
        self._client = client
        self._target = target
        self._passes = passes
        self._fired = fired
        self._writers: list[asyncio.StreamWriter] = []
        self.task = asyncio.create_task(self._run())
        # A task that is cancelled before its first step would leave the socket open.
        self.task.add_done_callback(lambda _: None if self._writers else client.close())

    def cut(self) -> asyncio.Task[None]:
        """End both sides with a TCP reset, on the loop's next turn."""
        self.task.cancel()
        return self.task

    async def _run(self) -> None:
        try:
            client = await self._open(sock=self._client)
            try:
                server = await self._open(*self._target)
            except OSError:
                self._fired["unreachable"] += 1
                return
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(client[0], server[1], is_reply=False))
                pumps.create_task(self._pump(server[0], client[1], is_reply=True))
            for _, writer in (client, server):
                writer.close()
                await writer.wait_closed()
        except* OSError:
            pass  # one side was reset, so reset the other too
        finally:
            for writer in self._writers:
                _abort(writer)

    async def _open(
        self, host: str | None = None, port: int | None = None, *, sock: socket.socket | None = None
    ) -> Stream:
        reader, writer = await asyncio.open_connection(host, port, sock=sock, limit=CHUNK_BYTES)
        self._writers.append(writer)
        return reader, writer

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_reply: bool) -> None:
        failure: OSError | None = None
        while True:
            try:
                chunk = await source.read(CHUNK_BYTES)
            except OSError as error:
                chunk, failure = b"", error
            passes = await self._passes(chunk, is_reply)
            if not passes:
                self.has_gap = True
            elif self.has_gap:
                raise ConnectionResetError("bytes were lost in a black hole")
            elif failure is not None:
                raise failure
            elif chunk:
                sink.write(chunk)
                await sink.drain()
            if not chunk:
                break
        if self.has_gap:
            await asyncio.Event().wait()  # the other side must not notice before heal() cuts us
        elif sink.can_write_eof():
            sink.write_eof()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once; without lingering, the kernel sends a reset instead of an orderly end."""
    if not writer.transport.is_closing():
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _through(url: str, port: int) -> str:
    parts = urlsplit(url)
    credentials, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{credentials}{at}127.0.0.1:{port}"))
