import hashlib

import pytest

from tooldispatchd.mcpface.web.guard import Credential, Guard, Head, RefusalError
from tooldispatchd.wire.webplaces import TokenIssuer, WebPlace

TOKENS = {"a": hashlib.sha256(b"one").hexdigest(), "b": hashlib.sha256(b"two").hexdigest()}
ISSUER = TokenIssuer("https://login.example", "tools", ("x",))


def guard(
    *, open_profile: str | None = None, tokens: dict[str, str] = TOKENS, issuer: TokenIssuer | None = None
) -> Guard:
    place = ("http://127.0.0.1:1/mcp", 4, "door", "http", "/mcp", ("localhost:1",), ("https://app.example",), tokens)
    return Guard(WebPlace(*place, open_profile, 1000, 1000, issuer=issuer))


def head(*headers: tuple[bytes, bytes], method: str = "POST", target: str = "/mcp") -> Head:
    return Head(method, target, ((b"host", b"localhost:1"), *headers))


def refusal(judge: Guard, asked: Head) -> RefusalError:
    with pytest.raises(RefusalError) as raised:
        judge.identify(asked)
    return raised.value


@pytest.mark.parametrize(("token", "profile"), [(b"one", "a"), (b"two", "b")])
@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER  "])
def test_a_token_names_its_profile(token: bytes, profile: str, scheme: bytes) -> None:
    found = guard().identify(head((b"authorization", scheme + token)))
    assert found == Credential(profile, "token", token.decode())


@pytest.mark.parametrize("value", [b"Bearer", b"Bearer ", b"Bearer three", b"Basic b25l", b"one", b"Bearer one two"])
def test_any_other_authorization_is_refused(value: bytes) -> None:
    assert refusal(guard(open_profile="c"), head((b"authorization", value))).status == 401


def test_without_a_token_the_open_profile_is_meant_if_there_is_one() -> None:
    assert guard(open_profile="c").identify(head()) == Credential("c", "")
    assert refusal(guard(), head()).headers == [("WWW-Authenticate", "Bearer")]


def test_a_token_where_no_profile_has_one_is_ignored() -> None:
    judge = guard(open_profile="c", tokens={})
    assert judge.identify(head((b"authorization", b"Bearer stale"))) == Credential("c", "")


def test_an_issuer_opens_nothing_without_its_token() -> None:
    assert refusal(guard(open_profile="c", issuer=ISSUER), head()).status == 401


def test_two_tokens_are_refused() -> None:
    asked = head((b"authorization", b"Bearer one"), (b"authorization", b"Bearer two"))
    assert refusal(guard(), asked).status == 400


def test_what_is_shown_of_a_credential_is_not_its_token() -> None:
    assert "one" not in repr(guard().identify(head((b"authorization", b"Bearer one"))))


@pytest.mark.parametrize("origin", [b"https://app.example", b"http://localhost:1", b"https://localhost:1"])
def test_listed_pages_and_its_own_may_ask(origin: bytes) -> None:
    guard().check_place(head((b"origin", origin)))


@pytest.mark.parametrize(("name", "status"), [(b"origin", 403), (b"host", 400)])
def test_others_may_not(name: bytes, status: int) -> None:
    with pytest.raises(RefusalError) as raised:
        guard().check_place(head((name, b"http://localhost:2")))
    assert raised.value.status == status


def test_metadata_of_a_place_without_an_issuer_is_not_there() -> None:
    asked = head(method="GET", target="/.well-known/oauth-protected-resource")
    assert guard().metadata(asked) is None
    assert b'"resource":"http://localhost:1/mcp"' in (guard(issuer=ISSUER).metadata(asked) or b"")
