"""``interlock run``: what it says when it cannot, how it ends, and what becomes of processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
import textwrap
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.jobs import JobState
from interlock.testing.proxy import ThreadedFaultProxy

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

BOT = """
import asyncio, os, pathlib, time
from interlock import App, Retry

app = App("sqlite:///{db}", session_ttl={session}, recheck_interval=0.5)
here = pathlib.Path({here!r})

def note(what):
    with open(here / "log", "a") as log:
        log.write(f"{{what}} {{os.getpid()}}\\n")

@app.job()
async def wait(number: int) -> int:
    note(f"begun {{number}}")
    while not (here / "go").exists():
        await asyncio.sleep(0.005)
    return number

@app.job()
def stuck() -> None:
    note("stuck")
    time.sleep(60)

async def tool() -> None:
    raise SystemExit(0)

@app.job(retry=Retry.NEVER)
async def leaves() -> None:
    await asyncio.gather(tool())
"""


class Project:
    """A directory with an app in it."""

    def __init__(self, directory: Path, spawn: Callable[..., subprocess.Popen[str]], session: float) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory / 'bot.db'}"
        self._spawn = spawn
        self.processes: list[subprocess.Popen[str]] = []
        text = BOT.format(db=directory / "bot.db", session=session, here=str(directory))
        (directory / "bot.py").write_text(text)

    def run(self, *args: str, works: int = 1) -> subprocess.Popen[str]:
        """Start it, and wait until so many processes work."""
        process = self._spawn("run", "bot:app", *args, cwd=self.directory)
        self.processes.append(process)
        assert process.stderr is not None
        for _ in range(works):
            while not (line := process.stderr.readline()).startswith("Runs up to"):
                assert line, f"it ended with {process.wait()}"
        return process

    @property
    def log(self) -> list[str]:
        path = self.directory / "log"
        return path.read_text().splitlines() if path.exists() else []

    def go(self) -> None:
        (self.directory / "go").touch()

    def do(self, work: Callable[[App], Any]) -> Any:
        """Something with the app's jobs, in this process."""

        async def main() -> Any:
            app = App(self.url)

            @app.job()
            async def wait(number: int) -> int:
                return number

            @app.job()
            def stuck() -> None:
                pass

            @app.job()
            def leaves() -> None:
                pass

            async with app:
                return await work(app)

        return asyncio.run(main())

    def enqueue(self, name: str, **arguments: Any) -> int:
        async def work(app: App) -> int:
            return (await app.jobs[name].enqueue(**arguments)).id

        return int(self.do(work))

    def state(self, job: int) -> JobState:
        async def work(app: App) -> JobState:
            return (await app.jobs.handle(job).status()).state

        state: JobState = self.do(work)
        return state

    def until(self, condition: Callable[[], object], within: float = 20.0) -> None:
        give_up = time.monotonic() + within
        while not condition():
            assert time.monotonic() < give_up, f"did not happen; the log: {self.log}"
            time.sleep(0.01)

    def pids(self) -> set[int]:
        return {int(line.split()[-1]) for line in self.log}

    def close(self) -> None:
        self.go()
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def project(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> Iterator[Project]:
    yield from _project(tmp_path, spawn, 15.0)


@pytest.fixture
def brisk_project(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> Iterator[Project]:
    yield from _project(tmp_path, spawn, 1.0)


def _project(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]], session: float) -> Iterator[Project]:
    with closing(Project(tmp_path, spawn, session)) as project:
        yield project


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


# -- what it says when it cannot ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "module", "said"),
    [
        ("bot_a", "", "'bot_a' does not name an app. Use MODULE:APP"),
        (":app", "", "does not name an app"),
        ("bot_b:app", None, "There is no module 'bot_b'"),
        ("package.bot_c:app", None, "There is no module 'package'"),
        ("bot_d:app", "import surely_not_there", "'bot_d' cannot be imported: ModuleNotFoundError"),
        ("bot_e:app", "def f(:", "'bot_e' cannot be imported: SyntaxError"),
        ("bot_f:app", "raise SystemExit(3)", "'bot_f' cannot be imported: SystemExit: 3"),
        ("bot_g:app", "from interlock import App\nother = App('memory://')", "Did you mean bot_g:other?"),
        ("bot_h:app", "app = 7", "'bot_h:app' is a int. Make one there"),
        ("bot_i:app", "from interlock import App\napp = App('memory://')", "'bot_i:app' has no jobs"),
        ("bot_j:app.jobs.x", "from interlock import App\napp = App('memory://')", "There is no 'app.jobs.x'"),
    ],
)
def test_an_app_that_cannot_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any], target: str, module: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if module is not None:
        (tmp_path / f"{target.partition(':')[0] or 'x'}.py").write_text(textwrap.dedent(module))
    result = cli("run", target)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_traceback_leads_to_the_line_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bot_k.py").write_text("import bot_l\n")
    (tmp_path / "bot_l.py").write_text("x = 1\n1 / 0\n")
    result = cli("run", "bot_k:app")
    assert result.exit_code == 2
    frames = [line for line in result.stderr.splitlines() if line.startswith("  File")]
    assert [frame.rpartition("bot_")[2] for frame in frames if "importlib" not in frame] == [
        'k.py", line 1, in <module>',
        'l.py", line 2, in <module>',
    ]


@pytest.mark.parametrize("option", ["--url", "--namespace"])
def test_a_store_named_on_the_command_line_is_refused(cli: Callable[..., Any], option: str) -> None:
    refused = cli(option, "sqlite:///other.db", "run", "bot:app")
    allowed = cli("run", "bot_z:app", env={"INTERLOCK_URL": "sqlite:///other.db"})

    assert (refused.exit_code, f"run takes no {option}." in refused.stderr) == (2, True)
    assert "There is no module 'bot_z'" in allowed.stderr


def test_wrong_queues_are_said_to_be_wrong(project: Project) -> None:
    process = project._spawn("run", "bot:app", "--queues", "a b,c", cwd=project.directory)
    code, _, err = ended(process)
    assert code == 2
    assert "Invalid queue name 'a b'" in err


STORED_ELSEWHERE = """
from interlock import App
app = App({url!r}, store_wait=0.2)
@app.job()
async def a() -> None: ...
"""


def test_a_store_that_is_away_at_the_start_is_waited_for(
    project: Project, complete_postgres_url: str, interlock_postgres_server: Any
) -> None:
    with ThreadedFaultProxy("127.0.0.1", interlock_postgres_server.port) as proxy:
        url = proxy.url(complete_postgres_url).replace("postgres@", "postgres:secret@")
        (project.directory / "bot.py").write_text(STORED_ELSEWHERE.format(url=url))
        proxy.blackhole()
        process = project._spawn("run", "bot:app", cwd=project.directory)
        project.processes.append(process)
        assert process.stderr is not None
        said = process.stderr.readline()
        project.until(lambda: proxy.accepted >= 4)  # each attempt takes store_wait
        assert process.poll() is None
        proxy.heal()
        while not (line := process.stderr.readline()).startswith("Runs up to"):
            assert line, f"it ended with {process.wait()}"
            said += line
        process.terminate()
        assert process.wait(20) == 0

    assert said.count("store_unavailable") == 1
    assert "PostgreSQL is not available" in said
    assert "secret" not in said


def test_waiting_for_a_store_ends_with_a_signal(project: Project) -> None:
    (project.directory / "bot.py").write_text(STORED_ELSEWHERE.format(url="postgresql://u@127.0.0.1:1/x"))
    process = project._spawn("run", "bot:app", cwd=project.directory)
    project.processes.append(process)
    assert process.stderr is not None
    assert "store_unavailable" in process.stderr.readline()
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM


def test_a_store_that_refuses_at_the_start_is_an_error(project: Project, interlock_postgres_server: Any) -> None:
    url = interlock_postgres_server.url("no_such_database").replace("postgres@", "postgres:secret@")
    (project.directory / "bot.py").write_text(STORED_ELSEWHERE.format(url=url))
    code, _, err = ended(project._spawn("run", "bot:app", cwd=project.directory))
    assert code == 1
    assert "no_such_database" in err
    assert "secret" not in err


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_what_runs_finish(project: Project, number: signal.Signals) -> None:
    job = project.enqueue("wait", number=7)
    process = project.run()
    project.until(lambda: project.log)
    process.send_signal(number)
    assert process.stderr is not None
    assert "Finishes what runs (1)" in process.stderr.readline()
    behind = project.enqueue("wait", number=8)
    project.go()
    assert ended(process)[0] == 0
    assert project.state(job) is JobState.DONE
    assert project.state(behind) is JobState.READY
    assert len(project.log) == 1


def test_the_second_signal_stops_what_runs(project: Project) -> None:
    job = project.enqueue("wait", number=7)
    process = project.run()
    project.until(lambda: project.log)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert "Finishes" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 128 + signal.SIGTERM
    assert project.state(job) is JobState.READY


def test_a_task_of_a_handler_that_exits_fails_its_job_alone(project: Project) -> None:
    other = project.enqueue("wait", number=7)
    process = project.run()
    project.until(lambda: project.log)
    leaving = project.enqueue("leaves")
    project.until(lambda: project.state(leaving) is JobState.FAILED)
    project.go()
    project.until(lambda: project.state(other) is JobState.DONE)
    process.send_signal(signal.SIGTERM)
    code, _, err = ended(process)
    assert code == 0
    assert "task_raised_exit error='SystemExit(0)'" in err


@pytest.mark.parametrize("signals", [2, 3])
def test_what_does_not_stop_ends_with_the_process(brisk_project: Project, signals: int) -> None:
    project = brisk_project
    if signals == 3:
        project.directory.joinpath("bot.py").write_text(
            project.directory.joinpath("bot.py").read_text().replace("session_ttl=1.0", "session_ttl=600")
        )
    project.enqueue("stuck")
    process = project.run()
    project.until(lambda: project.log)
    for expected in ("Finishes", "Stops", "Ends")[:signals]:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while expected not in (line := process.stderr.readline()):
            assert line
    assert ended(process)[0] == (70 if signals == 2 else 128 + signal.SIGINT)


def test_a_thread_that_overruns_its_session_ends_the_process(brisk_project: Project) -> None:
    """It stood still for so long that others may run its jobs; what it cannot stop must not go on."""
    project = brisk_project
    job = project.enqueue("stuck")
    process = project.run()
    project.until(lambda: project.log)

    async def rescued(app: App) -> bool:
        store = app.jobs._store_client.store
        return job in [found.id for found in await store.jobs.rescue()]

    process.send_signal(signal.SIGSTOP)
    project.until(lambda: project.do(rescued))
    process.send_signal(signal.SIGCONT)
    code, _, err = ended(process)
    assert code == 70
    assert "work_overran_session" in err


def test_a_signal_before_it_has_begun_ends_it(project: Project) -> None:
    bot = project.directory / "bot.py"
    bot.write_text(
        bot.read_text()
        + "\nfrom contextlib import asynccontextmanager\n"
        + "async def enter(self):\n    note('opening')\n    await asyncio.Event().wait()\n"
        + "App.__aenter__ = enter\n"
    )
    process = project._spawn("run", "bot:app", cwd=project.directory)
    project.processes.append(process)
    project.until(lambda: project.log)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 128 + signal.SIGTERM


def test_sigusr1_prints_what_it_does(project: Project) -> None:
    job = project.enqueue("wait", number=7)
    process = project.run("--concurrency", "3", "--queues", "default,mail=2")
    project.until(lambda: project.log)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    first, second = process.stdout.readline(), process.stdout.readline()
    assert first.startswith(f"worker {process.pid} working · session ")
    assert "queues default=3,mail=2 · running 1 of 5 · buffered 0 · unacknowledged 0 · ended: none" in first
    assert second.startswith(f"  job {job} wait attempt 1 for 0.")
    process.send_signal(signal.SIGTERM)
    project.go()
    assert ended(process)[0] == 0


# -- several processes -------------------------------------------------------------------------------------------------


def alive(pid: int) -> bool:
    """Whether a process runs. One that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_processes_that_die_are_started_again_and_end_together(brisk_project: Project) -> None:
    project = brisk_project
    process = project.run("--processes", "2", "--concurrency", "1", works=2)
    jobs = [project.enqueue("wait", number=n) for n in range(2)]
    project.until(lambda: len(project.pids()) == 2)
    victim = min(project.pids())
    assert victim != process.pid
    os.kill(victim, signal.SIGKILL)
    # Its job is rescued when its session has ended, and run by the one that took its place.
    project.until(lambda: len(project.pids()) == 3)
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while not said[-1].startswith("Runs up to"):
        said.append(process.stderr.readline())
    assert any("A process ended with status 137; another one begins in 0.5 s." in line for line in said)

    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    lines = sorted(process.stdout.readline().split()[0] for _ in range(4))
    assert lines == ["job", "job", "worker", "worker"]

    process.send_signal(signal.SIGINT)
    project.go()
    assert ended(process)[0] == 0
    assert {project.state(job) for job in jobs} == {JobState.DONE}
    assert not any(alive(pid) for pid in project.pids())


def test_processes_finish_when_whoever_started_them_is_gone(project: Project) -> None:
    process = project.run("--processes", "2", "--concurrency", "1", works=2)
    jobs = [project.enqueue("wait", number=n) for n in range(2)]
    project.until(lambda: len(project.pids()) == 2)
    process.kill()
    process.wait()
    behind = project.enqueue("wait", number=3)
    project.go()
    project.until(lambda: not any(alive(pid) for pid in project.pids()))
    assert {project.state(job) for job in jobs} == {JobState.DONE}
    assert project.state(behind) in (JobState.READY, JobState.DONE)


def test_what_is_wrong_with_all_processes_is_said_once(project: Project) -> None:
    code, _, err = ended(project._spawn("run", "bot:nope", "--processes", "3", cwd=project.directory))
    assert code == 2
    assert err.count("There is no 'nope' in 'bot'") == 1


def test_processes_need_a_store_that_they_share(project: Project) -> None:
    bot = project.directory / "bot.py"
    bot.write_text(bot.read_text().replace(project.url, "memory://"))
    code, _, err = ended(project._spawn("run", "bot:app", "--processes", "2", cwd=project.directory))
    assert code == 2
    assert "is not shared by several processes" in err


@pytest.mark.full
def test_a_deploy_that_went_wrong_ends_nobody_else(project: Project) -> None:
    process = project.run("--processes", "2", "--concurrency", "1", works=2)
    [project.enqueue("wait", number=n) for n in range(2)]
    project.until(lambda: len(project.pids()) == 2)
    bot = project.directory / "bot.py"
    good = bot.read_text()
    bot.write_text("nonsense")
    victim, other = project.pids()
    os.kill(victim, signal.SIGKILL)
    assert process.stderr is not None
    while "A process ended with status 2; another one" not in (line := process.stderr.readline()):
        assert line
    assert alive(other)
    bot.write_text(good)
    while not process.stderr.readline().startswith("Runs up to"):
        pass
    process.send_signal(signal.SIGTERM)
    project.go()
    assert ended(process)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_all_processes(project: Project, number: signal.Signals) -> None:
    process = project.run("--processes", "2", "--concurrency", "1", works=2)
    jobs = [project.enqueue("wait", number=n) for n in range(2)]
    project.until(lambda: len(project.pids()) == 2)
    process.send_signal(number)
    assert process.stderr is not None
    assert "Finishes" in process.stderr.readline()
    assert "Finishes" in process.stderr.readline()
    process.send_signal(number)
    assert ended(process)[0] == 128 + number
    assert {project.state(job) for job in jobs} == {JobState.READY}
    assert not any(alive(pid) for pid in project.pids())
