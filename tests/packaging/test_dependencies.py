"""What Interlock overrides or reaches into exists in the installed versions, and `pyproject.toml` bounds them."""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import aiosqlite
import hiredis
import httptools
import pytest
import requests
import uvicorn
from packaging.requirements import Requirement
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.credentials import CredentialProvider, StreamingCredentialProvider
from redis_entraid.identity_provider import ManagedIdentityProvider
from typer.core import TyperGroup
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from interlock.backends.redis.entra import EntraCredentials, _Session
from interlock.cli.output import Commands
from interlock.web.protocol import BoundedProtocol
from interlock.web.serve import _Server

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
BOUNDED = {
    "asyncpg": "postgres",
    "hiredis": "redis",
    "httptools": "web",
    "msal": "entra",
    "prometheus-client": "metrics",
    "redis": "redis",
    "redis-entraid": "entra",
    "requests": "entra",
    "sqlalchemy": "sqlalchemy",
    "starlette": "web",
    "typer": "cli",
    "uvicorn": "web",
}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BoundedProtocol, HttpToolsProtocol),
        (_Server, uvicorn.Server),
        (Commands, TyperGroup),
        (EntraCredentials, CredentialProvider),
        (_Session, requests.Session),
    ],
)
def test_every_overridden_method_exists_in_the_base_class(ours: type, theirs: type) -> None:
    methods = [name for name, value in vars(ours).items() if inspect.isfunction(value) and not name.startswith("_")]

    assert methods
    for name in methods:
        assert callable(getattr(theirs, name, None)), f"{theirs.__name__} no longer has {name}"
        _check_parameters(getattr(ours, name), getattr(theirs, name))


def _check_parameters(ours: Any, theirs: Any) -> None:
    """Every call that their code may make is one that ours takes."""
    kinds = {parameter.kind for parameter in inspect.signature(ours).parameters.values()}
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        return
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


def test_uvicorn_keeps_what_the_protocol_reads() -> None:
    async def attributes() -> set[str]:
        async def application(scope: Any, receive: Any, send: Any) -> None: ...

        config = uvicorn.Config(application, http=BoundedProtocol, lifespan="off", log_config=None)
        config.load()
        server = uvicorn.Server(config)
        return set(vars(BoundedProtocol(config, server.server_state, {}))) | set(vars(server))

    needed = {"parser", "pipeline", "cycle", "connections", "transport", "loop", "headers"}
    assert needed | {"should_exit", "force_exit"} <= asyncio.run(attributes())


def test_httptools_keeps_what_the_parser_calls() -> None:
    for name in ("feed_data", "get_method", "get_http_version", "should_keep_alive", "should_upgrade"):
        assert hasattr(httptools.HttpRequestParser, name)
    assert hasattr(httptools.HttpRequestParser, "set_dangerous_leniencies")


def test_redis_keeps_what_a_connection_is_taken_over_by() -> None:
    for kind in (Connection, SSLConnection, UnixDomainSocketConnection):
        connection: Any = kind()
        assert connection._reader is None
        assert connection._writer is None
    for name in ("on_next", "on_error"):
        assert hasattr(StreamingCredentialProvider, name)
    assert hasattr(ManagedIdentityProvider, "request_token")
    assert callable(hiredis.pack_command)
    assert hiredis.Reader(encoding="utf-8", errors="replace", notEnoughData=None).gets() is None


async def test_aiosqlite_keeps_what_runs_several_statements_on_its_thread() -> None:
    async with aiosqlite.connect(":memory:") as connection:
        raw: Any = connection
        assert await raw._execute(lambda own: own.execute("select 7").fetchone(), raw._conn) == (7,)
    with pytest.raises(ValueError, match="no active connection"):
        _ = raw._conn


@pytest.mark.parametrize("package", sorted(BOUNDED))
def test_what_is_overridden_has_an_upper_bound_that_the_installed_version_meets(package: str) -> None:
    extra = PROJECT["optional-dependencies"][BOUNDED[package]]
    (requirement,) = (found for found in map(Requirement, extra) if found.name == package)

    assert any(specifier.operator == "<" for specifier in requirement.specifier)
    assert version(package) in requirement.specifier


def test_the_base_install_is_small() -> None:
    base = {Requirement(text).name for text in PROJECT["dependencies"]}

    # Schedules need cronsim, which has no dependencies, and time zones also where the system has none.
    assert base == {"cronsim", "pydantic", "typing-extensions", "tzdata"}


def test_the_web_extra_includes_the_command_line_and_metrics() -> None:
    (included,) = (found for found in map(Requirement, PROJECT["optional-dependencies"]["web"]) if found.extras)

    assert included.extras == {"cli", "metrics"}


def test_the_package_names_its_urls_and_versions() -> None:
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(PROJECT["urls"])
    assert "Programming Language :: Python :: 3.14" in PROJECT["classifiers"]
    assert requires("interlock")
