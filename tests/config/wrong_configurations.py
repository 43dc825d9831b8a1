"""Wrong configurations, each with the exact report that it gets."""

# How the report names every way in; where it does is the point of a case, not which they are.
WAYS_IN = (
    '"unix:PATH", "unix:@NAME", "stdio", "fd:READ,WRITE", "systemd", "http://ADDRESS:PORT/PATH", "https://…" or '
    '"http+unix:PATH", each with options behind a "?"'
)

CORPUS = {
    "an unknown key names the nearest one": (
        """\
[mcp.github]
command = "npx"
prefx = "gh"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.github.prefx: unknown key
    did you mean "prefix"?""",
    ),
    "an unknown table with no near one lists all": (
        "\n[zebra]\n",
        """\
cannot use t.toml: 1 problem
t.toml:2: zebra: unknown key
    allowed: one of agent_command, agents, audit, cache, daemon, hooks, http_auth, limits, mcp, mcp_json, openapi, \
plumb, processes, queues, rest, restTools, toolbox, tools, traces, types""",
    ),
    "a dotted key and an inline table": (
        """\
# bounds
limits.call_s = 0
daemon = { grace_s = -1.5, listn = [] }
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: limits.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400
t.toml:3: daemon.grace_s: too small
    seen -1.5; allowed: a number, at least 0 and at most 3600
t.toml:3: daemon.listn: unknown key
    did you mean "listen"?""",
    ),
    "lines after values of many lines": (
        '''\
[tools.a]
inline = "id"
type = "string -> string"
description = """
[tools.b] # not a header
"""
call_s = "5"
[tools.b]
command = [
  "x",   # ] a comment
  7,
]
''',
        """\
cannot use t.toml: 2 problems
t.toml:7: tools.a.call_s: wrong kind of value
    seen "5"; allowed: a number, over 0 and at most 86400
t.toml:9: tools.b.command[1]: wrong kind of value
    seen a whole number; allowed: a string without NUL""",
    ),
    "an array of tables where a table must be": (
        """\
[types]
A = "int"
[[tools]]
inline = "id"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools: wrong kind of value
    seen an array; allowed: a table""",
    ),
    "planned keys in a section of the wrong kind": (
        '[[mcp]]\nurl = "x"\n[[tools]]\npython = "x"\n',
        """\
cannot use t.toml: 2 problems
t.toml:1: mcp: wrong kind of value
    seen an array; allowed: a table
t.toml:3: tools: wrong kind of value
    seen an array; allowed: a table""",
    ),
    "a choice": (
        '[tools.a]\ninline = "copi"\ntype = "int -> (int, int)"\n',
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.a.inline: no such choice
    seen "copi"; allowed: "copy", "discard", "id"; did you mean "copy"?""",
    ),
    "a name with two dots": (
        '[tools."a..b"]\ninline = "id"\ntype = "int -> int"\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: tools."a..b": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts""",
    ),
    "a name that a terminal would obey": (
        '[agents."a\\u001b[31m"]\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: agents."a\\u001b[31m": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts""",
    ),
    "a whole number is asked for": (
        "[limits]\nin_flight = 3.0\nwaiting = true\nprocesses = 0\n",
        """\
cannot use t.toml: 2 problems
t.toml:3: limits.waiting: wrong kind of value
    seen true; allowed: a whole number, at least 1 and at most 1000000
t.toml:4: limits.processes: too small
    seen 0; allowed: a whole number, at least 1 and at most 1000000""",
    ),
    "a whole number is asked for, alone": (
        "[limits]\n\nin_flight = 3.0\n",
        """\
cannot use t.toml: 1 problem
t.toml:3: limits.in_flight: Expected "int", got "float\"""",
    ),
    "values that JSON does not have": (
        """\
[limits]
call_s = nan
[tools.a]
command = ["x"]
[tools.a.input_schema]
const = 2020-01-01
anyOf = [
  { minimum = -inf },
]
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: limits.call_s: not a finite number
    seen nan
t.toml:6: tools.a.input_schema.const: a date or time has no meaning here
    seen a date or time
t.toml:7: tools.a.input_schema.anyOf[0].minimum: not a finite number
    seen a number""",
    ),
    "names in a profile": (
        """\
[tools.echo]
inline = "id"
type = "int -> int"
[mcp.time]
command = "mcp-server-time"
[agents.default]
tools = ["ecko", "tine:now"]
mcp = ["time", "clock"]
""",
        """\
cannot use t.toml: 3 problems
t.toml:7: agents.default.tools[0]: no such tool in [tools]
    seen "ecko"; did you mean "echo"?
t.toml:7: agents.default.tools[1]: no such server in [mcp]
    seen "tine:now"; did you mean "time:now"?
t.toml:8: agents.default.mcp[1]: no such server in [mcp]
    seen "clock\"""",
    ),
    "what is wrong with a tool makes no name unknown": (
        """\
[tools.echo]
inline = "idd"
[mcp.time]
cmd = "mcp-server-time"
[agents.default]
tools = ["echo", "time:now"]
""",
        """\
cannot use t.toml: 2 problems
t.toml:2: tools.echo.inline: no such choice
    seen "idd"; allowed: "copy", "discard", "id"; did you mean "id"?
t.toml:4: mcp.time.cmd: unknown key
    did you mean "cwd"?""",
    ),
    "a misspelt section makes no name unknown": (
        '[tool.echo]\ninline = "id"\n[agents.default]\ntools = ["echo"]\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: tool: unknown key
    did you mean "tools"?""",
    ),
    "what bounds a program": (
        """\
[tools.a]
command = ["x"]
memory = "1 gigabyte"
file_size = -1
user = "nobody-of-that-name"
cpu_s = 0
[tools.b]
inline = "id"
nice = 5
[agents.default]
tools = ["a", "b"]
memory = 1024
sandbox = "bubble"
""",
        """\
cannot use t.toml: 2 problems
t.toml:6: tools.a.cpu_s: too small
    seen 0; allowed: a whole number, at least 1 and at most 86400
t.toml:13: agents.default.sandbox: no such choice
    seen "bubble"; allowed: "best-effort", "bubblewrap", "landlock", "required"; did you mean "bubblewrap"?""",
    ),
    "what bounds a program, once all is well formed": (
        """\
[tools.a]
command = ["x"]
memory = "1 gigabyte"
file_size = -1
user = "nobody-of-that-name"
cpu_s = 1
[tools.b]
inline = "id"
nice = 5
[agents.default]
tools = ["a", "b"]
memory = 1024
sandbox = "bubblewrap"
""",
        """\
cannot use t.toml: 5 problems
t.toml:3: tools.a.memory: not a size
    seen "1 gigabyte"; allowed: bytes, as a number or with K, M, G or T: "512M"
t.toml:4: tools.a.file_size: out of range: at least 0 bytes, at most 1099511627776
    seen -1; allowed: bytes, as a number or with K, M, G or T: "512M"
t.toml:5: tools.a.user: no such user
    seen "nobody-of-that-name"
t.toml:9: tools.b.nice: only a tool with command or python has nice
t.toml:12: agents.default.memory: out of range: at least 16777216 bytes, at most 1099511627776
    seen 1024; allowed: bytes, as a number or with K, M, G or T: "512M\"""",
    ),
    "places to listen": (
        """\
[daemon]
listen = ["tcp:80", "unix:?mode=0600", "unix:@", "fd:3", "unix:x?mode=rw", "unix:x?profil=a"]
""",
        f"""\
cannot use t.toml: 6 problems
t.toml:2: daemon.listen[0]: no such way to listen
    seen "tcp:80"; allowed: {WAYS_IN}
t.toml:2: daemon.listen[1]: no such way to listen
    seen "unix:?mode=0600"; allowed: {WAYS_IN}
t.toml:2: daemon.listen[2]: a socket's name has a character at least, and no NUL
    seen "unix:@"
t.toml:2: daemon.listen[3]: no pair of descriptors
    seen "fd:3"; allowed: "fd:READ,WRITE", two numbers
t.toml:2: daemon.listen[4]: mode is no octal number of at most 0777
    seen "unix:x?mode=rw"; allowed: "mode=0660"
t.toml:2: daemon.listen[5]: unknown option of a place
    seen "unix:x?profil=a"; allowed: "profile", "profiles", "mode", "owner", "uid", "gid"; did you mean "profile"?""",
    ),
    "places to listen that do not go with the rest": (
        """\
[daemon]
listen = ["systemd", "unix:x?profile=clerk", "unix:y?profile=clock&profiles=clock,default", "systemd?profile=clock"]
[agents.clock]
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: daemon.listen[1]: unknown profile
    seen "unix:x?profile=clerk"; did you mean "clock"?
t.toml:2: daemon.listen[2]: unknown profile
    seen "unix:y?profile=clock&profiles=clock,default"
t.toml:2: daemon.listen: what systemd hands over belongs to one place
    seen an array""",
    ),
    "the environment": (
        """\
[mcp.a]
command = "x"
args = ["${MISSING}", "${BAD-}"]
cwd = "${EMPTY}"
[mcp.a.env]
TOKEN = "${TOKEN}"
"A=B" = "x"
""",
        """\
cannot use t.toml: 5 problems
t.toml:3: mcp.a.args[0]: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
t.toml:3: mcp.a.args[1]: "${" begins no variable that can be read
    seen a string; allowed: "${NAME}", "${NAME:-default}", "${file:PATH}", "${credential:NAME}", "${command:WORDS}", \
or "$$" for a dollar
t.toml:4: mcp.a.cwd: is empty once its variables are in place
    seen "${EMPTY}"
t.toml:6: mcp.a.env.TOKEN: the environment has no TOKEN
    seen a string; allowed: "${TOKEN:-default}"
t.toml:7: mcp.a.env."A=B": not a valid name
    allowed: a variable's name: not empty, with no "=" and no NUL""",
    ),
    "who may open a profile": (
        """\
[agents.a]
token = "s3cret"
token_env = "S3CRET"
[agents.b]
token_env = "S3CRET"
uid = ["root", "s3-nobody", -1]
gid = []
[agents.c]
token = "${S3CRET}"
uid = true
gid = "s3-nobody"
[agents.d]
token_file = "s3cret"
jobs = 1
[agents.e]
token = ""
[agents.f]
token_env = "EMPTY"
uid = 4294967295
gid = 3.5
[agents.g]
token_file = "${EMPTY}"
[agents.h]
token = ["s3cret"]
token_fil = "s3cret"
""",
        """\
cannot use t.toml: 7 problems
t.toml:9: agents.c.token: the environment has no S3CRET
    seen a string; allowed: "${S3CRET:-default}"
t.toml:10: agents.c.uid: wrong kind of value
    seen true; allowed: a number or a name, or a list of them
t.toml:14: agents.d.jobs: wrong kind of value
    seen 1; allowed: true or false
t.toml:20: agents.f.gid: wrong kind of value
    seen 3.5; allowed: a number or a name, or a list of them
t.toml:22: agents.g.token_file: is empty once its variables are in place
    seen a string
t.toml:24: agents.h.token: wrong kind of value
    seen an array; allowed: a string
t.toml:25: agents.h.token_fil: unknown key
    did you mean "token_file"?""",
    ),
    "who may open a profile, once all is well formed": (
        """\
[agents.a]
token = "s3cret"
token_env = "S3CRET"
[agents.b]
token_env = "S3CRET"
uid = ["root", "s3-nobody", -1]
gid = []
[agents.c]
token = "${EMPTY}"
uid = 0
gid = "s3-nobody"
[agents.d]
token_file = "s3cret"
jobs = true
[agents.e]
token = ""
[agents.f]
token_env = "EMPTY"
uid = 4294967295
gid = 0
[agents.g]
# none
[agents.h]
# none
# none
""",
        """\
cannot use t.toml: 11 problems
t.toml:3: agents.a.token_env: "token" says already where the token is
    seen "S3CRET"
t.toml:5: agents.b.token_env: the environment has no such variable
    seen "S3CRET"
t.toml:6: agents.b.uid[1]: no such user
    seen "s3-nobody"
t.toml:6: agents.b.uid[2]: not a number of a user or a group
    seen -1; allowed: a whole number, at least 0 and at most 4294967294
t.toml:7: agents.b.gid: admits nobody
    seen an array; allowed: a number or a name, or a list of them that is not empty
t.toml:9: agents.c.token: the token is empty
    seen a string; allowed: 1 to 4096 bytes
t.toml:11: agents.c.gid: no such group
    seen "s3-nobody"
t.toml:13: agents.d.token_file: cannot read the token's file: No such file or directory
    seen a string
t.toml:16: agents.e.token: the token is empty
    seen a string; allowed: 1 to 4096 bytes
t.toml:18: agents.f.token_env: the token is empty
    seen "EMPTY"; allowed: 1 to 4096 bytes
t.toml:19: agents.f.uid: not a number of a user or a group
    seen 4294967295; allowed: a whole number, at least 0 and at most 4294967294""",
    ),
    "no TOML": (
        "[daemon]\ngrace_s = \n",
        """\
cannot read t.toml: 1 problem
t.toml:2: not TOML: Invalid value (column 11)""",
    ),
    "no TOML up to the end": (
        '[daemon]\nlisten = ["stdio"\n\n',
        """\
cannot read t.toml: 1 problem
t.toml:2: not TOML: Unclosed array (at the end)""",
    ),
}
