"""Access control, and restrictions for browsers.

Without credentials, only this machine is served, and only under its own names, so that a page of another site cannot
get access with a name of its choice. Because a proxy on this machine makes every client look local, a secret token is
needed as well: ``interlock run`` prints the URL with the token, and a browser exchanges it for a cookie. A request that
changes anything has to come from one of the dashboard's pages: the browser's headers must say so, and the request must
carry a SameSite cookie and a token that no other page can read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from interlock.errors import InvalidArgumentError
from interlock.web.answers import answer, answer_json, closing, header
from interlock.web.bodies import Bodies, BodyRefusedError, ClientGoneError
from interlock.web.credentials import Credentials
from interlock.web.links import path_of, root_of
from interlock.web.logins import Logins

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from interlock.telemetry.web import WebMetrics
    from interlock.web.answers import Headers

__all__ = ["SecurityHeaders", "Gate", "is_loopback"]

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(?::([0-9]{1,5}))?")
_FORWARDED = re.compile(rb"x-forwarded-.*|cf-.*|x-real-ip|true-client-ip|forwarded|via", re.DOTALL)
_ACTION_BYTES = 1_000_000
_ACTION_SECONDS = 10.0
_MAX_FIELDS = 100
_TOKEN = "token"  # noqa: S105 - the name of a parameter
_ONWARD = b"""<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>Interlock</title>
<p>Opening the dashboard. Reload the page if nothing happens.</p>
"""
_NO_REFERRER = (b"referrer-policy", b"no-referrer")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Not no-referrer: with it, browsers send "Origin: null" with a plain form, which could be any site's.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class SecurityHeaders:
    """Adds security headers to every response of an app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given: Headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [pair for pair in _HEADERS if pair[0] not in names]
            await send(message)

        await self._app(scope, receive, dressed)


class _Refused(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class _Onward(Exception):  # noqa: N818
    """A visitor follows a link from another site: the browser sends the cookies only with a second request."""


class _Visitor(NamedTuple):
    user: str
    """Empty if no credentials are required."""
    csrf: str
    cookie: str
    """The cookie's name. Browsers send cookies to all ports of a host, on which several apps may run."""
    program: bool
    """Whether a header that no browser sends by itself authenticates it."""


class Gate:
    """Applies the access rules. Inside, ``request.state`` has ``user``, ``csrf`` and ``form``."""

    def __init__(
        self,
        app: ASGIApp,
        credentials: Credentials | None,
        allowed_hosts: Iterable[str] = (),
        *,
        metrics: WebMetrics,
        token: str | None = None,
    ) -> None:
        """``token`` is shared by successive processes at one address; without it, each process has its own."""
        self._app = app
        self._credentials = _checked_credentials(credentials)
        self._hosts = _checked_hosts(allowed_hosts)
        self.token = "" if credentials is not None else token or secrets.token_urlsafe(32)
        """The token that gives access without credentials; empty if they are required."""
        # Processes at one address share credentials or a token, and so accept each other's cookies.
        self._key = hashlib.sha256(self.token.encode()).digest() if credentials is None else credentials.key
        self._session = hmac.new(self._key, b"session", hashlib.sha256).hexdigest()
        self._logins = Logins(metrics)
        self._bodies = Bodies(_ACTION_BYTES, together=20 * _ACTION_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        query: bytes = scope.get("query_string", b"")
        if _TOKEN.encode() in query:
            scope["query_string"] = b""  # also removes it from the server's access log
        headers = list(scope["headers"])  # servers append trailers to the original list
        scope = {**scope, "query_string": query, "headers": headers}
        unread = closing(scope)
        try:
            visitor = self._visitor(scope)
            form: dict[str, str] = {}
            if scope["method"] == "POST":
                body = await self._body(scope, receive)
                unread = []
                form = _checked_action(scope["headers"], body, visitor)
                receive = _again(body, receive)
        except _Refused as refused:
            await _refuse(scope, send, refused, unread)
            return
        except _Onward:
            await answer(send, 200, _ONWARD, b"text/html; charset=utf-8", [_NO_REFERRER])
            return
        except ClientGoneError:
            return
        state = {**scope.get("state", {}), "user": visitor.user, "csrf": visitor.csrf, "form": form}
        await self._app({**scope, "state": state}, receive, self._giving_token(scope, send, visitor))

    # -- authentication --------------------------------------------------------------------------------------------

    def _visitor(self, scope: Scope) -> _Visitor:
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise _Refused(405, "Use GET or POST.", (b"allow", b"GET, HEAD, POST"))
        headers: Headers = scope["headers"]
        match = _HOST.fullmatch((header(headers, b"host") or b"").decode("latin-1"))
        if match is None:
            raise _Refused(400, "The request has no Host header.")
        host, suffix = match[1].lower(), f"_{match[2]}" if match[2] else ""
        self._check_host(scope, host)
        _refuse_strangers(scope)
        if self._credentials is None:
            program = self._check_token(scope, f"interlock_session{suffix}")
            return _Visitor("", self._csrf("", scope), f"interlock_csrf{suffix}", program)
        user = self._user(self._credentials, scope, f"interlock_csrf{suffix}")
        return _Visitor(user, self._csrf(user, scope), f"interlock_csrf{suffix}", program=True)

    def _csrf(self, user: str, scope: Scope) -> str:
        return hmac.new(self._key, f"csrf\0{user}\0{root_of(scope)}".encode(), hashlib.sha256).hexdigest()

    def _check_host(self, scope: Scope, host: str) -> None:
        """Refuse unknown host names and, without credentials, other machines."""
        headers: Headers = scope["headers"]
        known = is_loopback(host) or host in self._hosts
        if self._credentials is None:
            client = scope.get("client")
            if not client or not is_loopback(client[0]) or any(_FORWARDED.fullmatch(name) for name, _ in headers):
                raise _Refused(
                    403,
                    "Without credentials, only this machine has access. Set INTERLOCK_WEB_CREDENTIALS=user:password or "
                    "pass credentials= to app.web().",
                )
            if not known:
                raise _Refused(
                    403,
                    "Without credentials, only localhost and names in allowed_hosts= are served. Open it as "
                    "http://localhost, or set INTERLOCK_WEB_CREDENTIALS=user:password.",
                )
        elif self._hosts and not known:
            raise _Refused(403, "Unknown host name. Add it to allowed_hosts=.")

    def _check_token(self, scope: Scope, cookie: str) -> bool:
        """Raise unless the request has the cookie or the token; returns whether it has the token in a header.

        A token in the URL is exchanged for the cookie, and the browser is redirected to the URL without it.
        """
        headers: Headers = scope["headers"]
        query = _query(scope)
        in_address = [value for name, value in query if name == _TOKEN] if scope["method"] != "POST" else []
        signed_in = hmac.compare_digest(_cookie(headers, cookie), self._session.encode())
        if signed_in and not in_address:
            return False
        scheme, _, bearer = (header(headers, b"authorization") or b"").partition(b" ")
        program = scheme.lower() == b"bearer"
        if not signed_in:
            given = bearer.strip() if program else in_address[0].encode() if in_address else None
            if given is None:
                _let_follow(scope)
                raise _Refused(
                    401,
                    "Open the dashboard with the URL that was printed when it started: it ends in ?token=… and is "
                    "new after each start. A program sends the token as 'Authorization: Bearer TOKEN'. In a server of "
                    "your own, web.login_url('http://localhost:8000') returns the URL.",
                    (b"www-authenticate", b'Bearer realm="Interlock"'),
                )
            self._check_pace(scope)
            if not hmac.compare_digest(_digest(given), _digest(self.token.encode())):
                self._logins.failed(_client(scope), "token")
                raise _Refused(
                    401,
                    "This is not the token of the running server. Each start creates a new one: use the URL that was "
                    "printed last.",
                    (b"www-authenticate", b'Bearer realm="Interlock", error="invalid_token"'),
                )
            if program:
                return True
        rest = urlencode([pair for pair in query if pair[0] != _TOKEN])
        place = quote("/" + f"{root_of(scope)}{path_of(scope)}".lstrip("/"), safe="/")
        raise _Refused(
            303,
            "Signed in.",
            (b"location", f"{place}?{rest}".encode() if rest else place.encode()),
            (b"set-cookie", _set_cookie(scope, cookie, self._session)),
            _NO_REFERRER,
        )

    def _user(self, credentials: Credentials, scope: Scope, cookie: str) -> str:
        """The authenticated user; raises if the credentials are missing or wrong."""
        headers: Headers = scope["headers"]
        ask = (b"www-authenticate", b'Basic realm="Interlock", charset="UTF-8"')
        authorization = [value for name, value in headers if name == b"authorization"]
        if not authorization:
            raise _Refused(401, "A user and a password are required.", ask)
        user = credentials.user(authorization[0]) if len(authorization) == 1 else None
        # A browser that has signed in is not affected by failed attempts of others at its address.
        if user is not None and hmac.compare_digest(_cookie(headers, cookie), self._csrf(user, scope).encode()):
            return user
        self._check_pace(scope)
        if user is None:
            self._logins.failed(_client(scope), "password")
            raise _Refused(401, "Wrong user or password.", ask)
        return user

    def _check_pace(self, scope: Scope) -> None:
        """Refuse to check attempts of an address with too many failures."""
        wait = self._logins.seconds_to_wait(_client(scope))
        if wait > 0:
            self._logins.slowed()
            seconds = math.ceil(wait)
            raise _Refused(
                429,
                f"Too many failed logins from this address. Try again in {seconds} s.",
                (b"retry-after", b"%d" % seconds),
            )

    # -- authorization ---------------------------------------------------------------------------------------------

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(_ACTION_SECONDS):
                return await self._bodies.read(scope["headers"], receive)
        except BodyRefusedError as refused:
            raise _Refused(refused.status, refused.reason) from None
        except TimeoutError:
            raise _Refused(408, f"The body did not arrive within {_ACTION_SECONDS:g} s.") from None

    def _giving_token(self, scope: Scope, send: Send, visitor: _Visitor) -> Send:
        """Sets the cookie on pages for clients that do not have it."""
        expected = visitor.csrf.encode()
        cookie = _set_cookie(scope, visitor.cookie, visitor.csrf)

        async def giving(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: Headers = list(message.get("headers", ()))
                page = any(
                    name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers
                )
                if page and _cookie(scope["headers"], visitor.cookie) != expected:
                    message["headers"] = [*headers, (b"set-cookie", cookie)]
            await send(message)

        return giving


async def _refuse(scope: Scope, send: Send, refused: _Refused, unread: Headers) -> None:
    """The response as text, or as JSON for the API."""
    more = [*refused.headers, *unread]
    if path_of(scope).startswith("/api/"):
        data = {"error": "refused", "message": refused.text, "remedy": ""}
        await answer_json(send, refused.status, data, more)
    else:
        await answer(send, refused.status, f"{refused.text}\n".encode(), more=more)


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only be that of this machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _checked_action(headers: Headers, body: bytes, visitor: _Visitor) -> dict[str, str]:
    """The form; refuses requests that another page made the browser send."""
    names = {name for name, _ in headers}
    form = _form(headers, body)
    # A program that sends its credentials. A browser may add stored ones, but never without a header that says
    # where the request comes from.
    program = visitor.program and not names & {b"cookie", b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-mode"}
    if not program:
        _refuse_other_origins(headers)
        given = header(headers, b"x-csrf-token") or form.pop("csrf", "").encode()
        expected = visitor.csrf.encode()
        kept = _cookie(headers, visitor.cookie)
        if not (hmac.compare_digest(given, expected) and hmac.compare_digest(kept, expected)):
            raise _Refused(403, "The page is out of date. Reload it, then repeat.")
    return form


def _let_follow(scope: Scope) -> None:
    """Make a browser that follows a link from another site repeat its request.

    It does not send ``SameSite=Strict`` cookies with the first request. The second one comes from our own page.
    """
    headers: Headers = scope["headers"]
    if scope["method"] == "GET" and header(headers, b"sec-fetch-site") in (b"cross-site", b"same-site"):
        raise _Onward


def _query(scope: Scope) -> list[tuple[str, str]]:
    """The parameters of a request; none if there are too many."""
    try:
        return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return []


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _digest(text: bytes) -> bytes:
    """A digest of fixed length, so that a comparison does not reveal the length of the text."""
    return hashlib.sha256(text).digest()


def _set_cookie(scope: Scope, name: str, value: str) -> bytes:
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{name}={value}; Path={quote(root_of(scope)) or '/'}; HttpOnly; SameSite=Strict{secure}".encode()


def _again(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was already read."""
    messages = iter(({"type": "http.request", "body": body, "more_body": False},))

    async def again() -> Message:
        return next(messages, None) or await receive()

    return again


def _refuse_strangers(scope: Scope) -> None:
    """Refuse cross-site requests, except for following a link."""
    headers: Headers = scope["headers"]
    site = header(headers, b"sec-fetch-site")
    if site in (None, b"same-origin", b"none") or scope["method"] == "POST":  # checked separately
        return
    if header(headers, b"sec-fetch-mode") != b"navigate" or header(headers, b"sec-fetch-dest") != b"document":
        raise _Refused(403, "Cross-site request refused.")


def _refuse_other_origins(headers: Headers) -> None:
    """Check where an action comes from, by the browser's headers; without them, it is refused."""
    site, origin = header(headers, b"sec-fetch-site"), header(headers, b"origin")
    if site is not None:
        same = site == b"same-origin"
    else:
        # The scheme may differ: a proxy in front may terminate TLS.
        same = origin is not None and origin.partition(b"://")[2].lower() == (header(headers, b"host") or b"?").lower()
    if not same:
        raise _Refused(403, "Only pages of this dashboard, and programs that send credentials, may change anything.")


def _form(headers: Headers, body: bytes) -> dict[str, str]:
    """The fields of a form. Repeated fields are ignored."""
    kind = (header(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return {}
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _cookie(headers: Headers, name: str) -> bytes:
    """The cookie's value; empty if it is missing."""
    begin = f"{name}=".encode()
    for key, value in headers:
        if key == b"cookie":
            for part in value.split(b";"):
                if part.strip().startswith(begin):
                    return part.strip()[len(begin) :]
    return b""


def _checked_credentials(credentials: Any) -> Credentials | None:
    if credentials is None or isinstance(credentials, Credentials):
        return credentials
    raise InvalidArgumentError(  # without the value, which contains passwords
        f"Invalid credentials of type {type(credentials).__name__}.", remedy='Pass Credentials({"ann": "…"}).'
    )


def _checked_hosts(hosts: Any) -> frozenset[str]:
    """Host names; a string is a single one."""
    if isinstance(hosts, str):
        hosts = (hosts,)
    if not isinstance(hosts, Iterable):
        raise InvalidArgumentError(
            f"Invalid allowed_hosts {hosts!r}.", remedy='Pass a list, such as ["dash.example.com"].'
        )
    return _each_checked(hosts)


def _each_checked(hosts: Any) -> frozenset[str]:
    return frozenset(map(_checked_host, hosts))


def _checked_host(host: Any) -> str:
    match = _HOST.fullmatch(host) if isinstance(host, str) else None
    if match is None or match[2] is not None or "*" in host:
        raise InvalidArgumentError(
            f"Invalid host name {host!r} in allowed_hosts.",
            remedy="Use names such as dash.example.com, without a port.",
        )
    return match[1].lower()
