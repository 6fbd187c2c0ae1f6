"""The console over HTTP: targets, accounts, schedules and configuration, with Interlock's dashboard beside them."""

# The claim keeps its documented name, with its underscore.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import hmac
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from fastapi import Body, FastAPI, HTTPException, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware

from interlock.errors import NotFoundError
from sentinel import report_service, scheduler, target_service
from sentinel.config import Config, get_config, update_config
from sentinel.cooldowns import check_cooldown
from sentinel.current import current_console, working_on
from sentinel.database import Row, execute_query, timestamp
from sentinel.page import PAGE
from sentinel.target_service import _claim_target_for_processing, get_target

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sentinel.console import Console

__all__ = ["create_api", "execute_report"]

logger = logging.getLogger("sentinel")

ID = Annotated[int, Path(ge=1, lt=2**63)]


class NewAccount(BaseModel):
    """An account to add."""

    name: Annotated[str, Field(min_length=1, max_length=100)]


class NewTarget(BaseModel):
    """A target to add."""

    item: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
    account_id: int


class TaskChange(BaseModel):
    """The fields of a task that an edit may change; ``version`` is the one that the operator saw."""

    model_config = ConfigDict(extra="forbid")

    task_type: str | None = None
    cron_expression: str | None = None
    interval_seconds: int | None = None
    is_active: bool | None = None
    version: int | None = None


class NewConfig(BaseModel):
    """The configuration to set."""

    cooldown: float


class Cancellation(BaseModel):
    """The actor and the reason of a cancellation."""

    by: Annotated[str, Field(min_length=1, max_length=100)] = "operator"
    reason: Annotated[str, Field(min_length=1, max_length=500)] = "cancelled in the console"


async def execute_report(target_id: int) -> dict[str, str]:
    """Accept the report of a target: 202, or 404 (unknown), 409 (processing or completed), 500 (not queued)."""
    try:
        claimed = await _claim_target_for_processing(target_id)
    except Exception as error:
        logger.exception("Failed to queue the report of target %s", target_id)
        await _back_to_pending(target_id)
        raise HTTPException(status_code=500, detail="Failed to queue execution") from error
    if claimed:
        return {"status": "accepted"}
    target = await get_target(target_id)
    if target is None:
        raise HTTPException(status_code=404, detail="Target not found")
    if target["status"] == "completed":
        raise HTTPException(status_code=409, detail="Target is completed: reset it first")
    raise HTTPException(status_code=409, detail="Target is already processing")


async def _back_to_pending(target_id: int) -> None:
    """A claim that failed was rolled back, so only a target that had failed before has to become pending."""
    try:
        await execute_query(
            "update targets set status = 'pending', job_id = null, updated_at = ? where id = ? and status = 'failed'",
            (timestamp(), target_id),
        )
    except Exception:
        logger.exception("Target %s keeps its status: the database is unavailable", target_id)


def create_api(
    console: Console, *, dashboard: ASGIApp | None = None, token: str = "", hosts: Sequence[str] = ()
) -> ASGIApp:
    """Return the ASGI application. The console has to be open while it runs.

    With a ``token`` a request needs ``Authorization: Bearer …``. Without one, serve only this machine. ``dashboard`` is
    ``console.app.web()``, served under ``/interlock``. ``hosts`` are further names under which it may be asked for.
    """
    api = FastAPI(title="Sentinel", docs_url=None, redoc_url=None)
    _add_targets(api)
    _add_tasks(api)
    _add_others(api)
    if dashboard is not None:
        api.mount("/interlock", dashboard)
    api.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", *hosts])

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope, token)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        with working_on(console):
            await api(scope, receive, send)

    return serve


def _refusal(scope: Scope, token: str) -> Response | None:
    """Refuse what is not a request of this console's own users: another site's page, or a caller without the token."""
    if scope["type"] != "http" or scope["path"].startswith("/interlock"):
        return None  # the dashboard checks its own users
    headers = Headers(scope=scope)
    origin = urlsplit(headers.get("origin", "")).netloc
    if scope["method"] not in ("GET", "HEAD") and origin and origin != headers.get("host"):
        return JSONResponse({"detail": "Requests of other sites are refused"}, 403)
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if token and not hmac.compare_digest(given.encode(), token.encode()):
        return JSONResponse({"detail": "Send Authorization: Bearer …"}, 401)
    return None


def _add_targets(api: FastAPI) -> None:
    @api.get("/targets")
    async def list_targets(  # pyright: ignore[reportUnusedFunction]
        status: Literal["pending", "processing", "completed", "failed"] | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> list[Row]:
        return await target_service.list_targets(status, limit)

    @api.post("/targets", status_code=201)
    async def create_target(target: NewTarget) -> Row:  # pyright: ignore[reportUnusedFunction]
        if not await execute_query("select id from accounts where id = ?", (target.account_id,)):
            raise HTTPException(404, "Account not found")
        return _found(await get_target(await target_service.create_target(target.item, target.account_id)))

    @api.get("/targets/{target_id}")
    async def show_target(target_id: ID) -> Row:  # pyright: ignore[reportUnusedFunction]
        return _found(await get_target(target_id))

    @api.post("/targets/{target_id}/execute", status_code=202)
    async def execute(target_id: ID) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return await execute_report(target_id)

    @api.post("/targets/{target_id}/reset")
    async def reset(target_id: ID) -> Row:  # pyright: ignore[reportUnusedFunction]
        if await target_service.reset_target(target_id):
            return _found(await get_target(target_id))
        target = _found(await get_target(target_id))
        raise HTTPException(409, f"Target is {target['status']}")

    @api.post("/targets/{target_id}/cancel", status_code=202)
    async def cancel(  # pyright: ignore[reportUnusedFunction]
        target_id: ID, cancellation: Annotated[Cancellation, Body(default_factory=Cancellation)]
    ) -> dict[str, str]:
        target = _found(await get_target(target_id))
        if target["status"] != "processing":
            raise HTTPException(409, f"Target is {target['status']}")
        try:
            await current_console().app.jobs.cancel(target["job_id"], by=cancellation.by, reason=cancellation.reason)
        except NotFoundError as error:
            raise HTTPException(409, str(error)) from error
        return {"status": "cancelled"}  # the hook at the end of the job fails the target


def _add_tasks(api: FastAPI) -> None:
    @api.get("/tasks")
    async def list_tasks() -> list[Row]:  # pyright: ignore[reportUnusedFunction]
        return await scheduler.list_tasks()

    @api.post("/tasks", status_code=201)
    async def create_task(task: TaskChange) -> Row:  # pyright: ignore[reportUnusedFunction]
        with _refusing():
            return await scheduler.create_task(task.model_dump(exclude_unset=True))

    @api.patch("/tasks/{task_id}")
    async def update_task(task_id: ID, change: TaskChange) -> Row:  # pyright: ignore[reportUnusedFunction]
        with _refusing():
            return await scheduler.update_task(task_id, change.model_dump(exclude_unset=True))

    @api.delete("/tasks/{task_id}", status_code=204)
    async def delete_task(task_id: ID) -> None:  # pyright: ignore[reportUnusedFunction]
        with _refusing():
            await scheduler.delete_task(task_id)


def _add_others(api: FastAPI) -> None:
    @api.get("/", response_class=HTMLResponse)
    async def page() -> str:  # pyright: ignore[reportUnusedFunction]
        return PAGE

    @api.get("/accounts")
    async def list_accounts() -> list[Row]:  # pyright: ignore[reportUnusedFunction]
        return await execute_query("select * from accounts order by id")

    @api.post("/accounts", status_code=201)
    async def create_account(account: NewAccount) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        return {"id": await target_service.create_account(account.name)}

    @api.post("/accounts/{account_id}/turn")
    async def reserve_turn(account_id: ID) -> dict[str, float]:  # pyright: ignore[reportUnusedFunction]
        return {"wait": await check_cooldown(account_id)}

    @api.get("/logs")
    async def list_logs(  # pyright: ignore[reportUnusedFunction]
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> list[Row]:
        return await report_service.list_logs(limit)

    @api.get("/config")
    async def show_config() -> Config:  # pyright: ignore[reportUnusedFunction]
        return await get_config()

    @api.put("/config")
    async def change_config(config: NewConfig) -> Config:  # pyright: ignore[reportUnusedFunction]
        with _refusing():
            return await update_config(config.cooldown, by="operator")


def _found(row: Row | None) -> Row:
    if row is None:
        raise HTTPException(404, "Target not found")
    return row


@contextmanager
def _refusing() -> Generator[None]:
    """Turn the refusals of the services into answers."""
    try:
        yield
    except scheduler.TaskConflictError as error:
        raise HTTPException(409, str(error)) from error
    except ValueError as error:
        raise HTTPException(404 if str(error) == "Task not found" else 400, str(error)) from error
