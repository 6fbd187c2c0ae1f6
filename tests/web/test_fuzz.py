"""5,000 requests, half nonsense and half nearly right: none is answered with 500, and nothing unsigned is stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from interlock import App, Event, GitHub, Hmac
from tests.web.client import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECRETS = {"github": b"first secret", "forge": b"second secret"}
ALLOWED = {200, 202, 400, 401, 404, 405, 408, 413, 422}
TEXTS = [
    "",
    "a",
    "é",
    "\x00",
    "\ud800",
    "{repository}",
    "<script>",
    "\U0001f512" * 50,
    "'; drop table",
    "\u202e",
    "a" * 5000,
]
SHAPES: list[Any] = [None, True, 0, -1, 1.5, 10**30, [], {}, [[]], "text", {"a": {"b": {"c": 1}}}]
KINDS = ["application/x-www-form-urlencoded", "text/plain", b"\xff", ""]
BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"NaN",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": 1, "a": 2}',
    b'{"a": "\\ud800"}',
    b'{"a": "\\u0000"}',
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"a": ' + b"9" * 5000 + b"}",
    b"payload=%7B%7D",
    b"payload=%7B%7D&payload=%7B%7D",
    b"payload=%ff%fe",
    b"payload",
]


class Fuzz:
    """Makes requests, and remembers which of them were signed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.signed: set[tuple[str, str]] = set()
        self.number = 0

    def request(self) -> dict[str, Any]:
        self.number += 1
        pick = self.dice.choice
        source = pick(["github", "github", "forge"])
        path = f"/webhooks/{source}" if self.dice.random() < 0.9 else self.path()
        body = self.body()
        headers = self.headers(source, body)
        pieces: bytes | list[bytes] = body
        if self.dice.random() < 0.2:
            cut = sorted(self.dice.randrange(len(body) + 1) for _ in range(self.dice.randrange(4)))
            pieces = [body[a:b] for a, b in zip([0, *cut], [*cut, len(body)], strict=True)]
        how = self.dice.random()
        return {
            "method": "POST" if self.dice.random() < 0.95 else pick(["GET", "PUT", "HEAD", "", "PÖST", "OPTIONS"]),
            "path": path,
            "headers": headers,
            "body": pieces,
            "leaves": how < 0.02,
            "client": pick([("127.0.0.1", 1), ("10.0.0.1", 1), None]),
            "host": pick(["localhost", "evil.example", "", None]),
            "root_path": pick(["", "", "", "/prefix"]),
        }

    def mostly(self, usual: Any, *odd: Any) -> Any:
        return usual if self.dice.random() < 0.85 else self.dice.choice(odd)

    def path(self) -> str:
        pick = self.dice.choice
        begin = pick(
            ["/webhooks/", "/", "", "/webhooks", "/health", "/metrics", "/jobs/", "/api/jobs/", "//", "/static/"]
        )
        return begin + pick([*TEXTS, "github", "..", "../../etc/passwd", "%00", "?a=b", "github/"]).replace("?", "")

    def body(self) -> bytes:
        if self.dice.random() < 0.2:
            return self.mutated(self.dice.choice(BODIES))
        payload: dict[str, Any] = {
            "action": self.mostly("opened", *TEXTS, *SHAPES),
            "sender": self.mostly({"login": self.mostly("ann", "mybot[bot]", *TEXTS, *SHAPES)}, *SHAPES),
            "repository": self.mostly({"full_name": self.mostly("o/r", *TEXTS, *SHAPES)}, *SHAPES),
            "issue": self.mostly({"number": self.mostly(7, *TEXTS, *SHAPES)}, *SHAPES),
            "number": self.number,
        }
        for key in list(payload):
            if self.dice.random() < 0.1:
                del payload[key]
        text = json.dumps(payload, ensure_ascii=self.dice.random() < 0.5).encode("utf-8", "surrogatepass")
        return text if self.dice.random() < 0.7 else self.mutated(text)

    def mutated(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for _ in range(self.dice.randrange(4)):
            where = self.dice.randrange(len(changed) + 1)
            changed[where : where + self.dice.randrange(3)] = self.dice.randbytes(self.dice.randrange(3))
        return bytes(changed)

    def headers(self, source: str, body: bytes) -> list[tuple[str, str | bytes]]:
        pick = self.dice.choice
        right = "sha256=" + hmac.new(SECRETS[source], body, hashlib.sha256).hexdigest()
        other = "sha256=" + hmac.new(b"third secret", body, hashlib.sha256).hexdigest()
        wrong: Sequence[str | bytes | None] = [
            *(None, "", "sha256=", right[:-1], right + "0", right.replace("sha256", "sha1"), other, other.upper()),
            *("é" * 64, b"\xff" * 64, b"sha256=\xe2\x82\xac", "sha256=" + "0" * 64, "sha256=" + "z" * 64),
        ]
        signature = right if self.dice.random() < 0.6 else pick(wrong)
        name = f"{self.mostly('d', 'é', 'x' * 300)}-{self.number}" if self.dice.random() < 0.9 else pick(["", "same"])
        github = source == "github"
        headers: list[tuple[str, str | bytes]] = [
            (
                "Content-Type",
                self.mostly("application/json", *KINDS),
            ),
            (
                "X-GitHub-Event" if github else "X-Event",
                self.mostly("issues", "ping", "", "a.b", "é", "*", "x" * 500, b"\xff"),
            ),
            ("X-GitHub-Delivery" if github else "X-Delivery-Id", name.encode("latin-1")),
        ]
        if signature is not None:
            headers.append(("X-Hub-Signature-256" if github else "X-Signature-256", signature))
        if self.dice.random() < 0.1:
            headers.append(("Content-Length", pick(["-1", "x", "5000001", "9" * 50, "", b"\xb2", str(len(body))])))
        if self.dice.random() < 0.1:
            del headers[self.dice.randrange(len(headers))]
        if signature == right:
            self.signed.add((source, name))
        self.dice.shuffle(headers)
        return headers


def bot(address: str) -> App:
    app = App(address)
    app.source(GitHub(SECRETS["github"].decode(), own=("mybot[bot]",)))
    app.source(Hmac("forge", SECRETS["forge"].decode(), type="header:X-Event", actor="body:sender.login"))

    @app.on("github.**", lane="{repository.full_name}#{issue.number}", ignore="a")
    async def triage(event: Event) -> None: ...

    @app.on("forge.*", lane=lambda event: event.payload["repository"]["full_name"])
    async def other(event: Event) -> None: ...

    return app


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_that_comes_in_is_answered_with_500_or_stored_unsigned(
    seed: int, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fuzz = Fuzz(seed)
    app = bot(f"sqlite:///{tmp_path}/a.db" if seed == 0 else "memory://")
    seen: dict[int, int] = {}
    async with app:
        web = app.web(dashboard=False)
        for _ in range(40):
            requests = [fuzz.request() for _ in range(25)]
            answers = await asyncio.gather(*(ask(web, **request) for request in requests))
            for request, answer in zip(requests, answers, strict=True):
                seen[answer.status] = seen.get(answer.status, 0) + 1
                webhook = request["path"].startswith("/webhooks/")
                gone = answer.status == 0 and request["leaves"]
                assert gone or answer.status in (ALLOWED if webhook else {*ALLOWED, 308, 403}), request
                if webhook and not gone:
                    assert answer.json["status"] in ("accepted", "duplicate", "ignored", "refused")
                    assert answer.json["status"] != "refused" or answer.status >= 400
        stored = await all_events(app.events.list)
    assert {(event.source, event.delivery) for event in stored} <= fuzz.signed
    assert len(stored) == seen[202]
    assert {202, 200, 400, 401, 404, 405, 413, 422} <= set(seen)  # the fuzz reaches every way out
    assert not any(secret.decode() in caplog.text for secret in SECRETS.values())


async def all_events(look: Callable[..., Any]) -> list[Any]:
    found: list[Any] = []
    while page := await look(limit=500, before=found[-1].id if found else None):
        found += page
    return found


KINDS_OF_PAGES = [
    "jobs",
    "lanes",
    "locks",
    "limits",
    "claims",
    "events",
    "workers",
    "overview",
    "explain/job",
    "static",
]
NAMES = [
    "state",
    "name",
    "queue",
    "lane",
    "limit",
    "before",
    "after",
    "source",
    "type",
    "actor",
    "act",
    "reason",
    "csrf",
]
VALUES = [
    *(
        "",
        "0",
        "-1",
        "1",
        "9" * 30,
        "1e5",
        "٣",
        "a",
        "é",
        "\x00",
        "\ud800",
        "../..",
        "'\"><script>",
        "{{7*7}}",
        "%",
        "%00",
    ),
    *(
        "running",
        "done",
        "retry",
        "cancel",
        "hold",
        "release",
        "forget",
        "replay",
        "a/b",
        "a#b?c",
        "x" * 3000,
        "\u202e\n",
    ),
]


async def test_no_page_answers_nonsense_with_500() -> None:
    dice = random.Random(7)
    app = bot("memory://")
    seen: dict[int, int] = {}
    async with app:
        web = app.web()
        cookie = ((await ask(web, path="/jobs")).header("set-cookie") or "").partition(";")[0]
        for number in range(1500):
            kind, value = dice.choice(KINDS_OF_PAGES), dice.choice(VALUES).replace("?", "")
            path = dice.choice([f"/{kind}", f"/{kind}/{value}", f"/api/{kind}", f"/api/{kind}/{value}", f"/{value}"])
            fields = [(dice.choice(NAMES), dice.choice(VALUES)) for _ in range(dice.randrange(4))]
            text = urlencode(fields, errors="surrogatepass")
            headers: list[tuple[str, str | bytes]] = [("Content-Type", "application/x-www-form-urlencoded")]
            if dice.random() < 0.1:
                headers.append((dice.choice(["Accept", "HX-Request", "Cookie", "Range", "Content-Type"]), b"\xff\x01"))
            if dice.random() < 0.5:
                answer = await ask(web, "GET", f"{path}?{text}", headers)
            else:
                headers += [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin")]
                headers += [("X-CSRF-Token", cookie.partition("=")[2])]
                answer = await ask(web, "POST", path, headers, text.encode())
            seen[answer.status] = seen.get(answer.status, 0) + 1
            assert answer.status < 500, (number, path, fields, answer.text[:200])
    assert {200, 400, 404, 405} <= set(seen)
