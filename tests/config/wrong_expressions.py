"""Wrong expressions, each with the exact report that it gets."""

EXPRESSIONS = {
    "an expression that does not end": (
        """\
[tools.a]
type = "int -> int"
map = "input +"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 8: Syntax error: mismatched input '<EOF>'
    seen "input +\"""",
    ),
    "an empty expression": (
        """\
[tools.a]
type = "int -> int"
map = ""
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 1: an expression is expected
    seen "\"""",
    ),
    "an expression over two free names": (
        """\
[tools.a]
type = "int -> int"
map = "score * weight"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 1: the input is int, so one free name stands for it: there are score, weight
    seen "score * weight\"""",
    ),
    "a field that the input does not have": (
        """\
[tools.a]
type = "{text: string} -> string"
map = "input.txt"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 6: nothing is named "input.txt"; did you mean "input.text"?
    seen "input.txt\"""",
    ),
    "a function that there is not": (
        """\
[tools.a]
type = "string -> string"
map = "shout(input)"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 1: there is no function shout
    seen "shout(input)\"""",
    ),
    "an operator that does not take these": (
        """\
[tools.a]
type = "{n: int, s: string} -> int"
map = "n + s"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 3: + does not take (int, string)
    seen "n + s\"""",
    ),
    "an int beside a number": (
        """\
[tools.a]
type = "{n: number} -> number"
map = "n * 2"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 3: * does not take (number, int); int and number do not mix: write 2.0 for 2, \
or double(x) for x
    seen "n * 2\"""",
    ),
    "an expression that gives another type": (
        """\
[tools.a]
type = "int -> string"
map = "input * 2"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: column 1: the expression makes int, but the tool's output is string
    seen "input * 2\"""",
    ),
    "an expression in its second line": (
        '''\
[tools.a]
type = "int -> int"
map = """
input
  + nothing.here"""
''',
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.map: line 2, column 12: expression of type 'int' cannot be the operand of a select operation
    seen "input\\n  + nothing.here\"""",
    ),
    "a filter that is no question": (
        """\
[processes.p]
kind = "filter"
type = "!int -> !int"
filter = "input * 2"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: processes.p.filter: column 1: the expression makes int, but a filter asks for a bool
    seen "input * 2\"""",
    ),
    "a filter over a field that is not there": (
        """\
[processes.p]
kind = "filter"
type = "!{n: int} -> !{n: int}"
filter = "m > 2"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: processes.p.filter: column 1: nothing is named "m"; there are n
    seen "m > 2\"""",
    ),
    "a map in a process that gives another type": (
        """\
[processes.p]
kind = "map"
type = "!int -> !string"
map = "input * 2"
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: processes.p.map: column 1: the expression makes int, but the tool's output is string
    seen "input * 2\"""",
    ),
    "a wrong expression in a chain": (
        """\
[processes.words]
kind = "id"
type = "!string -> !string"
[processes.twice]
kind = "map"
map = "input * 2"
[processes.p]
kind = "plumb"
chain = ["words", "twice"]
""",
        """\
cannot use t.toml: 1 problem
t.toml:6: processes.twice.map: column 7: * does not take (string, int) (where it takes !string)
    seen "input * 2\"""",
    ),
}
