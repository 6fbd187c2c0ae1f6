"""What sources take and refuse, and that no secret of theirs is ever shown."""

from __future__ import annotations

import hmac
import json
import re
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from interlock import GitHub, Hmac
from interlock.errors import InvalidArgumentError, MalformedEventError, SignatureError
from interlock.testing.conformance.events.apps import SECRET, delivery, issue

VECTOR = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
"""What GitHub publishes for the secret above and the body ``Hello, World!``."""


def signed(body: bytes, secret: str = SECRET, prefix: str = "sha256=") -> str:
    return prefix + hmac.new(secret.encode(), body, "sha256").hexdigest()


class TestSignatures:
    def test_githubs_published_vector_fits(self) -> None:
        GitHub(SECRET).verify({"X-Hub-Signature-256": VECTOR}, b"Hello, World!")
        Hmac("hook", SECRET, signature="X-Hub-Signature-256").verify({"x-hub-signature-256": VECTOR}, b"Hello, World!")

    @pytest.mark.parametrize(
        "signature",
        [
            None,
            "",
            "sha256=",
            "sha256=" + "0" * 64,
            VECTOR[:-1],
            VECTOR + "0",
            VECTOR.upper(),
            VECTOR.removeprefix("sha256="),
            "sha1=" + VECTOR.removeprefix("sha256="),
            " " + VECTOR,
            "sha256=ü" + "0" * 63,
            "sha256=\udcff",
            "sha256=\N{FULLWIDTH DIGIT SEVEN}" + VECTOR[8:],
            "x" * 100_000,
            "\0",
        ],
        ids=repr,
    )
    def test_any_other_signature_is_refused(self, signature: str | None) -> None:
        headers = {} if signature is None else {"X-Hub-Signature-256": signature}
        with pytest.raises(SignatureError) as refused:
            GitHub(SECRET).verify(headers, b"Hello, World!")
        assert VECTOR not in str(refused.value)
        assert SECRET not in str(refused.value)

    def test_it_is_the_bytes_that_are_signed(self) -> None:
        body = b'{"a": "\xc3\xa4"}'
        source = GitHub(SECRET)
        source.verify({"X-Hub-Signature-256": signed(body)}, body)
        for other in (b'{"a":"\xc3\xa4"}', body + b"\n", b"\xef\xbb\xbf" + body, b'{"a": "\\u00e4"}'):
            with pytest.raises(SignatureError):
                source.verify({"X-Hub-Signature-256": signed(body)}, other)

    def test_several_secrets_are_known_while_one_takes_the_place_of_another(self) -> None:
        for source in (GitHub(secrets=["new", "old"]), GitHub(secrets=(b"new", b"old"))):
            for secret in ("new", "old"):
                source.verify({"X-Hub-Signature-256": signed(b"body", secret)}, b"body")
            with pytest.raises(SignatureError):
                source.verify({"X-Hub-Signature-256": signed(b"body", "older")}, b"body")

    @pytest.mark.parametrize("how", [{}, {"secret": ""}, {"secret": "  "}, {"secret": None}, {"secrets": []}])
    @pytest.mark.parametrize("kind", [GitHub, lambda **how: Hmac("hook", **how)])
    def test_without_a_secret_there_is_no_source(self, kind: Any, how: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match="secret"):
            kind(**how)

    @pytest.mark.parametrize(
        "how", [{"secret": "a", "secrets": ["b"]}, {"secrets": "abc"}, {"secrets": ["a", ""]}, {"secrets": [None]}]
    )
    def test_secrets_that_may_be_meant_otherwise_are_refused(self, how: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match="secret"):
            GitHub(**how)

    def test_no_secret_is_shown(self) -> None:
        canary = "canary-5f2c"
        for source in (GitHub(canary), GitHub(secrets=[canary, "other"]), Hmac("hook", canary)):
            assert canary not in repr(source)
            assert canary not in str(vars(source))
            with pytest.raises(SignatureError) as refused:
                source.verify({"x-signature-256": "sha256=00", "x-hub-signature-256": "sha256=00"}, b"body")
            assert canary not in str(refused.value)
        with pytest.raises(InvalidArgumentError) as wrong:
            GitHub(secret=canary, secrets=[canary])
        assert canary not in str(wrong.value)


class TestGitHub:
    def read(self, payload: Any, kind: str = "issues", **headers: str | None) -> Any:
        given, body = delivery(payload, "guid-1", kind)
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return GitHub(SECRET).read({k: v for k, v in (given | changed).items() if v is not None}, body)

    def test_a_delivery_is_read(self) -> None:
        incoming = self.read(issue())

        assert incoming[:4] == ("guid-1", "issues.opened", "ann", issue())
        assert json.loads(incoming.text) == issue()
        assert incoming.ignored == ""

    def test_headers_are_found_whatever_their_case(self) -> None:
        headers, body = delivery(issue(), "guid-1")
        shouted = {name.upper(): value for name, value in headers.items()}
        titled = {name.title(): value for name, value in headers.items()}
        for given in (shouted, titled):
            GitHub(SECRET).verify(given, body)
            assert GitHub(SECRET).read(given, body).delivery == "guid-1"

    def test_an_event_without_an_action_has_a_shorter_type(self) -> None:
        assert self.read({"ref": "refs/heads/main"}, "push").type == "push"
        assert self.read({"action": None}, "push").type == "push"
        assert self.read({"action": ""}, "push").type == "push"

    def test_who_acted_may_not_be_known(self) -> None:
        for sender in ({}, {"sender": None}, {"sender": "ann"}, {"sender": {"login": None}}, {"sender": []}):
            assert self.read(sender, "push").actor == ""

    def test_a_ping_only_asks_for_an_answer(self) -> None:
        assert self.read({"zen": "Keep it logically awesome.", "hook_id": 1}, "ping").ignored

    def test_a_form_is_read_too(self) -> None:
        payload = issue(title="50 % & more = ü")
        body = urlencode({"payload": json.dumps(payload)}).encode()
        for kind in ("application/x-www-form-urlencoded", "Application/X-WWW-Form-URLencoded; charset=utf-8"):
            headers = delivery(body, "guid-1")[0] | {"content-type": kind}
            assert GitHub(SECRET).read(headers, body).payload == payload

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"payload",
            b"payload=",
            b"other=%7B%7D",
            b"payload=%7B%7D&payload=%7B%7D",
            b"payload=%FF%FE",
            b"payload=%7B%7D%00",
            b"payload={}\xff",
            b"&".join([b"a=1"] * 1000) + b"&payload=%7B%7D",
            quote("payload={}").encode(),
        ],
    )
    def test_a_form_that_is_none_is_refused(self, body: bytes) -> None:
        headers = delivery(body, "guid-1")[0] | {"content-type": "application/x-www-form-urlencoded"}
        with pytest.raises(MalformedEventError):
            GitHub(SECRET).read(headers, body)

    @pytest.mark.parametrize(
        "headers",
        [
            {"x_github_delivery": None},
            {"x_github_delivery": ""},
            {"x_github_delivery": "g" * 201},
            {"x_github_delivery": "a\nb"},
            {"x_github_delivery": "a\0b"},
            {"x_github_event": None},
            {"x_github_event": ""},
            {"x_github_event": "e" * 201},
            {"x_github_event": "\x7f"},
        ],
    )
    def test_headers_that_are_missing_or_strange_are_refused(self, headers: dict[str, str | None]) -> None:
        with pytest.raises(MalformedEventError):
            self.read(issue(), **headers)

    @pytest.mark.parametrize("action", [1, True, ["opened"], {"a": 1}, "a\tb", "x" * 300])
    def test_an_action_that_is_no_word_is_refused(self, action: object) -> None:
        with pytest.raises(MalformedEventError):
            self.read({"action": action})

    @pytest.mark.parametrize("login", ["a\nb", "x" * 201, ["ann"], {"x": 1}])
    def test_a_login_that_cannot_be_kept_is_refused(self, login: object) -> None:
        with pytest.raises(MalformedEventError):
            self.read({"sender": {"login": login}})

    @pytest.mark.parametrize("name", ["", "Git Hub", "git.hub", "git/hub", "x" * 64, None, "-hub", "HUB"])
    def test_a_name_that_no_address_could_have_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            GitHub(SECRET, name=name)

    @pytest.mark.parametrize("own", [[""], [None], 7, {"a": 1}, [" "], ["a\nb"]])
    def test_own_names_actors(self, own: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="own"):
            GitHub(SECRET, own=own)
        for name in ("MyBot[bot]", " MyBot[bot]\n"):
            assert GitHub(SECRET, own=name).own == {"mybot[bot]"}

    def test_own_events_are_told_by_their_actor(self) -> None:
        with pytest.raises(InvalidArgumentError, match="actor"):
            Hmac("hook", SECRET, own=["robot"])


class TestHmac:
    BODY = json.dumps({"event": {"kind": "order.paid", "id": 17}, "user": {"name": "bob"}}).encode()

    def test_a_sender_says_in_headers_what_happened(self) -> None:
        source = Hmac("shop", SECRET, actor="X-User")
        headers = {
            "X-Signature-256": signed(self.BODY),
            "X-Delivery-Id": "d1",
            "X-Event": "order.paid",
            "X-User": "bob",
        }
        source.verify(headers, self.BODY)

        assert source.read(headers, self.BODY)[:3] == ("d1", "order.paid", "bob")

    def test_a_sender_says_in_the_body_what_happened(self) -> None:
        source = Hmac(
            "shop",
            SECRET,
            signature="header:X-Shop-Hmac",
            prefix="",
            delivery="body:event.id",
            type="body:event.kind",
            actor="body:user.name",
            own=["robot"],
        )
        source.verify({"x-shop-hmac": signed(self.BODY, prefix="")}, self.BODY)

        assert source.read({}, self.BODY)[:3] == ("17", "order.paid", "bob")
        assert source.own == {"robot"}
        with pytest.raises(SignatureError):
            source.verify({"x-shop-hmac": signed(self.BODY)}, self.BODY)

    def test_what_has_to_be_there_is_missed(self) -> None:
        source = Hmac("shop", SECRET, type="body:event.kind", delivery="body:event.id", actor="body:user.name")
        for payload, what in (
            ({}, "event.id"),
            ({"event": {"id": 1}}, "event.kind"),
            ({"event": {"id": True, "kind": "k"}}, "event.id"),
            ({"event": {"id": [1], "kind": "k"}}, "event.id"),
            ({"event": {"id": 10**300, "kind": "k"}}, "event.id"),
            ({"event": {"id": 1, "kind": "k"}, "user": {"name": {}}}, "user.name"),
            ({"event": [], "kind": "k"}, "event.id"),
        ):
            with pytest.raises(MalformedEventError, match=re.escape(what)):
                source.read({}, json.dumps(payload).encode())
        assert source.read({}, b'{"event": {"id": 1, "kind": "k"}}').actor == ""

    @pytest.mark.parametrize(
        "how",
        [
            {"type": "query:x"},
            {"type": "body:"},
            {"type": "body:a..b"},
            {"type": ""},
            {"type": 7},
            {"delivery": "header:"},
            {"signature": "body:signature"},
            {"signature": "X-Ünsigned"},
            {"prefix": "sha256\N{EN DASH}"},
        ],
    )
    def test_a_place_that_does_not_exist_is_refused(self, how: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            Hmac("shop", SECRET, **how)
