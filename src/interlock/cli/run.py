"""``interlock run``: workers for an app, in this process or in several, and its web app next to them.

Exit codes: 0 when it was told to finish and did; 1 when something failed; 2 when the call has to be mended; 70 when a
handler did not stop though it was told to; 128 and the number of the signal when it was told to stop at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import socket
import sys
import traceback
from pathlib import Path  # noqa: TC003 - typer looks at what annotations mean
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from interlock.cli.deadline import Deadline
from interlock.cli.output import say, shown
from interlock.cli.signals import require_posix, stop_signals
from interlock.cli.streams import flush_output, protect_output
from interlock.cli.web_address import WebAddress
from interlock.exits import exit_process
from interlock.jobs.queue_names import parse_queues
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from interlock.app import App
    from interlock.jobs.worker import Worker, WorkerStatus
    from interlock.web.serve import Serving

__all__ = ["load", "run", "serve"]

_EXIT_FAILED = 1
_EXIT_STUCK = 70
_IMPORTING = str(importlib.__file__)
_log = logging.getLogger("interlock.jobs")
_MAX_FINISH_WITHIN = 7 * 24 * 3600.0
_SIGNALS = stop_signals()
Queues = list[str] | dict[str, int | None]


def run(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app to run, such as bot:app.")],
    concurrency: Annotated[
        int,
        typer.Option(
            min=1, help="How many jobs each process runs at the same time, of the queues without a number of their own."
        ),
    ] = 50,
    queues: Annotated[
        str,
        typer.Option(
            metavar="QUEUE[=N],…",
            help="From which queues, separated by commas; mail=2 runs at most 2 jobs of mail at once in each process.",
        ),
    ] = "default",
    processes: Annotated[int, typer.Option(min=1, max=1000, help="How many processes.")] = 1,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="INTERLOCK_LISTEN",
            show_envvar=True,
            help="Serve webhooks and the dashboard there, such as 127.0.0.1:8080.",
        ),
    ] = None,
    credentials_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who may see the dashboard: user:password, one a line; instead of INTERLOCK_WEB_CREDENTIALS.",
        ),
    ] = None,
    finish_within: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            max=_MAX_FINISH_WITHIN,
            help="How long running jobs may take to finish after SIGTERM; what is left is then cancelled and returned.",
        ),
    ] = 25.0,
    supervised: Annotated[int | None, typer.Option(hidden=True)] = None,
    listening: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run an app's jobs until told to finish; with --listen, its webhooks and dashboard too.

    SIGTERM or Ctrl-C finishes: nothing more is claimed or accepted, what has not started goes back, and what runs may
    finish for --finish-within seconds; then it is cancelled and goes back without counting as an attempt. A second time
    stops what runs at once, a third ends the process as it is. SIGUSR1 prints what it does.
    """
    protect_output()
    _check_no_place(context)
    served = parse_queues(queues)
    if processes > 1:
        require_posix("--processes", remedy="Start several interlock run commands instead.")
        raise typer.Exit(_supervise(target, concurrency, queues, processes, listen, credentials_file, finish_within))
    app = load(target)
    if supervised is not None:
        sys.argv[0] = "interlock"  # what its session calls it
        _check_shared(app)
        web_address = WebAddress.handed_down(listening, credentials_file)
    else:
        web_address = WebAddress.named(listen, credentials_file)
    _log_to_stderr()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        serving = _serve_until_told(app, concurrency, served, supervised, web_address, finish_within)
        code = _to_its_end(runner.get_loop(), serving)
    if code:
        raise typer.Exit(code)


def _check_no_place(context: typer.Context) -> None:
    """Refuse a store named on the command line: it would not be the one that is used."""
    from interlock.errors import MisuseError

    root = context.find_root()
    for name in ("url", "namespace"):
        source = root.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise MisuseError(f"run takes no --{name}.", remedy="The app names its store: App('sqlite:///bot.db').")


def _supervise(
    target: str,
    concurrency: int,
    queues: str,
    processes: int,
    listen: str | None,
    credentials_file: Path | None,
    finish_within: float,
) -> int:
    """Run several processes. The first of them serves the web app, on sockets that are ours and so outlive it."""
    from interlock.cli.supervise import Supervisor

    options = ["--concurrency", str(concurrency), "--queues", queues, "--finish-within", str(finish_within)]
    web_address = WebAddress.named(listen, credentials_file)
    first: list[str] = []
    if web_address is not None:
        web_address.hand_down_token()
        first = ["--listening", ",".join(str(one.fileno()) for one in web_address.sockets)]
        if credentials_file is not None:
            first += ["--credentials-file", str(credentials_file)]
    sockets = web_address.sockets if web_address is not None else ()
    supervisor = Supervisor(
        [target, *options], processes, first=first, sockets=sockets, end_within=finish_within + _ending_seconds()
    )
    return asyncio.run(supervisor.run())


def _ending_seconds() -> float:
    """How long it takes at most to end once what runs was cancelled."""
    from interlock.jobs.worker.worker import RETURN_SECONDS, STOP_SECONDS

    return STOP_SECONDS + RETURN_SECONDS


# -- the app -----------------------------------------------------------------------------------------------------------


def load(target: str) -> App:
    """The app that ``module:app`` names. Modules are looked for in the working directory first."""
    from interlock.app import App
    from interlock.errors import MisuseError

    name, _, path = target.partition(":")
    if not name or not path:
        raise MisuseError(f"{target!r} does not name an app.", remedy="Use MODULE:APP, such as bot:app.")
    module = _imported(name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        apps = sorted(f"{name}:{key}" for key, value in vars(module).items() if isinstance(value, App))
        what = f"There is no {path!r} in {name!r}" if found is None else f"{target!r} is a {type(found).__name__}"
        remedy = f"Did you mean {' or '.join(apps)}?" if apps else "Make one there: app = App('sqlite:///bot.db')."
        raise MisuseError(f"{what}.", remedy=remedy)
    if not app_jobs(found):
        raise MisuseError(f"{target!r} has no jobs.", remedy="Define one: @app.job(), in a module that it imports.")
    return found


def app_jobs(app: App) -> Sequence[str]:
    """The jobs and handlers of an app."""
    return app.jobs.names


def _check_shared(app: App) -> None:
    """Refuse a store that each process would have for itself."""
    from interlock.errors import MisuseError
    from interlock.ports.store import Capability

    store = app.jobs._store_client.store  # noqa: SLF001 - what the app itself does not need to tell anybody
    if Capability.PROCESSES not in store.capabilities:
        raise MisuseError(
            f"A store of kind {store.name} is not shared by several processes.",
            remedy="Use sqlite:///… or postgresql://…, or --processes 1.",
        )


def _imported(name: str) -> Any:
    from interlock.errors import MisuseError

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise MisuseError(
                f"There is no module {error.name!r}.", remedy="Start it where the module is, or set PYTHONPATH."
            ) from None
        raise _broken(name, error) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may fail of anything
        raise _broken(name, error) from None


def _broken(name: str, error: BaseException) -> Exception:
    """What to say of a module that cannot be imported, after its traceback."""
    from interlock.errors import MisuseError

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(
        (__file__, _IMPORTING, "<frozen importlib")
    ):
        trace = trace.tb_next
    typer.echo("".join(traceback.format_exception(type(error), error, trace)).rstrip(), err=True)
    return MisuseError(f"{name!r} cannot be imported: {type(error).__name__}: {error}.", remedy="See above where.")


# -- at work -----------------------------------------------------------------------------------------------------------


async def serve(
    app: App,
    concurrency: int,
    queues: Queues,
    opened: Callable[[Worker, Serving | None], None],
    web_address: WebAddress | None = None,
    finish_within: float = 25.0,
) -> None:
    """Open the app, its workers and its web app, and work until told to end. ``opened`` is called when work begins.

    A store that is away is waited for. One that cannot be used as it is raises at once.
    """
    app._wait_for_stores()  # noqa: SLF001 - only a program whose one purpose is to work has that patience
    async with app:
        worker = app.worker(concurrency=concurrency, queues=queues, finish_within=finish_within)
        async with (
            web_address.serving(app, failed=worker.start_finishing)
            if web_address
            else contextlib.nullcontext() as serving
        ):
            gc.collect()
            gc.freeze()  # what is there now stays; looking through it over and over would stall every job and webhook
            opened(worker, serving)
            await worker.run()
            if worker.unstopped:
                # Before the session ends by itself, so that nobody begins anew what still runs here.
                _exit_hard(f"{worker.unstopped} handlers did not stop", _EXIT_STUCK)


def _to_its_end(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, int]) -> int:
    """Run it to its end, whatever a task of a handler raises.

    A ``SystemExit`` of any task is thrown out of the loop as well, once its awaiter has been told: go on after it.
    """
    asyncio.set_event_loop(loop)
    task = loop.create_task(serving)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done() or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                raise  # its own, or Ctrl-C before the signals are ours
            emit(_log, logging.ERROR, "task_raised_exit", error=repr(error))


async def _serve_until_told(
    app: App,
    concurrency: int,
    queues: Queues,
    supervised: int | None,
    web_address: WebAddress | None,
    finish_within: float,
) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        orders = _Orders(task, stack.enter_context(Deadline(_EXIT_STUCK)), finish_within, _ending_seconds())
        for number in _SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, orders.on_signal))
        if hasattr(signal, "SIGUSR1"):  # Windows has none
            loop.add_signal_handler(signal.SIGUSR1, orders.show)
        if supervised is not None:
            link = stack.enter_context(socket.socket(fileno=supervised))
            link.setblocking(False)
            loop.add_reader(link, orders.orphaned, link)
            stack.callback(loop.remove_reader, link)

        def opened(worker: Worker, serving: Serving | None) -> None:
            orders.worker, orders.serving = worker, serving
            if serving is not None:
                say(f"Listens on {', '.join(serving.urls)}.")
                say(f"Dashboard: {serving.login_url}")
            of = worker.status().queue_concurrency
            served = ", ".join(f"{queue} (up to {of[queue]})" if of else queue for queue in queues)
            say(f"Runs up to {worker.concurrency} at once of {', '.join(app_jobs(app))} from {served}.")
            if supervised is not None:
                link.send(b"ready")

        try:
            await serve(app, concurrency, queues, opened, web_address, finish_within)
        except asyncio.CancelledError:
            if orders.worker is not None or not orders.given:
                raise
            return orders.code  # told to end before it had begun
    if orders.serving is not None and orders.serving.failed and not orders.code:
        return _EXIT_FAILED
    return orders.code


class _Orders:
    """Handle signals."""

    def __init__(self, task: asyncio.Task[Any], deadline: Deadline, finish_within: float, ending: float) -> None:
        self._task = task
        self._deadline = deadline
        self._finish_within = finish_within
        self._ending = ending
        self._heard = 0
        self._loop = asyncio.get_running_loop()
        self.worker: Worker | None = None
        self.serving: Serving | None = None
        self.given = 0
        self.code = 0

    def on_signal(self, number: int, _: object) -> None:
        """Arm the end, then leave the rest to the loop; that may be blocked, while this runs all the same."""
        self._heard += 1
        self._arm(self._finish_within if self._heard == 1 and self.worker is not None else 0.0)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and all is over
            self._loop.call_soon_threadsafe(self.signal, number)

    def _arm(self, seconds: float) -> None:
        self._deadline.arm(seconds + self._ending, self._leave)

    def _leave(self) -> None:
        if self.worker is not None:
            self.worker.leave()

    def signal(self, number: int) -> None:
        """The first finishes, the second stops, the third ends the process as it is."""
        self.given += 1
        if self.given > 2:
            _exit_hard("Ends as it is", 128 + number)
        if self.worker is None:
            self.code = 128 + number
            self._task.cancel()
        elif self.given == 1:
            running = len(self.worker.status().running)
            self._wind_down(self.worker)
            say(f"Finishes what runs ({running}); once more to stop it." if running else "Finishes.")
        else:
            self.code = 128 + number
            self.worker.start_stopping()
            if self.serving is not None:
                self.serving.halt()
            say("Stops what runs; once more to end at once.")

    def orphaned(self, link: socket.socket) -> None:
        """Whoever started this process is gone."""
        asyncio.get_running_loop().remove_reader(link)
        if self.worker is None:
            self._task.cancel()
        else:
            self._arm(self._finish_within)
            self._wind_down(self.worker)

    def _wind_down(self, worker: Worker) -> None:
        worker.start_finishing()
        if self.serving is not None:
            self.serving.wind_down()

    def show(self) -> None:
        """Print what the worker does."""
        if self.worker is not None:
            typer.echo("\n".join(_lines(self.worker.status())))


def _lines(status: WorkerStatus) -> list[str]:
    """A worker's status as text."""
    of = status.queue_concurrency
    ended = ", ".join(f"{outcome} {count}" for outcome, count in status.counts.items())
    parts = (
        f"worker {os.getpid()} {status.state}",
        f"session {status.session or 'none, as the store is away'}",
        f"queues {','.join(f'{queue}={of[queue]}' if of else queue for queue in status.queues)}",
        f"running {len(status.running)} of {status.concurrency}",
        f"buffered {status.buffered}",
        f"unacknowledged {status.unacknowledged}",
        f"ended: {ended or 'none'}",
    )
    lines = [" · ".join(parts)]
    if status.trouble:
        lines.append(f"  trouble: {status.trouble}")
    for job in status.running:
        lane = f" lane {job.lane}" if job.lane else ""
        told = f" told to stop: {job.told_to_stop}" if job.told_to_stop else ""
        lines.append(f"  job {job.id} {job.name}{lane} attempt {job.attempt} for {job.seconds:.1f} s{told}")
    return [shown(line) for line in lines]


def _exit_hard(why: str, code: int) -> NoReturn:
    def last_words() -> None:
        say(f"{why}.")
        flush_output()

    exit_process(code, last_words)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _log_to_stderr() -> None:
    """Unless the app has seen to it, have what happens written down."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
