"""Who may come in, and what a browser may do with what it gets.

Without credentials only this machine is served, and only under a name that is its own, so that no web page elsewhere
can reach in by a name of its choosing. What changes anything has to come from a page of ours: the browser says so, a
cookie that it sends from nowhere else comes along, and so does a token that no other page can read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote

from interlock.errors import InvalidArgumentError
from interlock.web.answers import answer, answer_json, closing, header
from interlock.web.bodies import Bodies, BodyRefusedError, ClientGoneError
from interlock.web.credentials import Credentials
from interlock.web.links import path_of, root_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from interlock.web.answers import Headers

__all__ = ["Dressed", "Gate", "is_loopback"]

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(?::([0-9]{1,5}))?")
_FORWARDED = re.compile(rb"x-forwarded-.*|cf-.*|x-real-ip|true-client-ip|forwarded|via", re.DOTALL)
_ACTION_BYTES = 1_000_000
_ACTION_SECONDS = 10.0
_MOST_FIELDS = 100
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
    # Not no-referrer: with that, browsers send "Origin: null" with a plain form, and ours look like anybody's.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Dressed:
    """An app whose every answer carries the headers that keep a browser from being used against its user."""

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


class _Visitor(NamedTuple):
    user: str
    """Empty where no credentials are asked for."""
    csrf: str
    cookie: str
    """The cookie's name. A browser sends cookies to all ports of a host, and several apps may run on one."""


class Gate:
    """Lets in whom the rules let in. Inside, ``request.state`` has ``user``, ``csrf`` and ``form``."""

    def __init__(self, app: ASGIApp, credentials: Credentials | None, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._credentials = _checked_credentials(credentials)
        self._hosts = _checked_hosts(allowed_hosts)
        # Processes behind one address have the same credentials, and so accept one another's tokens.
        self._key = secrets.token_bytes(32) if credentials is None else credentials.key
        self._bodies = Bodies(_ACTION_BYTES, together=20 * _ACTION_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        scope = {**scope, "headers": list(scope["headers"])}  # to which servers add what comes after a body
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
        except ClientGoneError:
            return
        state = {**scope.get("state", {}), "user": visitor.user, "csrf": visitor.csrf, "form": form}
        await self._app({**scope, "state": state}, receive, self._giving_token(scope, send, visitor))

    # -- who ----------------------------------------------------------------------------------------------------------

    def _visitor(self, scope: Scope) -> _Visitor:
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise _Refused(405, "Use GET or POST.", (b"allow", b"GET, HEAD, POST"))
        headers: Headers = scope["headers"]
        match = _HOST.fullmatch((header(headers, b"host") or b"").decode("latin-1"))
        if match is None:
            raise _Refused(400, "The request does not say which host it is for.")
        user = self._admitted(scope, match[1].lower())
        _refuse_strangers(scope)
        port = match[2]
        text = f"csrf\0{user}\0{root_of(scope)}".encode()
        token = hmac.new(self._key, text, hashlib.sha256).hexdigest()
        return _Visitor(user, token, f"interlock_csrf_{port}" if port else "interlock_csrf")

    def _admitted(self, scope: Scope, host: str) -> str:
        """The user; raises if this one may not come in."""
        headers: Headers = scope["headers"]
        known = is_loopback(host) or host in self._hosts
        if self._credentials is None:
            client = scope.get("client")
            if not client or not is_loopback(client[0]) or any(_FORWARDED.fullmatch(name) for name, _ in headers):
                raise _Refused(
                    403,
                    "Without credentials only this machine is served. Set INTERLOCK_WEB_CREDENTIALS=user:password, or "
                    "pass credentials= to app.web().",
                )
            if not known:
                raise _Refused(
                    403,
                    "Without credentials only localhost is served, and names in allowed_hosts=. Open it as "
                    "http://localhost, or set INTERLOCK_WEB_CREDENTIALS=user:password.",
                )
            return ""
        if self._hosts and not known:
            raise _Refused(403, "This name is not served. Add it to allowed_hosts=.")
        user = self._credentials.user(header(headers, b"authorization") or b"")
        if user is None:
            ask = (b"www-authenticate", b'Basic realm="Interlock", charset="UTF-8"')
            raise _Refused(401, "Say who you are: user and password are needed.", ask)
        return user

    # -- what they may do ---------------------------------------------------------------------------------------------

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(_ACTION_SECONDS):
                return await self._bodies.read(scope["headers"], receive)
        except BodyRefusedError as refused:
            raise _Refused(refused.status, refused.reason) from None
        except TimeoutError:
            raise _Refused(408, f"The body did not come within {_ACTION_SECONDS:g} s.") from None

    def _giving_token(self, scope: Scope, send: Send, visitor: _Visitor) -> Send:
        """Sends the cookie along with pages, to those who do not have it."""
        expected = visitor.csrf.encode()
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = (
            f"{visitor.cookie}={visitor.csrf}; Path={quote(root_of(scope)) or '/'}; HttpOnly; SameSite=Strict{secure}"
        ).encode()

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
    """In words, or as the API tells of errors."""
    more = [*refused.headers, *unread]
    if path_of(scope).startswith("/api/"):
        data = {"error": "refused", "message": refused.text, "remedy": ""}
        await answer_json(send, refused.status, data, more)
    else:
        await answer(send, refused.status, f"{refused.text}\n".encode(), more=more)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own, and cannot be anybody else's."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _checked_action(headers: Headers, body: bytes, visitor: _Visitor) -> dict[str, str]:
    """The form; refuses what another page made the browser send."""
    names = {name for name, _ in headers}
    form = _form(headers, body)
    # A program that brings its credentials. A browser would bring them along by itself, but never without a word
    # about where the request comes from.
    program = visitor.user and not names & {b"cookie", b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-mode"}
    if not program:
        _refuse_other_origins(headers)
        given = header(headers, b"x-csrf-token") or form.pop("csrf", "").encode()
        expected = visitor.csrf.encode()
        kept = _cookie(headers, visitor.cookie)
        if not (hmac.compare_digest(given, expected) and hmac.compare_digest(kept, expected)):
            raise _Refused(403, "The page this came from is out of date. Load it again, then repeat.")
    return form


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read once more."""
    messages = iter(({"type": "http.request", "body": body, "more_body": False},))

    async def again() -> Message:
        return next(messages, None) or await receive()

    return again


def _refuse_strangers(scope: Scope) -> None:
    """Refuse what a page elsewhere embeds or fetches. To follow a link to us is fine."""
    headers: Headers = scope["headers"]
    site = header(headers, b"sec-fetch-site")
    if site in (None, b"same-origin", b"none") or scope["method"] == "POST":  # which has a check of its own
        return
    if header(headers, b"sec-fetch-mode") != b"navigate" or header(headers, b"sec-fetch-dest") != b"document":
        raise _Refused(403, "Another site asked for this.")


def _refuse_other_origins(headers: Headers) -> None:
    """What a browser says about where an action comes from; without a word of it, nothing is done."""
    site, origin = header(headers, b"sec-fetch-site"), header(headers, b"origin")
    if site is not None:
        same = site == b"same-origin"
    else:
        # The scheme may differ from ours: a proxy in front of us may speak TLS.
        same = origin is not None and origin.partition(b"://")[2].lower() == (header(headers, b"host") or b"?").lower()
    if not same:
        raise _Refused(403, "Only pages of this dashboard, and programs that send credentials, may change anything.")


def _form(headers: Headers, body: bytes) -> dict[str, str]:
    """The fields of a form. One that comes twice is as good as none."""
    kind = (header(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return {}
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _cookie(headers: Headers, name: str) -> bytes:
    """The cookie's value; empty if it is not there."""
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
    raise InvalidArgumentError(  # without what it is, as that has passwords
        f"credentials is a {type(credentials).__name__}.", remedy='Pass Credentials({"ann": "…"}).'
    )


def _checked_hosts(hosts: Any) -> frozenset[str]:
    """Names of hosts; a text is one of them."""
    if isinstance(hosts, str):
        hosts = (hosts,)
    if not isinstance(hosts, Iterable):
        raise InvalidArgumentError(f"allowed_hosts is {hosts!r}.", remedy='Pass a list, such as ["dash.example.com"].')
    return _each_checked(hosts)


def _each_checked(hosts: Any) -> frozenset[str]:
    return frozenset(map(_checked_host, hosts))


def _checked_host(host: Any) -> str:
    match = _HOST.fullmatch(host) if isinstance(host, str) else None
    if match is None or match[2] is not None or "*" in host:
        raise InvalidArgumentError(
            f"{host!r} in allowed_hosts is no name of a host.",
            remedy="Use names such as dash.example.com, without a port.",
        )
    return match[1].lower()
