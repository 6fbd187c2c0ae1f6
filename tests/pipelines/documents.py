"""Documents for the tests of single properties of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from interlock import App

__all__ = ["Document", "nothing", "run_states"]


class Document(BaseModel):
    """A record without a machine."""

    id: str
    version: int = 0
    count: int = 0
    payload: dict[str, Any] = Field(default_factory=dict)


async def nothing(document: Document) -> None:
    """Be a stage that does nothing."""


async def run_states(app: App, pipeline: str = "p") -> list[str]:
    """The states of the pipeline's jobs, the newest first."""
    return [str(job.state) for job in await app.jobs.list(name=f"pipeline.{pipeline}")]
