"""What servers say on the way to a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.http.oauth.endpoint import read_document
from tooldispatchd.providers.mcp.oauth.documents import (
    AuthorizationServer,
    Challenge,
    ProtectedResource,
    RegisteredClient,
    missing_scopes,
    read_challenge,
    read_registration,
    union,
)


def test_a_challenge_says_what_is_wanted_and_where_to_get_it() -> None:
    header = 'Bearer realm="x", error="insufficient_scope", scope="a b", resource_metadata="https://a/.well-known/x"'
    challenge = read_challenge(403, header)
    assert challenge == Challenge(403, "insufficient_scope", "a b", "https://a/.well-known/x")
    assert challenge.asks_for_more


def test_words_without_quotes_are_read_too() -> None:
    assert read_challenge(401, "Bearer error=invalid_token, scope=a").scope == "a"


def test_a_401_asks_for_no_more() -> None:
    assert not read_challenge(401, 'Bearer error="insufficient_scope"').asks_for_more


def test_of_two_that_contradict_each_other_the_first_counts() -> None:
    assert read_challenge(401, 'Bearer scope="a", Bearer scope="b"').scope == "a"


def test_a_scope_that_is_none_is_left_out() -> None:
    assert read_challenge(401, 'Bearer scope="a\\"').scope is None


def test_no_header_says_nothing() -> None:
    assert read_challenge(401, "") == Challenge(401)


@given(
    st.one_of(
        st.text(max_size=5000),
        st.lists(
            st.sampled_from(
                ["Bearer ", "scope", "error", "=", '"', ", ", "é", "\\", "a", "\n", " ", "resource_metadata"]
            ),
            max_size=60,
        ).map("".join),
    )
)
def test_any_text_gives_a_challenge_in_visible_ascii(header: str) -> None:
    challenge = read_challenge(401, header)
    for said in (challenge.error, challenge.scope, challenge.resource_metadata):
        assert said is None or (said.isascii() and said.isprintable())
    assert union(challenge.scope) == (None if challenge.scope is None else union(*challenge.scope.split(" ")))


def test_scopes_are_joined_in_order_and_each_once() -> None:
    assert union("a b", None, "b c", "") == "a b c"
    assert union(None, "") is None


def test_a_scope_is_missing_where_it_was_not_granted() -> None:
    assert missing_scopes("a b", "b") == ()
    assert missing_scopes("a", "c a b c") == ("c", "b")
    assert missing_scopes(None, "a") == ("a",)
    assert missing_scopes("a", None) == ()


@pytest.mark.parametrize(
    ("resource", "covers"),
    [
        ("https://a.example/api", True),
        ("https://A.example:443/api/", True),
        ("https://a.example", True),
        ("https://a.example/ap", False),
        ("https://a.example/api/mcp/x", False),
        ("http://a.example/api", False),
        ("https://b.example/api", False),
    ],
)
def test_a_resource_covers_its_own_path_and_what_is_below_it(resource: str, *, covers: bool) -> None:
    found = ProtectedResource(resource, ("https://auth.example",))
    assert found.covers("https://a.example/api/mcp?key=x") is covers


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///x", "http://[", "https://me:secret@a.example/", ""])
def test_a_document_with_what_is_no_address_is_none(url: str) -> None:
    page = f'{{"issuer":"https://a","authorization_endpoint":"{url}","token_endpoint":"https://a/token"}}'
    assert read_document(page.encode(), AuthorizationServer) is None
    resource = f'{{"resource":"https://a","authorization_servers":["https://b","{url}"]}}'
    assert read_document(resource.encode(), ProtectedResource) is None


def test_a_resource_without_an_authorization_server_is_none() -> None:
    assert read_document(b'{"resource":"https://a","authorization_servers":[]}', ProtectedResource) is None


def test_a_registration_is_of_its_issuer_and_empty_members_are_left_out() -> None:
    body = b'{"client_id":"c","client_secret":"","redirect_uris":null,"issuer":"https://other","scope":5}'
    assert read_registration(body, "https://a") == RegisteredClient(client_id="c", issuer="https://a")


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"client_id":5}', b"\xff", b'{"client_id":"c","redirect_uris":"x"}'])
def test_what_is_no_registration_is_none(body: bytes) -> None:
    assert read_registration(body, "https://a") is None


@pytest.mark.parametrize(
    ("said", "usable"),
    [
        ("", True),
        (',"token_endpoint_auth_method":"none"', True),
        (',"token_endpoint_auth_method":"client_secret_basic","client_secret":"s"', True),
        (',"token_endpoint_auth_method":"client_secret_post"', False),
        (',"token_endpoint_auth_method":"private_key_jwt","client_secret":"s"', False),
    ],
)
def test_a_client_that_the_daemon_cannot_be_is_none(said: str, *, usable: bool) -> None:
    client = read_registration(f'{{"client_id":"c"{said}}}'.encode(), "https://a")
    assert (client is not None) is usable
