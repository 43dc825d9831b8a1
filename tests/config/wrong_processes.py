"""Wrong processes, each with the exact report that it gets."""

PROCESSES = {
    "a kind that there is not": (
        """\
[processes.p]
kind = "agnt"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: processes.p.kind: no such choice
    seen "agnt"; allowed: "agent", "barrier", "copy", "discard", "filter", "id", "map", "merge", "plumb", \
"project"; did you mean "agent"?""",
    ),
    "a process without a kind": (
        """\
[processes.p]
type = "!int -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: the key "kind" is missing
    allowed: "agent", "barrier", "copy", "discard", "filter", "id", "map", "merge", "plumb", "project\"""",
    ),
    "a process that is no table": (
        """\
[processes]
p = "id"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: processes.p: wrong kind of value
    seen a string; allowed: a table""",
    ),
    "a process whose name is no name": (
        """\
[processes."p q"]
kind = "id"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes."p q": not a valid name
    allowed: letters, digits, "-" and "_", a letter first, with dots between parts""",
    ),
    "a key that no process has": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
comand = ["y"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: processes.p.comand: unknown key
    did you mean "command"?""",
    ),
    "keys of another kind": (
        """\
[processes.p]
kind = "id"
map = "input"
command = ["x"]
chain = ["q"]
""",
        """\
cannot use t.toml: 3 problems
t.toml:3: processes.p.map: a process of kind id has no map
    allowed: in kind map only
t.toml:4: processes.p.command: a process of kind id has no command
    allowed: in kind agent only
t.toml:5: processes.p.chain: a process of kind id has no chain
    allowed: in kind plumb only""",
    ),
    "a map without an expression": (
        """\
[processes.p]
kind = "map"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: a process of kind map needs "map\"""",
    ),
    "a filter without an expression": (
        """\
[processes.p]
kind = "filter"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: a process of kind filter needs "filter\"""",
    ),
    "a projection without a place": (
        """\
[processes.p]
kind = "project"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: a process of kind project needs "project\"""",
    ),
    "a chain of nothing": (
        """\
[processes.p]
kind = "plumb"
chain = []
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.chain: too few entries
    seen an array; allowed: an array of 1 to 128 of: a string""",
    ),
    "a chain that is too long": (
        f'[processes.i]\nkind = "id"\n[processes.p]\nkind = "plumb"\nchain = {["i"] * 129}\n',
        """\
cannot use t.toml: 1 problem
t.toml:5: processes.p.chain: too many entries
    seen an array; allowed: an array of 1 to 128 of: a string""",
    ),
    "a type that is no arrow": (
        """\
[processes.p]
kind = "id"
type = "!int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: column 5: expected "|" or "->", found the end
    seen "!int"; allowed: "A -> B\"""",
    ),
    "a type of which one side is a stream": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
type = "!int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: processes.p.type: !int is a stream, and the other side is none: both sides of a process are \
streams, or neither is
    seen "!int -> int\"""",
    ),
    "a type with an unknown name": (
        """\
[processes.p]
kind = "id"
type = "!Query -> !Query"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: column 2: no such type: Query
    seen "!Query -> !Query"; allowed: int, number, string, bool, unit, json, or a declared name""",
    ),
    "id of another type": (
        """\
[processes.p]
kind = "id"
type = "!int -> !string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: id of !int gives !int, not !string
    seen "!int -> !string\"""",
    ),
    "copy of another type": (
        """\
[processes.p]
kind = "copy"
type = "!int -> (!int, !string)"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: copy of !int gives (!int, !int), not (!int, !string)
    seen "!int -> (!int, !string)\"""",
    ),
    "discard that gives a stream": (
        """\
[processes.p]
kind = "discard"
type = "!int -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: discard of !int gives unit, not !int
    seen "!int -> !int\"""",
    ),
    "merge of streams of two types": (
        """\
[processes.p]
kind = "merge"
type = "(!int, !string) -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: merge takes streams of one type, and not (!int, !string)""",
    ),
    "merge of one stream": (
        """\
[processes.p]
kind = "merge"
type = "!int -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:1: processes.p: merge takes several streams, (!A, !B), and not !int""",
    ),
    "barrier that gives two streams": (
        """\
[processes.p]
kind = "barrier"
type = "(!int, !string) -> (!int, !string)"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.type: barrier of (!int, !string) gives !(int, string), not (!int, !string)
    seen "(!int, !string) -> (!int, !string)\"""",
    ),
    "a projection past the last stream": (
        """\
[processes.p]
kind = "project"
project = 2
type = "(!int, !string) -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.project: there is no stream 2 in (!int, !string): they are counted from 0
    seen 2""",
    ),
    "a projection before the first stream": (
        """\
[processes.p]
kind = "project"
project = -1
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.project: too small
    seen -1; allowed: a whole number, at least 0 and at most 63""",
    ),
    "an agent with a command of nothing": (
        """\
[processes.p]
kind = "agent"
command = []
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.p.command: too few entries
    seen an array; allowed: an array of at least one of: a string without NUL""",
    ),
    "a command as for a shell": (
        """\
[tools.list]
command = "ls -l"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: tools.list.command: wrong kind of value
    seen a string; allowed: an array of the program and its arguments: ["ls", "-l"], where a shell has "ls -l\"""",
    ),
    "an agent that may call what there is not": (
        """\
[tools.search]
command = ["x"]
[processes.p]
kind = "agent"
command = ["x"]
tools = ["serch"]
mcp = ["ldc"]
""",
        """\
cannot use t.toml: 2 problems
t.toml:6: processes.p.tools[0]: no such tool in [tools]
    seen "serch"; did you mean "search"?
t.toml:7: processes.p.mcp[0]: no such server in [mcp]
    seen "ldc\"""",
    ),
    "an agent and a profile of one name": (
        """\
[processes.writer]
kind = "agent"
command = ["x"]
tools = []
[agents.writer]
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: agents.writer: the agent process of this name is a profile of this name already""",
    ),
    "what only a program has": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
memory = "1 GiB"
stop_s = true
[processes.q]
kind = "id"
network = false
input_mode = "text"
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: processes.p.stop_s: wrong kind of value
    seen true; allowed: a number, at least 0 and at most 60""",
    ),
    "what only a program has, once all is well formed": (
        """\
[processes.p]
kind = "agent"
command = ["x"]
memory = "1 GiB"
stop_s = 2
[processes.q]
kind = "id"
network = false
input_mode = "text"
""",
        """\
cannot use t.toml: 2 problems
t.toml:8: processes.q.network: a process of kind id has no network
    allowed: in kind agent only
t.toml:9: processes.q.input_mode: a process of kind id has no input_mode
    allowed: in kind agent only""",
    ),
}
