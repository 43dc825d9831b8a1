"""Which keys of a server's table go together. What is refused stands in the corpora of wrong configurations."""

import pytest

from tooldispatchd.catalog.servers import check_server, credential_kinds, credential_warning
from tooldispatchd.catalog.specs import McpSpec, OAuthSpec

URL = "https://docs.example/mcp"
OAUTH = McpSpec(url=URL, auth="oauth")


@pytest.mark.parametrize(
    "spec",
    [
        McpSpec(command="x", shared=True, lazy=True, restart="backoff", tools=("a",), on_timeout="cancel"),
        McpSpec(command="x", shared=True, protocol="2026-07-28"),
        McpSpec(command="x", on_timeout="dead", transport="auto", headers={}, private=False),
        McpSpec(url=URL, token="x", headers={"X-Key": "k"}, hosts=("a", "b:1", "c:65535"), private=True),
        McpSpec(url=URL, headers={"Authorization": "Basic x"}),
        McpSpec(url=URL, cert="c.pem"),
        McpSpec(url=URL, cert="c.pem", key="c.key", ca="ca.pem"),
        McpSpec(url=URL, transport="sse", protocol="2024-11-05"),
        McpSpec(url=URL, transport="http", protocol="2026-07-28"),
        McpSpec(url="wss://docs.example/", token_env="T", headers={"X-Team": "a"}, ca="ca.pem"),
        OAUTH,
        McpSpec(url=URL, auth="oauth", oauth=OAuthSpec(client_metadata_url="https://docs.example/client")),
        McpSpec(
            url=URL,
            auth="oauth",
            oauth=OAuthSpec(client_id="x", client_secret_file="s", scopes=("a",), redirect_port=1),
        ),
        McpSpec(
            url=URL,
            auth="oauth",
            oauth=OAuthSpec(grant="client_credentials", client_id="x", client_secret_env="S", scopes=("a",)),
        ),
        McpSpec(
            url=URL,
            auth="oauth",
            oauth=OAuthSpec(grant="private_key_jwt", client_id="x", private_key_file="k", algorithm="ES256"),
        ),
    ],
)
def test_what_goes_together_is_no_problem(spec: McpSpec) -> None:
    assert list(check_server(("mcp", "a"), spec)) == []


@pytest.mark.parametrize(
    ("spec", "has"),
    [
        (McpSpec(url=URL), False),
        (McpSpec(url=URL, headers={"X-Team": "docs"}), False),
        (McpSpec(url=URL, ca="ca.pem"), False),
        (McpSpec(url=URL, headers={"X-Api-Key": "k"}), True),
        (McpSpec(url=URL, headers={"AUTHORIZATION": "k"}), True),
        (McpSpec(url=URL, cert="c.pem"), True),
        (McpSpec(url=URL, token="x"), True),
        (McpSpec(url=URL, token_file="x"), True),
        (OAUTH, True),
    ],
)
def test_what_says_who_the_daemon_is_are_credentials(spec: McpSpec, has: bool) -> None:
    assert bool(credential_kinds(spec)) is has


def test_a_certificate_is_not_shown_where_nothing_is_encrypted() -> None:
    assert credential_warning(McpSpec(url="http://docs.example/", cert="c.pem")) is None
