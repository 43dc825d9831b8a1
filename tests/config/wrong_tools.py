"""Wrong tools, each with the exact report that it gets."""

TOOLS = {
    "a tool that nothing runs": (
        """\
[tools.a]
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: tools.a: a tool has exactly one way to run, this one has none
    allowed: process, mcp, inline, map, command, python, rest, native, builtin""",
    ),
    "a tool with two ways to run": (
        """\
[tools.a]
process = "p"
mcp = "m"
[processes.p]
kind = "id"
[mcp.m]
command = "x"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: tools.a: a tool has exactly one way to run, this one has process and mcp
    allowed: process, mcp, inline, map, command, python, rest, native, builtin""",
    ),
    "arguments of a tool that is no command": (
        """\
[tools.a]
inline = "id"
args = ["x"]
env = { A = "x" }
cwd = "/"
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: tools.a.args: only a tool with command has args
t.toml:4: tools.a.env: only a tool with command or python has env
t.toml:5: tools.a.cwd: only a tool with command or python has cwd""",
    ),
    "fields in arguments without the mode for them": (
        """\
[tools.a]
command = ["cat"]
args = ["--", "${path}", "${files...}", "${verbose?-v}"]
type = "{path: string, files: [string], verbose: bool} -> json"
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: tools.a.args[1]: "${path}" names a field of the input with input_mode = "args" alone, and the environment \
has no path
    seen a string; allowed: input_mode = "args", or "${path:-default}"
t.toml:3: tools.a.args[2]: "${files}" names a field of the input with input_mode = "args" alone
    seen a string; allowed: input_mode = "args"
t.toml:3: tools.a.args[3]: "${verbose}" names a field of the input with input_mode = "args" alone
    seen a string; allowed: input_mode = "args\"""",
    ),
    "lists and flags that the input has not": (
        """\
[tools.a]
command = ["cat"]
args = ["${path...}", "${count?-n}", "${fils...}"]
input_mode = "args"
type = "{path: string, files: [string], count: int} -> json"
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: tools.a.args[0]: "..." needs a list, and path is string
    seen a string
t.toml:3: tools.a.args[1]: "?" needs a bool or a field that may be left out, and count is int
    seen a string
t.toml:3: tools.a.args[2]: the input has no field fils
    seen a string; did you mean "files"?""",
    ),
    "a server's name for a tool that has none": (
        """\
[tools.a]
inline = "id"
name = "b"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.name: only a tool with mcp has name""",
    ),
    "a tool of a process that there is not": (
        """\
[processes.searcher]
kind = "id"
[tools.a]
process = "sercher"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: tools.a.process: no such process in [processes]
    seen "sercher"; did you mean "searcher"?""",
    ),
    "a tool of a filter": (
        """\
[processes.p]
kind = "filter"
type = "!int -> !int"
filter = "input > 0"
[tools.a]
process = "p"
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: tools.a.process: cannot lower filter to a tool (not total)
    seen "p\"""",
    ),
    "a tool of merge, of barrier and of a projection": (
        """\
[processes.m]
kind = "merge"
type = "(!int, !int) -> !int"
[processes.b]
kind = "barrier"
type = "(!int, !int) -> !(int, int)"
[processes.p]
kind = "project"
project = 0
type = "(!int, !int) -> !int"
[tools.m]
process = "m"
[tools.b]
process = "b"
[tools.p]
process = "p"
""",
        """\
cannot use t.toml: 3 problems
t.toml:12: tools.m.process: cannot lower merge to a tool (not total)
    seen "m"
t.toml:14: tools.b.process: cannot lower barrier to a tool (not total)
    seen "b"
t.toml:16: tools.p.process: cannot lower project to a tool (not total)
    seen "p\"""",
    ),
    "a tool that takes what its process does not": (
        """\
[processes.p]
kind = "agent"
type = "!string -> !int"
command = ["x"]
[tools.a]
process = "p"
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:7: tools.a.type: the tool a takes int, but its process p : !string -> !int does not (int is not string)
    seen "int -> int"; allowed: as input: string""",
    ),
    "a tool that gives what its process does not": (
        """\
[processes.p]
kind = "agent"
type = "!string -> !int"
command = ["x"]
[tools.a]
process = "p"
type = "string -> string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:7: tools.a.type: the tool a gives string, but its process p : !string -> !int does not (string is not \
int)
    seen "string -> string"; allowed: as output: int""",
    ),
    "schemas of a tool that is made of a process": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
[tools.a]
process = "p"
input_schema = { type = "object" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: tools.a: a tool made of a process states its type as text, "A -> B\"""",
    ),
    "a tool whose chain lifts it": (
        """\
[processes.p]
kind = "plumb"
chain = ["lift(a)"]
[tools.a]
process = "p"
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.chain[0]: a tool cannot lead back to itself: a -> a
    seen "lift(a)\"""",
    ),
    "a hint that is too long": (
        f'[tools.a]\ninline = "id"\nhint = "{"h" * 2001}"\n',
        f"""\
cannot use t.toml: 1 problem
t.toml:3: tools.a.hint: too long
    seen "{"h" * 79}…; allowed: a string of at most 2000 characters""",
    ),
    "exposure that is no answer": (
        """\
[tools.a]
inline = "id"
expose = "no"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.expose: wrong kind of value
    seen "no"; allowed: true or false or "named\"""",
    ),
    "a profile of a tool that is for chains only": (
        """\
[tools.a]
inline = "id"
expose = false
[agents.default]
tools = ["a"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: agents.default.tools[0]: tools.a has expose = false: it is there for chains only
    seen "a\"""",
    ),
    "names of tools": (
        """\
[tools."a b"]
inline = "id"
[tools."a:b"]
inline = "id"
[tools."1a"]
inline = "id"
[tools."a..b"]
inline = "id"
""",
        """\
cannot use t.toml: 4 problems
t.toml:1: tools."a b": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts
t.toml:3: tools."a:b": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts
t.toml:5: tools.1a: not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts
t.toml:7: tools."a..b": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts""",
    ),
    "a key that there was": (
        """\
[tools.a]
command = ["x"]
reuse = 5
[tools.b]
python = "json:loads"
prefork = 2
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: tools.a.reuse: this key is gone
    allowed: an MCP server, or a Python function with `state`, which live on from call to call
t.toml:6: tools.b.prefork: this key is gone
    allowed: `resident`, for a function that may serve one call after the other in one process""",
    ),
    "mistakes of several tables, none of which hides another": (
        """\
[tools.a]
commnd = ["x"]
type = "Foo -> int"
[tools."c..d"]
inline = "id"
[processes.m]
kind = "merge"
type = "(!int, !int) -> !int"
xx = 1
[processes.copies]
kind = "copy"
type = "!int -> (!int, !int)"
[processes.n]
kind = "plumb"
type = "!int -> !int"
chain = ["copies", "m"]
[processes.o]
kind = "plumb"
type = "!int -> !int"
chain = ["lift(c..d)", "lift(a)"]
[tools.z]
chain = ["p"]
[agents.x]
tools = ["c..d", "m", "a"]
jbos = true
""",
        """\
cannot use t.toml: 5 problems
t.toml:2: tools.a.commnd: unknown key
    did you mean "command"?
t.toml:4: tools."c..d": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts
t.toml:9: processes.m.xx: unknown key
    allowed: one of admin, allow, approve, approver, args, budget, catalog, chain, command, cpu_s, cwd, deny, \
description, env, exit_codes, file_size, files, filter, gid, group, input_mode, jobs, kind, make, map, max_output, \
mcp, mcp_resources, memory, model, network, nice, openapi, options, order, output_bytes, output_mode, overflow, \
ports, priority, processes, project, prompt, queue, read, redact, resolve, roots, sandbox, separator, stop_s, \
token, token_env, token_file, toolboxes, tools, turn_budget, type, uid, user, warm, when, workspace, workspaces, write
t.toml:22: tools.z.chain: chain is a key of [processes]; a tool is made of a process
    allowed: process = "z", and chain in [processes.z]
t.toml:25: agents.x.jbos: unknown key
    did you mean "jobs"?""",
    ),
    "mistakes of several tables, none of which hides another, once all is well formed": (
        """\
[tools.a]
command = ["x"]
type = "Foo -> int"
[tools.c_d]
inline = "id"
[processes.m]
kind = "merge"
type = "(!int, !int) -> !int"
# none
[processes.copies]
kind = "copy"
type = "!int -> (!int, !int)"
[processes.n]
kind = "plumb"
type = "!int -> !int"
chain = ["copies", "m"]
[processes.o]
kind = "plumb"
type = "!int -> !int"
chain = ["lift(c_d)", "lift(a)"]
[tools.z]
inline = "id"
[agents.x]
tools = ["c_d", "m", "a"]
jobs = true
""",
        """\
cannot use t.toml: 2 problems
t.toml:3: tools.a.type: column 1: no such type: Foo
    seen "Foo -> int"; allowed: int, number, string, bool, unit, json, or a declared name
t.toml:24: agents.x.tools[1]: no such tool in [tools]: m is a process; a tool can be made of it
    seen "m\"""",
    ),
}
