"""Wrong types, each with the exact report that it gets."""

TYPES = {
    "a word that begins no type": (
        """\
[types]
A = "-> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 1: expected a type, found "->"
    seen "-> int\"""",
    ),
    "an empty type": (
        """\
[types]
A = ""
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 1: expected a type, found the end
    seen "\"""",
    ),
    "a list that does not end": (
        """\
[types]
A = "[int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 5: expected "|" or "]", found the end
    seen "[int\"""",
    ),
    "a record that does not end": (
        """\
[types]
A = "{x: int, y: string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 19: expected "|", "," or "}", found the end
    seen "{x: int, y: string\"""",
    ),
    "a field without a type": (
        """\
[types]
A = "{x}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 3: expected ":" or "?", found "}"
    seen "{x}\"""",
    ),
    "a field that is there twice": (
        """\
[types]
A = "{x: int, x?: string}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 10: the field "x" stands here twice
    seen "{x: int, x?: string}\"""",
    ),
    "a field whose name is no name": (
        """\
[types]
A = "{1: int}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 2: expected a field's name or "}", found "1"
    seen "{1: int}\"""",
    ),
    "a union that ends with its sign": (
        """\
[types]
A = "int |"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 6: expected a type, found the end
    seen "int |\"""",
    ),
    "two types without a sign between": (
        """\
[types]
A = "int string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 5: expected "|" or the end, found "string"
    seen "int string\"""",
    ),
    "a character that is none of the notation": (
        """\
[types]
A = "int & string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 5: expected "|" or the end, found "&"
    seen "int & string\"""",
    ),
    "an arrow where a type is": (
        """\
[types]
A = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 5: expected the end, found "->"
    seen "int -> int\"""",
    ),
    "a name that is not declared": (
        """\
[types]
Query = "{text: string}"
A = "[Qeury]"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: types.A: column 2: no such type: Qeury
    seen "[Qeury]"; did you mean "Query"?""",
    ),
    "a built-in type misspelt": (
        """\
[types]
A = "{text: strng}"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 8: no such type: strng
    seen "{text: strng}"; did you mean "string"?""",
    ),
    "a type that is itself": (
        """\
[types]
A = "A"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: a type cannot be itself: a list, a record or a product must stand between
    seen "A\"""",
    ),
    "types that are one another": (
        """\
[types]
A = "B"
B = "int | A"
""",
        """\
cannot use t.toml: 2 problems
t.toml:2: types.A: a type cannot be itself: a list, a record or a product must stand between
    seen "B"
t.toml:3: types.B: a type cannot be itself: a list, a record or a product must stand between
    seen "int | A\"""",
    ),
    "a type by the name of a built-in one": (
        """\
[types]
int = "string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.int: a built-in type has this name""",
    ),
    "a type whose name is no name": (
        """\
[types]
"a b" = "string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types."a b": a declared name is letters, digits, - and _ after a letter, with dots between modules""",
    ),
    "a type that is no text": (
        """\
[types]
A = { type = "string" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: wrong kind of value
    seen a table; allowed: a string""",
    ),
    "a type that is nested too deep": (
        f'[types]\nA = "{"[" * 65}int{"]" * 65}"\n',
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 65: expected a type nested at most 64 deep, found "["
    seen "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[int]]]]]]]]]]]…""",
    ),
    "a tool without an arrow": (
        """\
[tools.a]
inline = "id"
type = "int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: column 4: expected "|" or "->", found the end
    seen "int"; allowed: "A -> B\"""",
    ),
    "a tool with two arrows": (
        """\
[tools.a]
inline = "id"
type = "int -> int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: column 12: expected the end, found "->"
    seen "int -> int -> int"; allowed: "A -> B\"""",
    ),
    "a tool that takes a stream": (
        """\
[tools.a]
inline = "id"
type = "!int -> !int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: column 1: a tool takes one message at a time, and !int is or holds a stream
    seen "!int -> !int"; allowed: the type without !""",
    ),
    "a tool that gives a stream within a record": (
        """\
[types]
S = "{all: [!int]}"
[tools.a]
command = ["x"]
type = "int -> S"
""",
        """\
cannot use t.toml: 1 problem
t.toml:5: tools.a.type: column 8: a tool gives one message at a time, and S is or holds a stream
    seen "int -> S"; allowed: the type without !""",
    ),
    "a type beside a schema": (
        """\
[tools.a]
command = ["x"]
type = "int -> int"
input_schema = { type = "integer" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:4: tools.a.input_schema: type and input_schema exclude each other""",
    ),
    "a schema that is none": (
        """\
[tools.a]
command = ["x"]
input_schema = { type = "strng" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.input_schema: cannot use this schema: at /type: "strng" is not one of "array", \
"boolean", "integer", "null", "number", "object" or "string\"""",
    ),
    "a schema with a reference to nothing": (
        """\
[tools.a]
command = ["x"]
input_schema = { "$ref" = "#/$defs/None" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.input_schema: cannot use this schema: Pointer '/$defs/None' does not exist""",
    ),
    "a schema on another machine": (
        """\
[tools.a]
command = ["x"]
output_schema = { "$ref" = "https://example.org/s.json" }
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.output_schema: cannot use this schema: it refers to https://example.org/s.json, \
which is never fetched""",
    ),
    "id that changes the type": (
        """\
[tools.a]
inline = "id"
type = "int -> string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: id of int gives int, not string
    seen "int -> string"; allowed: "int -> int\"""",
    ),
    "copy that gives one": (
        """\
[tools.a]
inline = "copy"
type = "int -> int"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: copy of int gives (int, int), not int
    seen "int -> int"; allowed: "int -> (int, int)\"""",
    ),
    "discard that gives something": (
        """\
[tools.a]
inline = "discard"
type = "int -> string"
""",
        """\
cannot use t.toml: 1 problem
t.toml:3: tools.a.type: discard of int gives unit, not string
    seen "int -> string"; allowed: "int -> unit\"""",
    ),
    "what only follows from a wrong type is not told": (
        """\
[types]
A = "[int"
[tools.a]
inline = "id"
type = "A -> A"
[processes.p]
kind = "id"
type = "!A -> !A"
""",
        """\
cannot use t.toml: 1 problem
t.toml:2: types.A: column 5: expected "|" or "]", found the end
    seen "[int\"""",
    ),
}
