"""Wrong configurations, each with the exact report that it gets."""

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
    allowed: one of agents, daemon, limits, mcp, tools, types""",
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
    "a missing key": (
        "[mcp.a]\nargs = []\n",
        """\
cannot use t.toml: 1 problem
t.toml:1: mcp.a: the key "command" is missing
    allowed: a string that is not empty, without NUL""",
    ),
    "a name with two underscores": (
        '[tools.a__b]\ninline = "id"\ntype = "int -> int"\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: tools.a__b: not a valid name
    allowed: letters, digits, "-" and "_" (never two), a letter first, with dots between parts""",
    ),
    "a name that a terminal would obey": (
        '[agents."a\\u001b[31m"]\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: agents."a\\u001b[31m": not a valid name
    allowed: letters, digits, "-" and "_" (never two), a letter first, with dots between parts""",
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
cannot use t.toml: 3 problems
t.toml:2: tools.echo.inline: no such choice
    seen "idd"; allowed: "copy", "discard", "id"; did you mean "id"?
t.toml:3: mcp.time: the key "command" is missing
    allowed: a string that is not empty, without NUL
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
    "what comes later is refused by name": (
        """\
mcp_json = [".mcp.json"]
[processes.p]
kind = "agent"
[mcp.docs]
url = "https://user:word@host/mcp"
token_env = "TOKEN"
on_timeout = "cancel"
[tools.thumb]
python = "a.b:c"
memory = "1 GiB"
[agents.default]
tools = ["thumb"]
token = "s3cret"
""",
        """\
cannot use t.toml: 8 problems
t.toml:1: mcp_json: not yet available
    seen an array
t.toml:2: processes: not yet available
    seen a table
t.toml:5: mcp.docs.url: not yet available
    seen a string
t.toml:6: mcp.docs.token_env: not yet available
    seen a string
t.toml:7: mcp.docs.on_timeout: not yet available
    seen "cancel"; allowed: "dead"
t.toml:9: tools.thumb.python: not yet available
    seen a string
t.toml:10: tools.thumb.memory: not yet available
    seen a string
t.toml:13: agents.default.token: not yet available
    seen a string""",
    ),
    "places to listen": (
        """\
[daemon]
listen = ["tcp:80", "/run/x", "unix:", "systemd", "fd:3,4", "unix:@x", "unix:x?mode=0600"]
""",
        """\
cannot use t.toml: 7 problems
t.toml:2: daemon.listen[0]: no such way to listen
    seen "tcp:80"; allowed: "unix:PATH" or "stdio"
t.toml:2: daemon.listen[1]: no such way to listen
    seen "/run/x"; allowed: "unix:PATH" or "stdio"; did you mean "unix:/run/x"?
t.toml:2: daemon.listen[2]: no such way to listen
    seen "unix:"; allowed: "unix:PATH" or "stdio"
t.toml:2: daemon.listen[3]: sockets that systemd hands over are not yet available
    seen "systemd"; allowed: "unix:PATH" or "stdio"
t.toml:2: daemon.listen[4]: inherited descriptors are not yet available
    seen "fd:3,4"; allowed: "unix:PATH" or "stdio"
t.toml:2: daemon.listen[5]: abstract sockets are not yet available
    seen "unix:@x"; allowed: "unix:PATH" or "stdio"
t.toml:2: daemon.listen[6]: options of a socket are not yet available
    seen "unix:x?mode=0600"; allowed: "unix:PATH" or "stdio\"""",
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
    seen a string; allowed: "${NAME}", "${NAME:-default}", or "$$" for a dollar
t.toml:4: mcp.a.cwd: is empty once its variables are in place
    seen "${EMPTY}"
t.toml:6: mcp.a.env.TOKEN: the environment has no TOKEN
    seen a string; allowed: "${TOKEN:-default}"
t.toml:7: mcp.a.env."A=B": not a valid name
    allowed: a variable's name: not empty, with no "=" and no NUL""",
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
