"""Stages: the steps of a pipeline, and what each of them may know about its run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from interlock.arguments import Seconds, checked_seconds
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.values import describe_type

__all__ = ["Mode", "Stage", "StageRun", "checked_mode", "checked_stages"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAX_STAGES = 100


class Mode(StrEnum):
    """The effect of a failed stage on its run."""

    FAILFAST = "failfast"
    """The run has failed."""
    CONTINUE = "continue"
    """The run goes on with the next stage."""
    SELECTIVE = "selective"
    """The run has failed if the stage is required; otherwise it goes on with the next one."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """One attempt of a stage, for the stage itself."""

    id: int
    """The run, which is also the ID of its job."""
    pipeline: str
    stage: str
    record_id: str
    mode: Mode
    attempt: int
    """How many times the stage has started in this run: more than 1 after a retry or a crash."""
    fence: int
    """Larger than in every earlier attempt. Pass it to a system that can refuse an older one."""


class Stage:
    """A stage with its options: ``Stage(publish, name="output", required=True, timeout=30)``.

    ``work`` is a coroutine function, or an object with the coroutine method ``run`` or ``__call__``. It takes the
    record, and as a second argument the :class:`StageRun` if it declares one. It changes the record that it gets, or
    returns another one. ``required`` matters in the mode selective. An attempt that takes longer than ``timeout`` is
    cancelled and has failed.
    """

    __slots__ = ("_call", "_takes_run", "name", "required", "timeout", "work")

    def __init__(
        self, work: object, *, name: str | None = None, required: bool = False, timeout: Seconds | None = None
    ) -> None:
        self.work = work
        self._call = _callable(work)
        found = name if name is not None else _name_of(work)
        if not isinstance(found, str) or not _NAME.fullmatch(found):
            raise InvalidArgumentError(
                f"Invalid stage name {found!r}.",
                remedy="Use 1 to 63 letters, digits, '.', '-' and '_', starting with a letter or digit: name=….",
            )
        self.name = found
        self.required = required
        self.timeout = None if timeout is None else checked_seconds("timeout", timeout)
        if self.timeout is not None and self.timeout <= 0:
            raise InvalidArgumentError(f"Invalid timeout {timeout!r}.", remedy="Use more than 0 seconds, or None.")
        self._takes_run = _takes_run(self._call, self.name)

    def __call__(self, record: Any, run: StageRun) -> Awaitable[Any]:
        """Call the stage's code."""
        return self._call(record, run) if self._takes_run else self._call(record)

    def __repr__(self) -> str:
        return f"<Stage {self.name}>"


def checked_stages(given: object) -> tuple[Stage, ...]:
    """Validate the stages of a pipeline."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgumentError(f"Invalid stages {given!r:.60}.", remedy="Pass a list of stages.")
    stages = tuple(one if isinstance(one, Stage) else Stage(one) for one in cast("Iterable[object]", given))
    if not 1 <= len(stages) <= _MAX_STAGES:
        raise InvalidArgumentError(f"A pipeline has {len(stages)} stages.", remedy=f"Pass 1 to {_MAX_STAGES}.")
    names = [stage.name for stage in stages]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(
                f"Two stages have the name {name!r}.", remedy="Name one of them: Stage(…, name=…)."
            )
    return stages


def checked_mode(mode: object) -> Mode:
    """Validate a mode."""
    try:
        return Mode(mode)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidArgumentError(f"Invalid mode {mode!r}.", remedy=f"Use {', '.join(Mode)}.") from None


def _callable(work: object) -> Callable[..., Awaitable[Any]]:
    for found in (work, getattr(work, "run", None), getattr(work, "__call__", None)):  # noqa: B004 - its signature matters
        if inspect.iscoroutinefunction(found) and not isinstance(work, type):
            return cast("Callable[..., Awaitable[Any]]", found)
    raise MisuseError(
        f"A stage cannot be {describe_type(work)}: {work!r:.60}.",
        remedy="Use a coroutine function, or an object with the coroutine method run or __call__.",
    )


def _name_of(work: object) -> object:
    name = getattr(work, "name", None)
    if isinstance(name, str):
        return name
    return getattr(work, "__name__", type(work).__name__)


def _takes_run(call: Callable[..., Any], name: str) -> bool:
    """Whether the code takes the run as its second argument."""
    parameters = inspect.signature(call).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(needed) > 2 or any(p.kind is p.KEYWORD_ONLY for p in needed) or not (positional or any_number):
        raise MisuseError(
            f"The stage {name!r} does not take a record.", remedy="Let it take (record) or (record, run)."
        )
    return len(positional) >= 2 or any_number
