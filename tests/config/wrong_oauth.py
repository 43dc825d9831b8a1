"""Wrong particulars of how the daemon gets a server's token, each with the exact report that it gets."""

OAUTH = {
    "a grant that there is not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { grant = "password", client_id = "x" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.grant: no such choice
    seen "password"; allowed: "authorization_code", "client_credentials", "private_key_jwt\"""",
    ),
    "a grant for a service without a secret": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { grant = "client_credentials", client_id = "x" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth: grant client_credentials needs one of "client_secret_env" and "client_secret_file\"""",
    ),
    "a signed grant without a key": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { grant = "private_key_jwt" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth: grant private_key_jwt needs "client_id" and "private_key_file\"""",
    ),
    "a signed grant with a secret": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { grant = "private_key_jwt", client_id = "x", client_secret_env = "SET" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.oauth: grant private_key_jwt needs "private_key_file"
t.toml:4: mcp.a.oauth.client_secret_env: it means nothing with grant private_key_jwt
    allowed: with authorization_code and client_credentials""",
    ),
    "a signature for a grant that has none": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { private_key_file = "key.pem", algorithm = "ES256" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.oauth.private_key_file: it means nothing with grant authorization_code
    allowed: with private_key_jwt
t.toml:4: mcp.a.oauth.algorithm: it means nothing with grant authorization_code
    allowed: with private_key_jwt""",
    ),
    "a person's keys for a service": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
[mcp.a.oauth]
grant = "client_credentials"
client_id = "x"
client_secret_env = "SET"
client_metadata_url = "https://docs.example/client"
redirect_port = 8765
""",
        """\
cannot use t.toml: 2 problems
t.toml:8: mcp.a.oauth.client_metadata_url: it means nothing with grant client_credentials
    allowed: with authorization_code
t.toml:9: mcp.a.oauth.redirect_port: it means nothing with grant client_credentials
    allowed: with authorization_code""",
    ),
    "two places for one secret": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_id = "x", client_secret_env = "S3CRET", client_secret_file = "s3cret" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.client_secret_file: "client_secret_env" says already where the secret is""",
    ),
    "a secret of nobody": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_secret_env = "SET" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.client_secret_env: a secret belongs to a client_id, and there is none""",
    ),
    "a client that is named twice": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_id = "x", client_metadata_url = "https://docs.example/client" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.client_metadata_url: "client_id" says already which client the daemon is""",
    ),
    "a client's document that is nowhere": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_metadata_url = "http://docs.example/client" }
[mcp.b]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_metadata_url = "docs" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.oauth.client_metadata_url: this is no URL that can be used
    allowed: an https:// URL
t.toml:8: mcp.b.oauth.client_metadata_url: this is no URL that can be used
    allowed: an https:// URL""",
    ),
    "a secret that is not there": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_id = "x", client_secret_env = "S3CRET" }
[mcp.b]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_id = "x", client_secret_file = "s3cret" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.oauth.client_secret_env: the environment has no such variable
    seen "S3CRET"
t.toml:8: mcp.b.oauth.client_secret_file: cannot read the secret's file: No such file or directory
    seen a string""",
    ),
    "a secret of more than one line": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client_id = "x", client_secret_env = "LINES" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.client_secret_env: the secret has more than one line, or is not UTF-8
    seen "LINES\"""",
    ),
    "a key that is none": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { grant = "private_key_jwt", client_id = "x", private_key_file = "t.toml" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth.private_key_file: the file holds no private key
    seen a string; allowed: one in PEM, with -----BEGIN PRIVATE KEY-----""",
    ),
    "keys of oauth that there are not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = { client = "x", scope = "a", algorithm = "HS256", redirect_port = 0, scopes = "a b" }
""",
        """\
cannot use t.toml: 5 problems
t.toml:4: mcp.a.oauth.algorithm: no such choice
    seen "HS256"; allowed: "ES256", "ES384", "EdDSA", "PS256", "RS256", "RS384", "RS512"; did you mean "ES256"?
t.toml:4: mcp.a.oauth.redirect_port: too small
    seen 0; allowed: a whole number, at least 1 and at most 65535
t.toml:4: mcp.a.oauth.scopes: wrong kind of value
    seen a string; allowed: an array of a string that is not empty, without NUL
t.toml:4: mcp.a.oauth.client: unknown key
    did you mean "client_id"?
t.toml:4: mcp.a.oauth.scope: unknown key
    did you mean "scopes"?""",
    ),
    "oauth in one word": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth"
oauth = "x"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.oauth: wrong kind of value
    seen a string; allowed: a table""",
    ),
}
