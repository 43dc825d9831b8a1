"""Wrong tokens and headers of servers, each with the exact report that it gets."""

SERVER_TOKENS = {
    "three places for one token": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token = "s3cret"
token_env = "S3CRET"
token_file = "s3cret"
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.token_env: "token" says already where the token is
    allowed: one of "token", "token_env" or "token_file"
t.toml:5: mcp.a.token_file: "token" says already where the token is
    allowed: one of "token", "token_env" or "token_file\"""",
    ),
    "a token beside auth": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_env = "S3CRET"
auth = "oauth"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.auth: "token_env" says already where the token is
    allowed: auth, or "token", "token_env" or "token_file\"""",
    ),
    "a way to get tokens that there is not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "Bearer s3cret"
oauth = { client_id = "x" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.auth: no such choice
    seen a string; allowed: "oauth\"""",
    ),
    "oauth without auth": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
oauth = { client_id = "x" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.oauth: these are the particulars of auth
    allowed: auth = "oauth" beside it""",
    ),
    "a variable that is not there for a token": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_env = "S3CRET"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.token_env: the environment has no such variable
    seen "S3CRET\"""",
    ),
    "a token where the name of its variable belongs": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_env = "s3cretT0ken"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.token_env: the environment has no such variable
    seen a string""",
    ),
    "a way to get tokens by a name that is not far off": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
auth = "oauth2"
[mcp.b]
url = "https://docs.example/mcp"
auth = "bearer"
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.auth: no such choice
    seen "oauth2"; allowed: "oauth"; did you mean "oauth"?
t.toml:6: mcp.b.auth: no such choice
    seen "bearer"; allowed: "oauth\"""",
    ),
    "a variable that is empty for a token": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_env = "EMPTY"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.token_env: the token is empty
    seen "EMPTY\"""",
    ),
    "a token that no header can have": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token = "s3cret s3cret"
[mcp.b]
url = "wss://docs.example/"
token = "s3cr\\nEvil: x"
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.token: the token has what no header can have
    seen a string; allowed: visible ASCII, no space
t.toml:6: mcp.b.token: the token has what no header can have
    seen a string; allowed: visible ASCII, no space""",
    ),
    "a token that looks like a variable": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token = "${S3CRET}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.token: the environment has no S3CRET
    seen a string; allowed: "${S3CRET:-default}\"""",
    ),
    "a token's file that is not there": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_file = "s3cret"
[mcp.b]
url = "https://docs.example/mcp"
token_file = "/"
[mcp.c]
url = "https://docs.example/mcp"
token_file = "${EMPTY}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:9: mcp.c.token_file: is empty once its variables are in place
    seen a string""",
    ),
    "a token's file that is not there, once all is well formed": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token_file = "s3cret"
[mcp.b]
url = "https://docs.example/mcp"
token_file = "/"
[mcp.c]
url = "https://docs.example/mcp"
# none
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.token_file: cannot read the token's file: No such file or directory
    seen a string
t.toml:6: mcp.b.token_file: cannot read the token's file: Is a directory
    seen a string""",
    ),
    "a token that is no text": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token = 5
[mcp.b]
url = "https://docs.example/mcp"
token_env = ""
[mcp.c]
url = "https://docs.example/mcp"
token_file = ["x"]
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: mcp.a.token: wrong kind of value
    seen a whole number; allowed: a string
t.toml:6: mcp.b.token_env: not well-formed
    seen a string; allowed: a string that is not empty, without NUL
t.toml:9: mcp.c.token_file: wrong kind of value
    seen an array; allowed: a string that is not empty, without NUL""",
    ),
    "a token in a server's table elsewhere": (
        """\
[tools.a]
mcp = { url = "https://docs.example/mcp", token_env = "S3CRET" }
[processes.p]
kind = "agent"
command = ["x"]
mcp = [{ url = "https://docs.example/mcp", token_file = "s3cret" }]
""",
        """\
cannot use t.toml: 2 problems
t.toml:2: tools.a.mcp.token_env: the environment has no such variable
    seen "S3CRET"
t.toml:6: processes.p.mcp[0].token_file: cannot read the token's file: No such file or directory
    seen a string""",
    ),
    "headers that the transport sets itself": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
[mcp.a.headers]
Host = "x"
Connection = "x"
Upgrade = "x"
Content-Length = "x"
content-type = "x"
Transfer-Encoding = "x"
ACCEPT = "x"
Mcp-Session-Id = "x"
MCP-Protocol-Version = "x"
Mcp-Method = "x"
Mcp-Name = "x"
Mcp-Param-City = "x"
Last-Event-ID = "x"
Sec-WebSocket-Protocol = "x"
""",
        """\
cannot use t.toml: 14 problems
t.toml:4: mcp.a.headers.Host: the transport sets this header itself
t.toml:5: mcp.a.headers.Connection: the transport sets this header itself
t.toml:6: mcp.a.headers.Upgrade: the transport sets this header itself
t.toml:7: mcp.a.headers.Content-Length: the transport sets this header itself
t.toml:8: mcp.a.headers.content-type: the transport sets this header itself
t.toml:9: mcp.a.headers.Transfer-Encoding: the transport sets this header itself
t.toml:10: mcp.a.headers.ACCEPT: the transport sets this header itself
t.toml:11: mcp.a.headers.Mcp-Session-Id: the transport sets this header itself
t.toml:12: mcp.a.headers.MCP-Protocol-Version: the transport sets this header itself
t.toml:13: mcp.a.headers.Mcp-Method: the transport sets this header itself
t.toml:14: mcp.a.headers.Mcp-Name: the transport sets this header itself
t.toml:15: mcp.a.headers.Mcp-Param-City: the transport sets this header itself
t.toml:16: mcp.a.headers.Last-Event-ID: the transport sets this header itself
t.toml:17: mcp.a.headers.Sec-WebSocket-Protocol: the transport sets this header itself""",
    ),
    "a header that a token sets": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
token = "x"
headers = { Authorization = "Basic s3cret" }
[mcp.b]
url = "https://docs.example/mcp"
auth = "oauth"
headers = { authorization = "Basic s3cret" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: mcp.a.headers.Authorization: "token" sets this header already
t.toml:8: mcp.b.headers.authorization: "auth" sets this header already""",
    ),
    "a header twice": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
headers = { X-Key = "s3cret", x-key = "s3cret" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.headers.x-key: this header stands here twice: capitals make no difference""",
    ),
    "a header that is none": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
headers = { "X Key" = "s3cret", "X:" = "s3cret", "" = "s3cret" }
[mcp.b]
url = "https://docs.example/mcp"
headers = { X-Key = "s3cret\\r\\nEvil: x", X-Other = 4242 }
[mcp.c]
url = "https://docs.example/mcp"
headers = ["X-Key: s3cret"]
""",
        """\
cannot use t.toml: 6 problems
t.toml:3: mcp.a.headers."X Key": not a valid name
    allowed: a header's name: letters, digits and signs, no space and no colon
t.toml:3: mcp.a.headers."X:": not a valid name
    allowed: a header's name: letters, digits and signs, no space and no colon
t.toml:3: mcp.a.headers."": not a valid name
    allowed: a header's name: letters, digits and signs, no space and no colon
t.toml:6: mcp.b.headers.X-Key: not well-formed
    seen a string; allowed: ASCII in one line, at most 16384 characters
t.toml:6: mcp.b.headers.X-Other: wrong kind of value
    seen a whole number; allowed: ASCII in one line, at most 16384 characters
t.toml:9: mcp.c.headers: wrong kind of value
    seen an array; allowed: a table""",
    ),
    "a header that a variable breaks": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
headers = { X-Key = "${LINES}", X-Other = "${S3CRET}" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.headers.X-Key: no header can have this value once its variables are in place
    seen a string; allowed: ASCII in one line, at most 16384 characters
t.toml:3: mcp.a.headers.X-Other: the environment has no S3CRET
    seen a string; allowed: "${S3CRET:-default}\"""",
    ),
}
