"""Serve the API with workers, or upgrade a table of intents: ``python -m bridge serve|upgrade|downgrade``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bridge.data.upgrade import downgrade_intents_table, upgrade_intents_table
from bridge.factory import DEFAULT_URL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.applications import Starlette


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bridge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the API and the dashboard, and run pipelines")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8080)
    for name, text in (
        ("upgrade", "bring the rows of the table intents into records, and keep both equal"),
        ("downgrade", "end the synchronization with the table intents"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--url", default=os.environ.get("BRIDGE_URL", DEFAULT_URL))
    options = parser.parse_args()
    if options.command == "serve":
        _serve(options.host, options.port)
    elif options.command == "upgrade":
        count = asyncio.run(upgrade_intents_table(options.url))
        print(f"Imported {count} intents. The table and the records are kept equal from now on.")
    else:
        asyncio.run(downgrade_intents_table(options.url))
        print("The table and the records are not kept equal any more.")
    return 0


def _serve(host: str, port: int) -> None:
    import uvicorn

    from bridge.api.http import create_api
    from bridge.program import bridge

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with bridge, bridge.app.worker():
            yield

    tokens = dict(pair.split(":", 1) for pair in os.environ.get("BRIDGE_API_TOKENS", "").split(",") if ":" in pair)
    if not tokens and host not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit("Set BRIDGE_API_TOKENS=yuno:SECRET,kana:SECRET to serve other machines.")
    web = bridge.app.web()
    api = create_api(bridge, tokens=tokens or None, dashboard=web, lifespan=lifespan)
    print(f"Dashboard: {web.login_url(f'http://{host}:{port}')}", flush=True)
    uvicorn.run(api, host=host, port=port, log_level="warning")


if __name__ == "__main__":
    sys.exit(main())
