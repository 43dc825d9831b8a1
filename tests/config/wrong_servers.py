"""Wrong servers, each with the exact report that it gets."""

SERVERS = {
    "a server with both ways": (
        """\
[mcp.a]
command = "x"
url = "https://example.org/mcp"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: mcp.a: a server has command or url, this one has both""",
    ),
    "a server with neither way": (
        """\
[mcp.a]
prefix = "x"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: mcp.a: a server has command or url, this one has neither""",
    ),
    "a URL that is none": (
        """\
[mcp.a]
url = "example.org/mcp"
[mcp.b]
url = "ftp://example.org"
[mcp.c]
url = "https://ann:s3cret@example.org"
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: mcp.a.url: this is no URL that can be used
    allowed: http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any
t.toml:4: mcp.b.url: this is no URL that can be used
    allowed: http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any
t.toml:6: mcp.c.url: this is no URL that can be used
    allowed: http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any""",
    ),
    "what means nothing for a URL": (
        """\
[mcp.a]
url = "https://example.org/mcp"
args = ["x"]
env = { A = "x" }
cwd = "/"
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: mcp.a.args: only a server with command has args
t.toml:4: mcp.a.env: only a server with command has env
t.toml:5: mcp.a.cwd: only a server with command has cwd""",
    ),
    "a token for a command": (
        """\
[mcp.a]
command = "x"
token_env = "TOKEN"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: mcp.a.token_env: only a server with url has token_env""",
    ),
    "a tool of a server that there is not": (
        """\
[mcp.ldc]
command = "x"
[tools.a]
mcp = "ldd"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: tools.a.mcp: no such server in [mcp]
    seen "ldd"; did you mean "ldc"?""",
    ),
    "a tool of a server by a URL that is none": (
        """\
[tools.a]
mcp = "https://ann:s3cret@example.org"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.a.mcp: this is no URL that can be used
    allowed: http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any""",
    ),
    "a tool of a server by what is no server": (
        """\
[tools.a]
mcp = 3
[tools.b]
mcp = ["x"]
[tools.c]
mcp = ""
""",
        """\
cannot use t.toml: 2 problems
t.toml:2: tools.a.mcp: wrong kind of value
    seen a whole number; allowed: a server's name in [mcp], a URL, or a table as in [mcp]
t.toml:4: tools.b.mcp: wrong kind of value
    seen an array; allowed: a server's name in [mcp], a URL, or a table as in [mcp]""",
    ),
    "a tool of a server by what is no server, once all is well formed": (
        """\
[tools.a]
inline = "id"
[tools.b]
inline = "id"
[tools.c]
mcp = ""
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: tools.c.mcp: no such server in [mcp]
    seen a string""",
    ),
    "a server's table with a wrong key in a tool": (
        """\
[tools.a]
mcp = { commnd = "npx" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.a.mcp.commnd: unknown key
    did you mean "command"?""",
    ),
    "a server's table with a wrong value in a tool": (
        """\
[tools.a]
mcp = { command = "npx", call_s = 0, args = ["x", 1], tools = "a" }
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: tools.a.mcp.args[1]: wrong kind of value
    seen a whole number; allowed: a string without NUL
t.toml:2: tools.a.mcp.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400
t.toml:2: tools.a.mcp.tools: wrong kind of value
    seen a string; allowed: an array of a tool's name, or a pattern with * and ? alone""",
    ),
    "a server's table with a wrong key in an agent": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
mcp = ["ldc", { command = "npx", arg = ["-y"] }, 7]
[mcp.ldc]
command = "x"
""",
        """\
cannot use t.toml: 2 problems
t.toml:4: processes.p.mcp[1].arg: unknown key
    did you mean "args"?
t.toml:4: processes.p.mcp[2]: wrong kind of value
    seen a whole number; allowed: a server's name in [mcp], a URL, or a table as in [mcp]""",
    ),
    "a server's table that says nothing": (
        """\
[tools.a]
mcp = {}
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.a.mcp: a server has command or url, this one has neither""",
    ),
    "bounds that are none in a server's table": (
        """\
[tools.a]
mcp = { command = "x", network = "no", user = "nobody-there", nice = 99, read = [""] }
[mcp.far]
url = "https://docs.example/"
network = false
[mcp.near]
command = "x"
memory = "lots"
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: tools.a.mcp.network: wrong kind of value
    seen "no"; allowed: true or false
t.toml:2: tools.a.mcp.nice: too large
    seen 99; allowed: a whole number, at least 0 and at most 19
t.toml:2: tools.a.mcp.read[0]: not well-formed
    seen ""; allowed: a string that is not empty, without NUL""",
    ),
    "bounds that are none in a server's table, once all is well formed": (
        """\
[tools.a]
mcp = { command = "x", network = false, user = "nobody-there", nice = 9 }
[mcp.far]
url = "https://docs.example/"
network = false
[mcp.near]
command = "x"
memory = "lots"
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: tools.a.mcp.user: no such user
    seen "nobody-there"
t.toml:5: mcp.far.network: only a server with command has network
t.toml:8: mcp.near.memory: not a size
    seen "lots"; allowed: bytes, as a number or with K, M, G or T: "512M\"""",
    ),
    "a tool that its server does not offer": (
        """\
[mcp.ldc]
command = "x"
deny = ["erase"]
tools = ["search"]
[tools.erase]
mcp = "ldc"
[tools.a]
mcp = "ldc"
name = "serch"
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: tools.erase.mcp: the server's deny takes erase away""",
    ),
    "a tool of a server that takes no record": (
        """\
[mcp.ldc]
command = "x"
[tools.a]
mcp = "ldc"
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: tools.a.type: a server's tool takes a record, and int is none
    seen "int -> int\"""",
    ),
    "the environment in a server's table": (
        """\
[tools.a]
mcp = { command = "${MISSING}", args = ["${BAD-}"], env = { A = "${MISSING}" }, cwd = "${EMPTY}" }
""",
        """\
cannot use t.toml: 4 problems
t.toml:2: tools.a.mcp.command: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
t.toml:2: tools.a.mcp.args[0]: "${" begins no variable that can be read
    seen a string; allowed: "${NAME}", "${NAME:-default}", "${file:PATH}", "${credential:NAME}", "${command:WORDS}", \
or "$$" for a dollar
t.toml:2: tools.a.mcp.env.A: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
t.toml:2: tools.a.mcp.cwd: is empty once its variables are in place
    seen "${EMPTY}\"""",
    ),
    "the environment in a URL": (
        """\
[mcp.a]
url = "${MISSING}"
[mcp.b]
url = "${EMPTY}"
[tools.a]
mcp = "https://${MISSING}"
""",
        """\
cannot use t.toml: 3 problems
t.toml:2: mcp.a.url: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
t.toml:4: mcp.b.url: is empty once its variables are in place
    seen a string
t.toml:6: tools.a.mcp: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}\"""",
    ),
    "the environment in the command of all agents": (
        'agent_command = ["${EMPTY}", "${MISSING}"]\n',
        """\
cannot use t.toml: 2 problems
t.toml:1: agent_command[0]: is empty once its variables are in place
    seen a string
t.toml:1: agent_command[1]: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}\"""",
    ),
    "a command of all agents that is none": (
        'agent_command = "run-agent --quiet"\n',
        """\
cannot use t.toml: 1 problem
t.toml:1: agent_command: wrong kind of value
    seen a string; allowed: an array of the program and its arguments: ["ls", "-l"], where a shell has "ls -l\"""",
    ),
}
