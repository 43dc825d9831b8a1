"""Wrong plumb files, each with the exact report that it gets: the configuration, the files, the report."""

PLUMB = {
    "files that are none": (
        'plumb = ["none.plumb", 3, "", "${MISSING}/a.plumb", "a.plumb", "a.plumb"]\n',
        {"a.plumb": ""},
        """\
cannot use t.toml: 5 problems
t.toml:1: plumb[0]: cannot read this file: No such file or directory
    seen "none.plumb"
t.toml:1: plumb[5]: this file is named twice
    seen "a.plumb"
t.toml:1: plumb[1]: wrong kind of value
    seen 3; allowed: a string that is not empty, without NUL
t.toml:1: plumb[2]: not well-formed
    seen ""; allowed: a string that is not empty, without NUL
t.toml:1: plumb[3]: the environment has no MISSING
    seen "${MISSING}/a.plumb"; allowed: "${MISSING:-default}\"""",
    ),
    "a file that is no list": (
        'plumb = "a.plumb"\n',
        {"a.plumb": "let echo : string -> string = id\n"},
        """\
cannot use t.toml: 1 problem
t.toml:1: plumb: wrong kind of value
    seen a string; allowed: an array of a string that is not empty, without NUL""",
    ),
    "a name that both declare": (
        """\
plumb = ["a.plumb"]
[types]
Query = "string"

[tools.echo]
inline = "id"
""",
        {
            "a.plumb": """\
type Query = {text: string}

let echo : string -> string = id
"""
        },
        """\
cannot use t.toml: 2 problems
a.plumb:1: types.Query is declared already, at t.toml:3
    type Query = {text: string}
         ^
a.plumb:3: tools.echo is declared already, at t.toml:5
    let echo : string -> string = id
        ^""",
    ),
    "a name that two files declare": (
        'plumb = ["a.plumb", "b.plumb"]\n',
        {
            "a.plumb": "let echo : string -> string = id\n",
            "b.plumb": """\

let echo : int -> int = id
""",
        },
        """\
cannot use t.toml: 1 problem
b.plumb:2: "echo" is declared already, in a.plumb, line 1
    let echo : int -> int = id
        ^""",
    ),
    "what is no declaration": (
        """\
plumb = ["a.plumb"]
[limits]
call_s = 0
""",
        {
            "a.plumb": """\
let echo : string -> string = id
lot x : int -> int = id
"""
        },
        """\
cannot use t.toml: 2 problems
t.toml:3: limits.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400
a.plumb:2: expected a declaration or the end of the file, found "lot"
    lot x : int -> int = id
    ^""",
    ),
    "a declaration that does not end": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": "let echo : string ->\n"},
        """\
cannot use t.toml: 1 problem
a.plumb:1: expected a type, found the end of the file
    let echo : string ->
                        ^""",
    ),
    "a type that is wrong": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
type Query = {text: strng}
let f : Qeury -> string = id
"""
        },
        """\
cannot use t.toml: 2 problems
a.plumb:1: no such type: strng
    did you mean "string"?
    type Query = {text: strng}
                        ^
a.plumb:2: no such type: Qeury
    did you mean "Query"?
    let f : Qeury -> string = id
            ^""",
    ),
    "an expression that is wrong": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\

@tool true
let double : int -> int = map(score * weight)
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:3: tools.double.map: the input is int, so one free name stands for it: there are score, weight
    seen "score * weight"
    let double : int -> int = map(score * weight)
                                  ^""",
    ),
    "id of another type": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": "let f : int -> string = id\n"},
        """\
cannot use t.toml: 1 problem
a.plumb:1: tools.f.type: id of int gives int, not string
    seen "int -> string"; allowed: "int -> int"
    let f : int -> string = id
            ^""",
    ),
    "a key that no tool has": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": "let search : string -> string = tool { proces: searcher }\n"},
        """\
cannot use t.toml: 1 problem
a.plumb:1: a tool has no key "proces"
    did you mean "process"?
    let search : string -> string = tool { proces: searcher }
                                           ^""",
    ),
    "a process that there is not": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let searcher : !string -> !string = id
let search : string -> string = tool { process: sercher }
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:2: tools.search.process: no such process in [processes]
    seen "sercher"; did you mean "searcher"?
    let search : string -> string = tool { process: sercher }
                                           ^""",
    ),
    "a server that there is not": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let ldc = { command: "s3cret" }
let search : {q: string} -> json = tool { mcp: ldd, name: "search" }
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:2: tools.search.mcp: no such server in [mcp]
    seen "ldd"
    let search : {q: string} -> json = tool { mcp: ldd, name: "······" }
                                              ^""",
    ),
    "a server with a wrong key": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": 'let search : {q: string} -> json = tool { mcp: { command: "npx", arg: ["s3cret"] } }\n'},
        """\
cannot use t.toml: 1 problem
a.plumb:1: tools.search.mcp.arg: unknown key
    did you mean "args"?
    let search : {q: string} -> json = tool { mcp: { command: "···", arg: ["······"] } }
                                                                     ^""",
    ),
    "a value of the wrong kind": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": 'let search : {q: string} -> json = tool { mcp: { command: "npx", args: "s3cret", call_s: 0 } }\n'},
        """\
cannot use t.toml: 2 problems
a.plumb:1: tools.search.mcp.args: wrong kind of value
    seen a string; allowed: an array of a string without NUL
    let search : {q: string} -> json = tool { mcp: { command: "···", args: "······", call_s: 0 } }
                                                                     ^
a.plumb:1: tools.search.mcp.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400
    …: string} -> json = tool { mcp: { command: "···", args: "······", call_s: 0 } }
                                                                       ^""",
    ),
    "the environment in a file": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let ldc = { command: "${MISSING}", env: { T: "s3cret${MISSING}" } }
let f : json -> json = tool { mcp: ldc }
"""
        },
        """\
cannot use t.toml: 2 problems
a.plumb:1: mcp.ldc.command: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
    let ldc = { command: "··········", env: { T: "················" } }
                ^
a.plumb:1: mcp.ldc.env.T: the environment has no MISSING
    seen a string; allowed: "${MISSING:-default}"
    let ldc = { command: "··········", env: { T: "················" } }
                                              ^""",
    ),
    "a chain whose links do not meet": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let one : !string -> !string = id
let two : !int -> !int = id
let both : !string -> !int = plumb(a, b) { a ; one ; two ; b }
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:3: processes.both.chain[1]: two takes !int, and what comes is !string: messages: string is not int
    seen "two"
    let both : !string -> !int = plumb(a, b) { a ; one ; two ; b }
                                                         ^""",
    ),
    "a filter that is made a tool": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
@tool true
let some : !int -> !int = filter(score > 2)
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:2: tools.some.process: cannot lower filter to a tool (not total)
    seen "some"
    let some : !int -> !int = filter(score > 2)
        ^""",
    ),
    "problems of both in their order": (
        """\
plumb = ["a.plumb"]
[limits]
call_s = 1
[agents.default]
tools = ["ecko"]
""",
        {
            "a.plumb": """\
let echo : string -> string = id
let f : int -> string = id
"""
        },
        """\
cannot use t.toml: 2 problems
t.toml:5: agents.default.tools[0]: no such tool in [tools]
    seen "ecko"; did you mean "echo"?
a.plumb:2: tools.f.type: id of int gives int, not string
    seen "int -> string"; allowed: "int -> int"
    let f : int -> string = id
            ^""",
    ),
    "mistakes of form alone, where there are some": (
        """\
plumb = ["a.plumb"]
[limits]
call_s = 0
[agents.default]
tools = ["ecko"]
""",
        {"a.plumb": "let f : int -> string = id\nlet g =\n"},
        """\
cannot use t.toml: 2 problems
t.toml:3: limits.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400
a.plumb:2: expected a value or how it runs, found the end of the file
    let g =
           ^""",
    ),
    "a tool that another file's profile names": (
        """\
plumb = ["a.plumb"]
[agents.default]
tools = ["twice"]
mcp = ["x"]
""",
        {
            "a.plumb": """\
@tool false
let twice : int -> int = map(score * 2)
"""
        },
        """\
cannot use t.toml: 2 problems
t.toml:3: agents.default.tools[0]: tools.twice has expose = false: it is there for chains only
    seen "twice"
t.toml:4: agents.default.mcp[0]: no such server in [mcp]
    seen "x\"""",
    ),
}
