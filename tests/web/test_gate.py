"""Who may see the dashboard, and what browsers are told."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import App
from interlock.errors import InvalidArgumentError
from interlock.web import Credentials
from interlock.web.security import is_loopback
from tests.web.client import ask
from tests.web.gatehouse import SAME, USERS, basic, made

# -- without credentials -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:8080"])
async def test_this_machine_sees_everything_without_credentials(client: str, host: str) -> None:
    assert (await ask(made(), client=(client, 1), host=host)).status == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/stream", "/style", "/nothing"])
@pytest.mark.parametrize(
    "client", [("192.168.0.7", 1), ("203.0.113.9", 1), ("::ffff:10.0.0.1", 1), ("", 1), ("x", 1), None]
)
async def test_others_see_nothing_without_credentials(path: str, client: tuple[str, int] | None) -> None:
    answer = await ask(made(), path=path, client=client)
    assert answer.status == 403
    assert "INTERLOCK_WEB_CREDENTIALS" in answer.text


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Forwarded-Port"),
        *("Forwarded", "X-Real-IP", "Via", "CF-Connecting-IP", "CF-Ray", "True-Client-IP"),
    ],
)
async def test_who_comes_through_a_proxy_is_not_this_machine(header: str) -> None:
    assert (await ask(made(), headers=[(header, "127.0.0.1")])).status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", "127.1", "[::2]"],
)
async def test_a_name_that_could_be_anybodys_is_refused(host: str) -> None:
    """A page at evil.example that has its name lead here (DNS rebinding) reads nothing."""
    answer = await ask(made(), host=host)
    assert answer.status == 403
    assert "localhost" in answer.text


@pytest.mark.parametrize("host", [None, "", "a b", "localhost:port", "localhost@evil", "local/host", "[::1", "é" * 3])
async def test_a_host_that_is_none_is_refused(host: str | None) -> None:
    assert (await ask(made(), host=host)).status in (400, 403)


async def test_two_hosts_are_none() -> None:
    assert (await ask(made(), headers=[("Host", "evil.example")], host="localhost")).status == 400


async def test_further_names_can_be_allowed() -> None:
    web = made(None, "Dash.internal")
    assert (await ask(web, host="dash.internal:80")).status == 200
    assert (await ask(web, host="localhost")).status == 200
    assert (await ask(web, host="other.internal")).status == 403
    assert (await ask(web, host="dash.internal", client=("10.0.0.1", 1))).status == 403


@pytest.mark.parametrize("host", ["*", "*.example.com", "a:80", "http://a", "", "a b", 7])
def test_what_is_no_name_of_a_host_is_not_allowed(host: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed_hosts"):
        made(None, host)


async def test_one_name_may_be_passed_as_it_is() -> None:
    web = App("memory://").web(allowed_hosts="dash.internal")
    assert (await ask(web, host="dash.internal")).status != 403
    assert (await ask(web, host="d")).status == 403
    with pytest.raises(InvalidArgumentError, match="Invalid allowed_hosts 7"):
        App("memory://").web(allowed_hosts=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"ann": "hidden"}, {}, "ann:hidden", 7])
def test_what_are_no_credentials_is_refused_and_not_shown(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid credentials of type") as refused:
        App("memory://").web(credentials=wrong)
    assert "hidden" not in str(refused.value)


# -- with credentials --------------------------------------------------------------------------------------------------


async def test_credentials_let_in_from_anywhere() -> None:
    web = made(USERS)
    for user in ("ann:päss:wörd", "bob:b"):
        answer = await ask(web, headers=[basic(user)], client=("203.0.113.9", 1), host="dash.example.com")
        assert answer.status == 200
        assert answer.text.startswith(user.partition(":")[0])


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic YW5uOg",
        "Bearer YW5uOnA=",
        basic("ann:wrong")[1],
        basic("ann:b")[1],
        basic("bob:")[1],
        basic(":b")[1],
        basic("bob")[1],
        basic("BOB:b")[1],
        basic(b"\xff\xfe:\x00")[1],
        basic("bob:" + "b" * 100_000)[1],
        b"Basic \xff\xfe",
        "Basic " + basic("bob:b")[1],
    ],
)
async def test_wrong_credentials_are_asked_again(given: Any) -> None:
    """Also on this machine."""
    answer = await ask(made(USERS), headers=[] if given is None else [("Authorization", given)])
    assert answer.status == 401
    assert answer.header("www-authenticate") == 'Basic realm="Interlock", charset="UTF-8"'


async def test_credentials_given_twice_are_none() -> None:
    assert (await ask(made(USERS), headers=[basic("bob:b"), basic("bob:x")])).status == 401


async def test_allowed_hosts_bind_with_credentials_too() -> None:
    web = made(USERS, "dash.example.com")
    assert (await ask(web, headers=[basic("bob:b")], host="dash.example.com")).status == 200
    assert (await ask(web, headers=[basic("bob:b")], host="else.example.com")).status == 403


async def test_health_and_webhooks_ask_for_no_credentials() -> None:
    web = made(USERS)
    web.app.is_open = False  # type: ignore[misc]
    assert (await ask(web, path="/health", client=("203.0.113.9", 1), host="10.1.2.3")).status == 503
    assert (await ask(web, "POST", "/webhooks/github", client=("203.0.113.9", 1), host="x")).status == 202


def test_credentials_are_read_one_a_line() -> None:
    users = Credentials.parse("# ours\n\nann:päss:wörd\r\n  bob:b\n")
    assert repr(users) == "Credentials(ann, bob)"
    assert users.user(basic("ann:päss:wörd")[1].encode()) == "ann"
    assert users.key == USERS.key != Credentials({"bob": "b"}).key


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_blanks_at_its_end_belong_to_a_password(end: str) -> None:
    users = Credentials.parse(f"ann: a  {end}")
    assert users.user(basic("ann: a  ")[1].encode()) == "ann"
    assert users.user(basic("ann: a")[1].encode()) is None


@pytest.mark.parametrize("sign", ["x", "é", "🔒"])
def test_whatever_is_accepted_lets_in(sign: str) -> None:
    longest = sign * (1024 // len(sign.encode()))
    users = Credentials({longest: longest})
    assert users.user(basic(f"{longest}:{longest}")[1].encode()) == longest
    for user, password in ((longest + sign, "b"), ("ann", longest + sign)):
        with pytest.raises(InvalidArgumentError):
            Credentials({user: password})


@pytest.mark.parametrize(
    "text", ["", "\n# a:b\n", "secret", ":secret", "ann:", "ann:secret\nann:secret", "a\x00:secret"]
)
def test_credentials_that_are_none_are_refused_without_telling_them(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Credentials.parse(text)
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("INTERLOCK_WEB_CREDENTIALS", text.replace("\x00", "\x01"))
    with pytest.raises(InvalidArgumentError, match="INTERLOCK_WEB_CREDENTIALS"):
        Credentials.from_environment()


def test_credentials_come_from_the_environment_or_a_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_WEB_CREDENTIALS", raising=False)
    assert Credentials.from_environment() is None
    monkeypatch.setenv("INTERLOCK_WEB_CREDENTIALS", "ann:x")
    assert repr(Credentials.from_environment()) == "Credentials(ann)"
    file = tmp_path / "users"
    file.write_text("bob:y\n")
    assert repr(Credentials.from_file(file)) == "Credentials(bob)"
    for bad in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InvalidArgumentError, match="cannot be read"):
            Credentials.from_file(bad)
    file.write_bytes(b"\xff\xfe:x")
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        Credentials.from_file(file)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "post", ""])
async def test_other_methods_are_not_taken(method: str) -> None:
    assert (await ask(made(), method, "/act", [SAME])).status == 405


@pytest.mark.parametrize("root", ["", "/prefix"])
async def test_programs_are_refused_in_json(root: str) -> None:
    for web, method, status in ((made(USERS), "GET", 401), (made(), "POST", 403), (made(), "PUT", 405)):
        answer = await ask(web, method, "/api/jobs", root_path=root)
        assert (answer.status, answer.header("content-type")) == (status, "application/json")
        assert set(answer.json) == {"error", "message", "remedy"}
        assert answer.json["error"] == "refused"
    assert (await ask(made(USERS), path="/api/jobs")).header("www-authenticate")


# -- other sites -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/metrics", "/stream"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("mode", "dest"), [("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")])
async def test_other_sites_can_embed_nothing(path: str, site: str, mode: str, dest: str) -> None:
    headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)]
    assert (await ask(made(), path=path, headers=headers)).status == 403


async def test_other_sites_can_link_to_us() -> None:
    headers = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    assert (await ask(made(), headers=headers)).status == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/health", "/fail", "/nothing"])
async def test_every_answer_tells_browsers_what_they_may_do(path: str) -> None:
    web = made()
    web.app.is_open = False  # type: ignore[misc]
    try:
        answer = await ask(web, path=path)
    except RuntimeError:
        assert path == "/fail"  # passed on to the server's log, after the answer
        return
    policy = answer.header("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "same-origin"
    assert answer.header("cache-control") == "no-store"


async def test_what_has_a_cache_policy_of_its_own_keeps_it() -> None:
    assert (await ask(made(), path="/style")).header("cache-control") == "max-age=9"


async def test_a_refusal_is_dressed_too() -> None:
    answer = await ask(made(), client=("10.0.0.1", 1))
    assert "default-src 'none'" in (answer.header("content-security-policy") or "")


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("Localhost.", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("", False),
        ("::ffff:127.0.0.1", True),
    ],
)
def test_what_counts_as_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own
