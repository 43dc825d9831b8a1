"""Wrong keys of servers over the network and of their connections, each with the exact report that it gets."""

SERVER_KEYS = {
    "a way to speak that there is not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
transport = "https"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.transport: no such choice
    seen "https"; allowed: "auto", "http", "sse"; did you mean "http"?""",
    ),
    "keys of a URL for a command": (
        """\
[mcp.a]
command = "x"
transport = "sse"
headers = { X-Team = "docs" }
token = "s3cret"
token_file = "s3cret"
auth = "oauth"
oauth = { client_id = "x" }
ca = "ca.pem"
cert = "own.pem"
key = "own.key"
hosts = ["login.example"]
private = true
""",
        """\
cannot use t.toml: 11 problems
t.toml:3: mcp.a.transport: only a server with url has transport
t.toml:4: mcp.a.headers: only a server with url has headers
t.toml:5: mcp.a.token: only a server with url has token
t.toml:6: mcp.a.token_file: only a server with url has token_file
t.toml:7: mcp.a.auth: only a server with url has auth
t.toml:8: mcp.a.oauth: only a server with url has oauth
t.toml:9: mcp.a.ca: only a server with url has ca
t.toml:10: mcp.a.cert: only a server with url has cert
t.toml:11: mcp.a.key: only a server with url has key
t.toml:12: mcp.a.hosts: only a server with url has hosts
t.toml:13: mcp.a.private: only a server with url has private""",
    ),
    "what is the default anyway for a command": (
        """\
[mcp.a]
command = "x"
transport = "auto"
headers = {}
private = false
hosts = [7]
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: mcp.a.hosts[0]: wrong kind of value
    seen a whole number; allowed: HOST or HOST:PORT""",
    ),
    "a key without its certificate": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
key = "own.key"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.key: a key belongs to a cert, and this server has none""",
    ),
    "a certificate that is no path": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
cert = 3
key = "own.key"
ca = ""
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.cert: wrong kind of value
    seen a whole number; allowed: a string that is not empty, without NUL
t.toml:5: mcp.a.ca: not well-formed
    seen a string; allowed: a string that is not empty, without NUL""",
    ),
    "a choice that a WebSocket has not": (
        """\
[mcp.a]
url = "wss://docs.example/mcp"
transport = "http"
[mcp.b]
url = "ws://localhost/mcp"
auth = "oauth"
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.transport: only an http:// or https:// URL has a choice
    seen "http"
t.toml:6: mcp.b.auth: only an http:// or https:// URL says where tokens are given out""",
    ),
    "a revision that the transport has not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
transport = "sse"
protocol = "2026-07-28"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.protocol: this revision has no HTTP+SSE
    seen "2026-07-28"; allowed: an older one, or transport = "http\"""",
    ),
    "a revision that there is not": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
protocol = 2025-11-25
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.protocol: a date or time has no meaning here
    seen 2025-11-25""",
    ),
    "a shared connection that one call may end": (
        """\
[mcp.a]
command = "x"
shared = true
on_timeout = "dead"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: mcp.a.on_timeout: a shared connection lives on when one agent's call takes too long
    seen "dead"; allowed: "cancel", or no shared""",
    ),
    "how a connection behaves, in words that mean nothing": (
        """\
[mcp.a]
command = "x"
on_timeout = "kill"
restart = "always"
shared = "yes"
lazy = 1
trace = "on"
mcp_resources = "all"
""",
        """\
cannot use t.toml: 6 problems
t.toml:3: mcp.a.on_timeout: no such choice
    seen "kill"; allowed: "cancel", "dead"
t.toml:4: mcp.a.restart: no such choice
    seen "always"; allowed: "backoff", "never"
t.toml:5: mcp.a.shared: wrong kind of value
    seen "yes"; allowed: true or false
t.toml:6: mcp.a.lazy: wrong kind of value
    seen 1; allowed: true or false
t.toml:7: mcp.a.trace: wrong kind of value
    seen "on"; allowed: true or false
t.toml:8: mcp.a.mcp_resources: wrong kind of value
    seen "all"; allowed: true or false""",
    ),
    "other hosts that are none": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
hosts = ["https://login.example", "", "ann:s3cret@login.example"]
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: mcp.a.hosts[0]: not well-formed
    seen a string; allowed: HOST or HOST:PORT
t.toml:3: mcp.a.hosts[1]: not well-formed
    seen a string; allowed: HOST or HOST:PORT
t.toml:3: mcp.a.hosts[2]: not well-formed
    seen a string; allowed: HOST or HOST:PORT""",
    ),
    "other hosts with ports that are none": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
hosts = ["login.example:0", "login.example:443", "login.example:70000", "login.example"]
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.hosts[0]: no such port
    allowed: HOST, or HOST:PORT with a port of 1 to 65535
t.toml:3: mcp.a.hosts[2]: no such port
    allowed: HOST, or HOST:PORT with a port of 1 to 65535""",
    ),
    "one other host that is no list": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
hosts = "login.example"
private = "no"
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: mcp.a.hosts: wrong kind of value
    seen a string; allowed: an array of HOST or HOST:PORT
t.toml:4: mcp.a.private: wrong kind of value
    seen "no"; allowed: true or false""",
    ),
    "a URL that is no text beside what belongs to it": (
        """\
[mcp.a]
url = 3
token = "x"
headers = { A = "b" }
ca = "ca.pem"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: mcp.a.url: wrong kind of value
    seen a whole number; allowed: a string that is not empty, without NUL""",
    ),
    "roots that are no directories": (
        """\
[agents.a]
roots = ["https://docs.example/", "file://docs.example/x", "file:///%zz", "", "${EMPTY}", "${S3CRET}", 3]
[agents.b]
roots = "/srv"
mcp_resources = "all"
""",
        """\
cannot use t.toml: 9 problems
t.toml:2: agents.a.roots[3]: not well-formed
    seen ""; allowed: a string that is not empty, without NUL
t.toml:2: agents.a.roots[6]: wrong kind of value
    seen 3; allowed: a string that is not empty, without NUL
t.toml:2: agents.a.roots[0]: no directory of this machine
    seen "https://docs.example/"; allowed: a path, or file:// and an absolute path
t.toml:2: agents.a.roots[1]: no directory of this machine
    seen "file://docs.example/x"; allowed: a path, or file:// and an absolute path
t.toml:2: agents.a.roots[2]: no directory of this machine
    seen "file:///%zz"; allowed: a path, or file:// and an absolute path
t.toml:2: agents.a.roots[4]: is empty once its variables are in place
    seen "${EMPTY}"
t.toml:2: agents.a.roots[5]: the environment has no S3CRET
    seen "${S3CRET}"; allowed: "${S3CRET:-default}"
t.toml:4: agents.b.roots: wrong kind of value
    seen a string; allowed: an array of a string that is not empty, without NUL
t.toml:5: agents.b.mcp_resources: wrong kind of value
    seen "all"; allowed: true or false""",
    ),
    "two servers with their mistakes at once": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
tokn = "s3cret"
transport = "ssh"
[mcp.b]
command = "x"
token = "s3cret"
lazy = "yes"
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: mcp.a.tokn: unknown key
    did you mean "token"?
t.toml:4: mcp.a.transport: no such choice
    seen "ssh"; allowed: "auto", "http", "sse"; did you mean "sse"?
t.toml:8: mcp.b.lazy: wrong kind of value
    seen "yes"; allowed: true or false""",
    ),
    "two servers with their mistakes at once, once all is well formed": (
        """\
[mcp.a]
url = "https://docs.example/mcp"
# none
transport = "sse"
[mcp.b]
command = "x"
token = "s3cret"
lazy = true
""",
        """\
cannot use t.toml: 1 problem
t.toml:7: mcp.b.token: only a server with url has token""",
    ),
}
