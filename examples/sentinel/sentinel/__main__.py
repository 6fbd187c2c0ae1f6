"""Serve the console with workers: ``python -m sentinel [--port 8080]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import uvicorn

from sentinel.api import create_api
from sentinel.factory import create_console
from sentinel.scheduler import start_scheduler


def main() -> int:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(prog="python -m sentinel", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    token = os.environ.get("SENTINEL_TOKEN", "")
    if not token and options.host not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit("Set SENTINEL_TOKEN to serve other machines.")
    asyncio.run(_serve(options.host, options.port, token))
    return 0


async def _serve(host: str, port: int, token: str) -> None:
    async with create_console() as console:
        await start_scheduler()
        web = console.app.web()
        api = create_api(console, dashboard=web, token=token, hosts=[host])
        address = f"http://{host}:{port}"
        print(f"Console: {address}/\nDashboard: {web.login_url(f'{address}/interlock')}", flush=True)
        async with console.app.worker():
            await uvicorn.Server(uvicorn.Config(api, host=host, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    sys.exit(main())
