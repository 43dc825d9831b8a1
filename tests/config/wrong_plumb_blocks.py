"""Wrong blocks and types in plumb files, each with the exact report that it gets."""

PLUMB_BLOCKS = {
    "keys and kinds that a server or a block does not take": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let ldc = { command: "x", agrs: ["y"] }
let f : {} -> json = tool { mcp: ldc }
let g : {} -> json = tool { mcp: { comand: "x" } }
let h : string -> json = tool { command: 5 }
let z = 5
let k : {} -> json = tool { mcp: z }
let m : !string -> !string = agent { mcp: ldc, tools: "x", command: "${NOPE}" }
"""
        },
        """\
cannot use t.toml: 7 problems
a.plumb:1: mcp.ldc.agrs: unknown key
    did you mean "args"?
    let ldc = { command: "·", agrs: ["·"] }
                              ^
a.plumb:3: tools.g.mcp.comand: unknown key
    did you mean "command"?
    let g : {} -> json = tool { mcp: { comand: "·" } }
                                       ^
a.plumb:4: command takes a text, or a list of texts
    let h : string -> json = tool { command: 5 }
                                    ^
a.plumb:6: tools.k.mcp: wrong kind of value
    seen a whole number; allowed: a server's name in [mcp], a URL, or a table as in [mcp]
    let k : {} -> json = tool { mcp: z }
                                ^
a.plumb:7: processes.m.mcp: wrong kind of value
    seen a string; allowed: an array of a server's name in [mcp], a URL, or a table as in [mcp]
    let m : !string -> !string = agent { mcp: ldc, tools: "·", command: "·······" }
                                         ^
a.plumb:7: processes.m.tools: wrong kind of value
    seen a string; allowed: an array of a string
    let m : !string -> !string = agent { mcp: ldc, tools: "·", command: "·······" }
                                                   ^
a.plumb:7: processes.m.command[0]: the environment has no NOPE
    seen a string; allowed: "${NOPE:-default}"
    let m : !string -> !string = agent { mcp: ldc, tools: "·", command: "·······" }
                                                               ^""",
    ),
    "a fork, which is told of once": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let w : !string -> !string = agent { command: ["x"] }
let c : !string -> !string = plumb(i, o) { i ; w ; o  w ; id }
"""
        },
        """\
cannot use t.toml: 1 problem
a.plumb:2: a fork: "w" leads to "o" and "id", and a chain is linear
    let c : !string -> !string = plumb(i, o) { i ; w ; o  w ; id }
                                                   ^""",
    ),
    "a comment that does not end": (
        'plumb = ["a.plumb"]\n',
        {"a.plumb": "\n(* open\nlet x = 5\n"},
        """\
cannot use t.toml: 1 problem
a.plumb:2: a comment begins here, and no *) ends it
    (*     \n    ^""",
    ),
    "names within types": (
        """\
plumb = ["a.plumb"]
[types]
Mine = "int"
""",
        {
            "a.plumb": """\
type A = {a: int,
  b: Strin,
  c: (Mine, Foo)
}
let f : {x: A,
 y: Bar} -> A = tool { command: "x" }
let double : int -> Foo = map(score * 2)
let q : Int -> String = id
let e : any -> boolean = tool { command: "x" }
"""
        },
        """\
cannot use t.toml: 8 problems
a.plumb:2: no such type: Strin
    did you mean "string"?
      b: Strin,
         ^
a.plumb:3: no such type: Foo; there are int, number, string, bool, unit, json, or a declared name
      c: (Mine, Foo)
                ^
a.plumb:6: no such type: Bar; there are int, number, string, bool, unit, json, or a declared name
     y: Bar} -> A = tool { command: "·" }
        ^
a.plumb:7: no such type: Foo; there are int, number, string, bool, unit, json, or a declared name
    let double : int -> Foo = map(score * 2)
                        ^
a.plumb:8: no such type: Int
    did you mean "int"?
    let q : Int -> String = id
            ^
a.plumb:8: no such type: String
    did you mean "string"?
    let q : Int -> String = id
                   ^
a.plumb:9: no such type: any
    did you mean "json"?
    let e : any -> boolean = tool { command: "·" }
            ^
a.plumb:9: no such type: boolean
    did you mean "bool"?
    let e : any -> boolean = tool { command: "·" }
                   ^""",
    ),
    "mistakes of many kinds, none of which hides another": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let w : !string -> !string = agent { promt: "x" }
let c : !string -> !string = plumb { w ; wx ; id }
let s : {} -> json = tool { mcp: nowhere }
let t : !string -> !string = tool { command: "x" }
let u : !string -> !string = plumb { lift(t) ; w }
@tool true let v : !{a: bool, b: bool} -> !bool = map(a and b)
let y : !json -> !json = map({...input})
let _bad : int -> int = id
let b : !int -> !int = plumb { lift(_bad) }
let d : string -> string = tool { command: ["x"], description: none }
"""
        },
        """\
cannot use t.toml: 6 problems
a.plumb:1: "promt" is no key of an agent, and nearly one; in options: { … } it goes to its program
    did you mean "prompt"?
    let w : !string -> !string = agent { promt: "·" }
                                         ^
a.plumb:4: a tool takes bare types: A -> B, without !
    let t : !string -> !string = tool { command: "·" }
                                 ^
a.plumb:6: "and" is written && in an expression
    @tool true let v : !{a: bool, b: bool} -> !bool = map(a and b)
                                                            ^
a.plumb:7: there is no "..." in an expression: a record names each of its fields
    let y : !json -> !json = map({...input})
                                  ^
a.plumb:8: a declared name is letters, digits, - and _ after a letter, with dots between modules: _bad
    let _bad : int -> int = id
        ^
a.plumb:10: no value is named "none"
    let d : string -> string = tool { command: ["·"], description: none }
                                                                   ^""",
    ),
    "names that mean nothing, once the notation can be read": (
        'plumb = ["a.plumb"]\n',
        {
            "a.plumb": """\
let w : !string -> !string = agent { command: ["x"] }
let c : !string -> !string = plumb { w ; wx ; id }
let s : {} -> json = tool { mcp: nowhere }
"""
        },
        """\
cannot use t.toml: 2 problems
a.plumb:2: processes.c.chain[1]: no such process in [processes]
    seen "wx"; did you mean "w"?
    let c : !string -> !string = plumb { w ; wx ; id }
                                             ^
a.plumb:3: tools.s.mcp: no such server in [mcp]
    seen "nowhere"
    let s : {} -> json = tool { mcp: nowhere }
                                ^""",
    ),
}
