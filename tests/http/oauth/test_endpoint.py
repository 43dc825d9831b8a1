"""What goes to a token endpoint, and what comes back."""

import pytest

from tooldispatchd.http.oauth.endpoint import EndpointAnswer, GivenToken, read_document, token_request


def test_a_lifetime_may_be_written_as_text() -> None:
    token = read_document(b'{"access_token":"a","token_type":"bearer","expires_in":"3600"}', GivenToken)
    assert token is not None
    assert token.refresh_at(1000.0) == 4590.0


@pytest.mark.parametrize("lifetime", [None, 0, -1, 1e9])
def test_a_lifetime_that_is_none_has_no_end(lifetime: float | None) -> None:
    assert GivenToken("a", expires_in=lifetime).refresh_at(1000.0) is None


def test_a_short_lifetime_is_used_for_most_of_it() -> None:
    assert GivenToken("a", expires_in=4).refresh_at(1000.0) == 1003.0


@pytest.mark.parametrize(
    ("method", "secret", "headers", "body"),
    [
        ("client_secret_basic", "p:?", [("Authorization", "Basic bWUlM0E6cCUzQSUzRg==")], b"a=b"),
        ("client_secret_post", "p:?", [], b"a=b&client_id=me%3A&client_secret=p%3A%3F"),
        ("client_secret_basic", None, [], b"a=b"),
    ],
)
def test_a_client_shows_its_secret_as_it_is_told_to(
    method: str, secret: str | None, headers: list[tuple[str, str]], body: bytes
) -> None:
    asked = token_request({"a": "b"}, "me:", secret, method)
    assert asked == ([("Content-Type", "application/x-www-form-urlencoded"), *headers], body)


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (400, b'{"error":"invalid_grant","error_description":"hunter2"}', "HTTP 400 invalid_grant"),
        (400, b'{"error":"hunter2"}', "HTTP 400"),
        (502, b"<html>hunter2", "HTTP 502"),
        (200, b'{"error":"bad_refresh_token"}', "HTTP 200 bad_refresh_token"),
        (200, b"hunter2", "the answer makes no sense"),
    ],
)
def test_of_a_refusal_only_a_registered_error_is_shown(status: int, body: bytes, shown: str) -> None:
    answer = EndpointAnswer(status, body)
    assert answer.token is None
    assert str(answer) == shown


@pytest.mark.parametrize(
    "body",
    [
        b'{"access_token":""}',
        b'{"access_token":"a\\nb"}',
        b'{"access_token":"a","token_type":"mac"}',
        b'{"access_token":"a","refresh_token":"\xc3\xa4"}',
        b"[" * 9000,
    ],
)
def test_a_token_that_cannot_be_shown_is_none(body: bytes) -> None:
    assert EndpointAnswer(200, body).token is None
