"""Wrong tables of HTTP APIs and requests, and the exact report on each."""

from typing import Final

REQUESTS: Final = {
    "a parameter that the schema lacks": (
        """\
[tools.weather]
type = "{city: string, units?: string} -> json"
[tools.weather.rest]
url = "https://api.example.com/${parameters.ctiy}?key=hunter2"
headers = { X-Units = "in ${parameters.unit}" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: tools.weather.rest.url: the tool takes no parameter ctiy
    did you mean "city"?
    …${parameters.ctiy}…
                  ^
t.toml:5: tools.weather.rest.headers.X-Units: the tool takes no parameter unit
    did you mean "units"?
    …${parameters.unit}
                  ^""",
    ),
    "a request without parameters": (
        """\
[tools.weather]
rest = { url = "https://api.example.com/${parameters.city}" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.weather.rest.url: the tool takes no parameter city
    allowed: none: a "type" or an "input_schema" says them
    …${parameters.city}
                  ^""",
    ),
    "a request that goes nowhere": (
        """\
[tools.a]
rest = { method = "GET" }
[tools.b]
rest = { path = "/x" }
[tools.c]
rest = { api = "github", path = "/x" }
[tools.d]
type = "{host: string} -> json"
rest = { url = "https://${parameters.host}/x" }
[tools.e]
rest = { url = "ftp://example.com/" }
[tools.f]
rest = { url = "https://user:hunter2@example.com/" }
[rest.githb]
base_url = "https://api.github.com"
""",
        """\
cannot use t.toml: 6 problems
t.toml:2: tools.a.rest: a request has url, or api and path; this one has neither
t.toml:4: tools.b.rest: a request has url, or api and path; this one has neither
t.toml:6: tools.c.rest.api: no such API in [rest]
    seen "github"; did you mean "githb"?
t.toml:9: tools.d.rest.url: where a request goes is no parameter's to say: placeholders stand in the path and the \
query
t.toml:11: tools.e.rest.url: this is no URL that can be used
    allowed: http(s)://, a host and no user, then a port and a path where there are any
t.toml:13: tools.f.rest.url: this is no URL that can be used
    allowed: http(s)://, a host and no user, then a port and a path where there are any""",
    ),
    "a request away from its API": (
        """\
[rest.github]
base_url = "https://api.github.com/v3"
token = "hunter2"
[tools.a]
rest = { api = "github", url = "https://evil.example/" }
[tools.b]
rest = { api = "github", url = "https://api.github.com/", path = "/x" }
""",
        """\
cannot use t.toml: 2 problems
t.toml:5: tools.a.rest.url: [rest.github] is at another origin, and its credentials go to that alone
    allowed: "path", for what is at its base_url
t.toml:7: tools.b.rest.path: "url" says already where the request goes""",
    ),
    "an API whose keys contradict one another": (
        """\
[rest.a]
base_url = "https://a.example/?x=1"
token = "hunter2"
basic = { user = "a:b", password = "hunter2", password_env = "P" }
headers = { Authorization = "hunter2", Host = "x", host = "y" }
api_key = { header = "X-Key", query = "key" }
key = "key.pem"
hosts = ["b.example:99999"]
[rest.b]
base_url = "wss://b.example"
auth = "oauth"
[rest.c]
base_url = "https://c.example"
oauth = { token_url = "c.example", client_id = "me", refresh_token_env = "R" }
[rest.d]
base_url = "https://d.example"
auth = "oauth"
oauth = { grant = "refresh_token", token_url = "https://d.example/token", client_id = "me" }
""",
        """\
cannot use t.toml: 19 problems
t.toml:2: rest.a.base_url: a base has no query
    allowed: "query", for entries of every request
t.toml:4: rest.a.basic: "token" says already how the daemon is known there
t.toml:4: rest.a.basic.password_env: "password" says it already
    allowed: one of password, password_env, password_file
t.toml:4: rest.a.basic.user: no such name has a colon (RFC 7617, 2)
t.toml:5: rest.a.headers.Host: the connection sets this header itself
t.toml:5: rest.a.headers.host: the connection sets this header itself
t.toml:5: rest.a.headers.host: this header stands here twice: capitals make no difference
t.toml:5: rest.a.headers.Authorization: "token" sets this header already
t.toml:6: rest.a.api_key.query: "header" says it already
    allowed: one of header, query, cookie
t.toml:6: rest.a.api_key: it needs one of value, value_env, value_file
t.toml:7: rest.a.key: a key belongs to a cert, and this API has none
t.toml:8: rest.a.hosts[0]: no such port
    allowed: HOST, or HOST:PORT with a port of 1 to 65535
t.toml:10: rest.b.base_url: this is no URL that can be used
    allowed: http(s)://, a host and no user, then a port and a path where there are any
t.toml:11: rest.b.auth: it needs the table "oauth", with token_url and client_id
t.toml:14: rest.c.oauth.refresh_token_env: the environment has no such variable
    seen "R"
t.toml:14: rest.c.oauth: these are the particulars of auth
    allowed: auth = "oauth" beside it
t.toml:14: rest.c.oauth.token_url: this is no URL that can be used
    allowed: http(s)://, a host and no user, then a port and a path where there are any
t.toml:14: rest.c.oauth: it needs one of client_secret_env, client_secret_file
t.toml:18: rest.d.oauth: it needs one of refresh_token_env, refresh_token_file""",
    ),
    "what is no request": (
        """\
[tools.a]
type = "string -> json"
rest = { url = "https://a.example/" }
[tools.b]
command = ["x"]
rest = { url = "https://a.example/" }
[tools.c]
command = ["x"]
annotations = { readOnlyHint = true }
[tools.d]
rest = { url = "https://a.example/", map = "input." }
""",
        """\
cannot use t.toml: 4 problems
t.toml:2: tools.a.type: the parameters of a request are a record, and string is none
    seen "string -> json"
t.toml:4: tools.b: a tool has exactly one way to run, this one has command and rest
    allowed: process, mcp, inline, map, command, python, rest, native, builtin
t.toml:9: tools.c.annotations: only a tool with rest has annotations
t.toml:11: tools.d.rest.map: column 7: Syntax error: no viable alternative at input '.'
    seen "input.\"""",
    ),
    "what is not well-formed in a request": (
        """\
[tools.e]
rest = { url = "https://a.example/", method = "get", pick = "items", styles = { x = "forms" } }
annotations = { readOnly = true }
""",
        """\
cannot use t.toml: 4 problems
t.toml:2: tools.e.rest.method: no such choice
    seen "get"; allowed: "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"; did you mean "GET"?
t.toml:2: tools.e.rest.pick: not well-formed
    seen "items"; allowed: a JSON Pointer such as "/data/items"
t.toml:2: tools.e.rest.styles.x: not well-formed
    seen "forms"; allowed: simple, label, matrix, form, spaceDelimited, pipeDelimited, deepObject, brackets or json; \
+ and * may follow
t.toml:3: tools.e.annotations.readOnly: unknown key
    did you mean "readOnlyHint"?""",
    ),
}
