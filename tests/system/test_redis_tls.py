"""rediss:// checks the server's certificate and name, always; what does not verify is refused and said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from interlock import App, Locks, Settings, Slots
from interlock.errors import InvalidArgumentError, StoreError, StoreUnavailableError
from interlock.testing.servers import RedisServer
from interlock.testing.servers.tcp import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.authority import Authority

pytestmark = pytest.mark.system

STORE_WAIT = 3.0
SETTINGS = Settings(session_ttl=3, store_wait=STORE_WAIT)


@pytest.fixture(scope="module")
def tls_port(authorities: tuple[Authority, Authority]) -> Iterator[int]:
    """A Redis that speaks TLS on a port of its own. Its certificate is for localhost, not for 127.0.0.1."""
    ours, _ = authorities
    certificate, key = ours.issue("redis", "DNS:localhost")
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(ours.certificate),
        "tls-auth-clients": "no",
        "user": "worker on >secret-word ~* &* +@all",
    }
    with RedisServer(binary="/usr/bin/redis-server", settings=settings) as server:
        assert server.port != port
        yield port


def url(port: int, authority: Authority | None, host: str = "localhost") -> str:
    root = f"?ssl_ca_certs={quote(str(authority.certificate))}" if authority else ""
    return f"rediss://worker:secret-word@{host}:{port}/0{root}"


async def refused(address: str) -> StoreError:
    begun = time.monotonic()
    with pytest.raises(StoreError) as raised:
        await Locks.from_url(address, settings=SETTINGS).open()
    assert time.monotonic() - begun < STORE_WAIT + 1
    assert "secret" not in str(raised.value)
    return raised.value


async def test_everything_works_through_tls(tls_port: int, authorities: tuple[Authority, Authority]) -> None:
    async with App(url(tls_port, authorities[0]), settings=SETTINGS) as app:
        async with app.locks.acquire("key") as lease, app.limits.acquire(Slots("one", 1)):
            lease.ensure()
        async with app.claims.claim("delivery") as claim:
            assert claim.new


async def test_another_authoritys_certificate_is_refused(
    tls_port: int, authorities: tuple[Authority, Authority]
) -> None:
    for authority in (authorities[1], None):
        error = await refused(url(tls_port, authority))

        assert not isinstance(error, StoreUnavailableError)  # it does not pass by itself
        assert "The certificate of the Redis server is invalid" in str(error)


async def test_a_certificate_for_another_host_is_refused(
    tls_port: int, authorities: tuple[Authority, Authority]
) -> None:
    error = await refused(url(tls_port, authorities[0], host="127.0.0.1"))

    assert not isinstance(error, StoreUnavailableError)
    assert "mismatch" in str(error)


async def test_a_plain_connection_to_a_tls_port_fails_in_time(tls_port: int) -> None:
    await refused(f"redis://worker:secret-word@localhost:{tls_port}/0")


@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_check_hostname=false", "ssl_cert_reqs=optional"])
def test_the_check_cannot_be_turned_off(option: str) -> None:
    with pytest.raises(InvalidArgumentError, match="would turn off"):
        Locks.from_url(f"rediss://localhost:6380/0?{option}")


def test_a_missing_authority_file_is_said(tmp_path: Path) -> None:
    missing = quote(str(tmp_path / "missing.crt"))
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        Locks.from_url(f"rediss://localhost:6380/0?ssl_ca_certs={missing}")
