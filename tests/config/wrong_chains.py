"""Wrong chains, each with the exact report that it gets."""

CHAINS = {
    "a chain of chains that is too long": (
        f"""\
[processes.i]
kind = "id"
type = "!int -> !int"
[processes.p]
kind = "plumb"
chain = {["i"] * 64}
[processes.q]
kind = "plumb"
chain = ["p", "p", "p"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:9: processes.q.chain[2]: a chain has at most 128 stages, those of the chains within it counted too""",
    ),
    "a chain through a process that there is not": (
        """\
[processes.clean]
kind = "id"
[processes.p]
kind = "plumb"
chain = ["claen"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: processes.p.chain[0]: no such process in [processes]
    seen "claen"; did you mean "clean"?""",
    ),
    "a chain and a tool of processes that have a mistake": (
        """\
[processes.clean]
kind = "id"
type = "!Query -> !Query"
[processes.p]
kind = "plumb"
chain = ["clean"]
[tools.t]
process = "clean"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: processes.clean.type: column 2: no such type: Query
    seen "!Query -> !Query"; allowed: int, number, string, bool, unit, json, or a declared name""",
    ),
    "a chain through a tool's name": (
        """\
[tools.search]
command = ["x"]
type = "string -> string"
[processes.clean]
kind = "id"
type = "!string -> !string"
[processes.p]
kind = "plumb"
chain = ["clean", "search"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:9: processes.p.chain[1]: 'search' has bare types (base category); only stream morphisms can be wired \
into pipelines""",
    ),
    "a chain through a process with bare types": (
        """\
[processes.search]
kind = "agent"
type = "string -> string"
command = ["x"]
[processes.p]
kind = "plumb"
chain = ["search"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:7: processes.p.chain[0]: 'search' has bare types (base category); only stream morphisms can be wired \
into pipelines""",
    ),
    "a chain that lifts what there is not": (
        """\
[tools.search]
command = ["x"]
[processes.p]
kind = "plumb"
chain = ["lift(serch)"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: processes.p.chain[0]: no such tool in [tools]
    seen "lift(serch)"; did you mean "search"?""",
    ),
    "a chain that lifts a process": (
        """\
[processes.clean]
kind = "id"
[processes.p]
kind = "plumb"
chain = ["lift(clean)"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: processes.p.chain[0]: lift takes a tool, and clean is a process: a chain names it as it is
    seen "lift(clean)"; did you mean "clean"?""",
    ),
    "a chain whose links do not meet": (
        """\
[processes.words]
kind = "agent"
type = "!string -> !{text: string}"
command = ["x"]
[processes.count]
kind = "map"
type = "!int -> !int"
map = "input + 1"
[processes.p]
kind = "plumb"
chain = ["words", "count"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:11: processes.p.chain[1]: count takes !int, and what comes is !{text: string}: messages: {text: \
string} is not int
    seen "count\"""",
    ),
    "a chain whose type is not its links'": (
        """\
[processes.words]
kind = "agent"
type = "!string -> !int"
command = ["x"]
[processes.p]
kind = "plumb"
type = "!string -> !bool"
chain = ["words"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:7: processes.p.type: the chain !string -> !int does not give !bool: messages: int is not bool
    seen "!string -> !bool\"""",
    ),
    "a chain that leads back to itself": (
        """\
[processes.p]
kind = "plumb"
chain = ["q"]
[processes.q]
kind = "plumb"
chain = ["p"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: processes.q.chain[0]: a chain cannot lead back to itself: p -> q -> p""",
    ),
    "what only follows from a wrong process is not told": (
        """\
[processes.clean]
kind = "idd"
type = "!int -> !int"
[processes.p]
kind = "plumb"
chain = ["clean"]
[tools.a]
process = "clean"
type = "int -> int"
[tools.b]
process = "p"
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: processes.clean.kind: no such choice
    seen "idd"; allowed: "agent", "barrier", "copy", "discard", "filter", "id", "map", "merge", "plumb", \
"project"; did you mean "id"?""",
    ),
}
