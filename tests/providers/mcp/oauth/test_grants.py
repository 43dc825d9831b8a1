from pathlib import Path

from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.reach import OAuth
from tooldispatchd.providers.mcp.oauth.documents import RegisteredClient
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name


def test_a_file_with_all_that_a_server_says_is_read(tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)}, Grant)
    store.write("entry", Grant())
    store.path_of("entry").write_text(
        """{"access_token":"a","refresh_token":"r","scope":"tools","refresh_at":1795424306.5,
        "client":{"client_id":"client-0","redirect_uris":["http://127.0.0.1:44513/callback"],"response_types":["code"],
          "token_endpoint_auth_method":"none","application_type":"native","issuer":"https://auth.example"},
        "resource":{"resource":"https://docs.example/mcp","authorization_servers":["https://auth.example"],
          "bearer_methods_supported":["header"]},
        "issuer":"https://auth.example",
        "server":{"issuer":"https://auth.example","authorization_endpoint":"https://auth.example/authorize",
          "token_endpoint":"https://auth.example/token","response_types_supported":["code"]},
        "wanted":null,"trusted":[]}"""
    )
    grant = store.read("entry")
    assert grant is not None
    assert grant.client is not None
    assert grant.client.issuer == "https://auth.example"
    assert grant.server is not None
    assert grant.server.token_endpoint == "https://auth.example/token"


def test_what_is_written_is_read_again_with_the_client(tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)}, Grant)
    grant = Grant(access_token="a", client=RegisteredClient(client_id="c"), trusted=("https://auth.example",))
    store.write("entry", grant)
    assert store.read("entry") == grant


def test_entries_differ_by_server_client_grant_and_scopes_and_show_none_of_them() -> None:
    plain = OAuth(grant="x")
    others = [OAuth(grant="x", client_id="c"), OAuth(grant="y"), OAuth(grant="x", scopes=("s",))]
    names = {entry_name("https://b/", plain), *(entry_name("https://a/", each) for each in (plain, *others))}
    assert len(names) == 5
    assert all(len(name) == 40 and name.isalnum() for name in names)


def test_no_repr_shows_a_token() -> None:
    grant = Grant(access_token="secret", scope="a", client=RegisteredClient(client_id="c"))
    assert repr(grant) == "Grant(access_token, scope, client)"
