"""Files with mistakes, each with exactly what is said about it."""

# ruff: noqa: E501  # a message stands on one line, as it is shown

import pytest

from tests.catalog.notation.reading import wrong

WRONG = [
    ("let", ["1:4: expected a name, found the end of the file"]),
    ("let x", ['1:6: expected ":" or "=", found the end of the file']),
    ("let x =", ["1:8: expected a value or how it runs, found the end of the file"]),
    ("type", ["1:5: expected a name, found the end of the file"]),
    ("type X", ['1:7: expected "=", found the end of the file']),
    ("type X = {a int}", ['1:13: expected ":" or "?", found "int"']),
    ("type X = {a: int, a: string}", ['1:19: a record has each field once, and "a" stands here again']),
    ("type X = [int", ['1:14: expected "]" or "|", found the end of the file']),
    ("type X = (int,)", ['1:15: expected a type, found ")"']),
    ("type X = {a.b: int}", ['1:11: a key has no dots: "a.b"']),
    ("type X = int |", ["1:15: expected a type, found the end of the file"]),
    ("type X = _a", ['1:10: expected a type, found "_a"']),
    ("hello", ['1:1: expected a declaration or the end of the file, found "hello"']),
    (
        "use fs",
        [
            '1:1: expected a declaration or the end of the file, found "use"; every file that the configuration names is there already'
        ],
    ),
    ("let f : int = 5", ['1:13: expected "->" or "|", found "="']),
    ("let f : int -> int", ['1:19: expected "=" or "|", found the end of the file']),
    ("let f : int -> int = 5", ['1:22: expected how it runs, found "5"']),
    ("let f : int -> int = g", ['1:22: expected how it runs, found "g"']),
    ("let f : int -> int = map", ['1:25: expected an expression in "(…)", found the end of the file']),
    ("let f : int -> int = map()", ["1:25: an expression is expected in map(…)"]),
    ("let f : int -> int = map(x", ['1:25: an expression begins here, and no ")" ends it']),
    ("let f : int -> int = map(x])", ['1:27: expected ")", found "]"']),
    ('let f : int -> int = map("a)', ['1:26: a text begins here, and no " ends it on its line']),
    ("let f : int -> int = project(x)", ['1:30: expected a number, found "x"']),
    ("let f : int -> int = project(64)", ["1:30: project takes a whole number from 0 to 63"]),
    ("let f : int -> int = tool process", ['1:27: expected "{", found "process"']),
    ("let f : int -> int = tool { process f }", ['1:37: expected ":", found "f"']),
    ("let f : int -> int = tool { process: }", ['1:38: expected a value, found "}"']),
    ("let f : int -> int = tool { proces: f }", ['1:29: a tool has no key "proces" [process]']),
    (
        'let f : int -> int = tool { python: "a:b", prefork: 2 }',
        [
            (
                '1:44: the key "prefork" is gone; use `resident`, '
                "for a function that may serve one call after the other in one process"
            )
        ],
    ),
    (
        'let f : !int -> !int = agent { command: "x", reuse: 2 }',
        [
            (
                '1:46: the key "reuse" is gone; use an MCP server, or a Python function with `state`, '
                "which live on from call to call"
            )
        ],
    ),
    ('let f : int -> int = tool { type: "x" }', ["1:29: the type stands before the braces: let name : A -> B = …"]),
    ("let f : !int -> !int = tool { process: f }", ["1:24: a tool takes bare types: A -> B, without !"]),
    (
        'let f : !int -> !int = agent { promt: "x" }',
        ['1:32: "promt" is no key of an agent, and nearly one; in options: { … } it goes to its program [prompt]'],
    ),
    (
        'let f : !int -> !int = agent { kind: "x" }',
        ['1:32: "kind" is no key of an agent; in options: { … } it goes to its program'],
    ),
    ("let f = agent { }", ["1:5: an agent's type is stated: let name : !A -> !B = agent { … }"]),
    ("@tol true let f : !int -> !int = id", ["1:1: there is no annotation @tol [tool]"]),
    ("@tool 5 let f : !int -> !int = id", ["1:1: @tool takes true or false"]),
    ("@tool true @tool false let f : !int -> !int = id", ["1:12: @tool stands here again"]),
    (
        '@title "x" let f : !int -> !int = id',
        ["1:1: @title says something of a tool, and this is a process: @tool true makes a tool of it"],
    ),
    (
        '@description "x" let f : int -> int = tool { description: "y" process: g }',
        ["1:1: @description and description between the braces say the same"],
    ),
    ("@tool true let x = 5", ["1:1: @tool stands before processes and tools only"]),
    ("@tool true", ['1:11: expected "let", "type" or "@…", found the end of the file']),
    ("@tool", ["1:6: expected a value, found the end of the file"]),
    ("let x = y", ['1:9: no value is named "y"']),
    ("let ldc = {} let z = [lcd]\nlet f = tool { doc: lcd }", ['2:21: no value is named "lcd" [ldc]']),
    ("let a = b let b = a", ["1:9: a value cannot be made of itself: a -> b -> a"]),
    ("let a = 1 let a = 2", ['1:15: "a" is declared already, in line 1']),
    ("type A = int type A = int", ['1:19: "A" is declared already, in line 1']),
    ("type int = string", ["1:6: a built-in type has this name: int"]),
    ("let _b = 1", ["1:5: a declared name is letters, digits, - and _ after a letter, with dots between modules: _b"]),
    ("module A module B", ["1:17: a module is named once, before everything else in its file"]),
    ("let filter = 1", ['1:5: expected a name, found "filter", which is a word of the notation']),
    ('let x = "abc', ['1:9: a text begins here, and no " ends it']),
    ('let x = """abc', ['1:9: a text begins here, and no """ ends it']),
    (
        'let x = "\\q"',
        ['1:10: there is no such escape: \\q; there are \\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t and \\uXXXX'],
    ),
    ('let x = "\\ud800"', ["1:9: half of a pair of \\u escapes stands alone in this text"]),
    ("(* abc", ["1:1: a comment begins here, and no *) ends it"]),
    ("let x = 99999999999999999999", ["1:9: a number that neither a 64-bit integer nor a double holds"]),
    ("let x = 1e999", ["1:9: a number that neither a 64-bit integer nor a double holds"]),
    ("let x = 'abc'", ['1:9: expected a value or how it runs, found "\'"; texts stand in double quotes: "…"']),
    ("let x = {a: 1 a: 2}", ['1:15: "a" stands here again']),
    ("let x = {a.b: 1}", ['1:10: a key has no dots: "a.b"']),
    ("let x = [1,,2]", ['1:12: expected a value or "]", found ","']),
    ("let x = -", ['1:9: expected a value or how it runs, found "-"']),
    ("let f = plumb { }", ['1:17: expected a process, found "}"']),
    ("let f = plumb { a b }", ['1:19: expected ";" or "}", found "b"']),
    ("let f = plumb { a ; }", ['1:21: expected a process, found "}"']),
    ("let f = plumb (i) { }", ["1:9: a plumb has two ports, an input and an output; here are 1"]),
    ("let f = plumb (i, o) { i ; a }", ['1:28: nothing reads what "a" gives: the path ends before "o"']),
    ("let f = plumb (i, o) { i ; a ; o  a ; b }", ['1:28: a fork: "a" leads to "o" and "b", and a chain is linear']),
    ("let f = plumb (i, o) { i ; a ; b ; a }", ['1:32: a loop: "b" leads back to "a", and a chain is linear']),
    ("let f = plumb (i, o) { i ; o }", ["1:9: there is no process between the ports"]),
    ("let f = plumb (i, o) { i ; a ; c  let c : !int = channel b ; o }", ['1:39: the channel "c" is never read']),
    ("let f = plumb (i, o) { i ; a ; o  let c : !int = channel }", ['1:39: the channel "c" is never used']),
    ("let f = plumb (i, o) { spawn a(i, c) }", ['1:35: no port or channel of this plumb is named "c"']),
    ("let f = plumb (i, o) { spawn a(i) }", ["1:24: spawn a(…) takes what it reads and what it writes"]),
    (
        "let f = plumb (i, o) { i ; (a * b) ; o }",
        ['1:28: expected a process, found "("; parallel composition is not part of this notation: a chain is linear'],
    ),
    ("let f = plumb (i, o) { i ; a ; o  x ; y }", ['1:35: "x" is not on the path from "i" to "o"']),
    ("let f = plumb (i, o) { i ; a ; o  x ; a }", ['1:28: "a" is fed by "x" too, and a chain is linear']),
    ("let f = plumb (i, i) { i ; a ; i }", ['1:19: "i" is a port of this plumb already']),
    ("let f = plumb (i, o) { i ; a ; o ; b }", ['1:19: "o" is where the path ends, and "b" reads it']),
    ("let f = plumb (i, o) { b ; o }", ['1:16: the port "i" is never read']),
    ("let f = plumb (i, o) { let i : !int = channel i ; a ; o }", ['1:28: "i" is a port of this plumb already']),
    ("let f : A - > B = id", ['1:11: expected "->" or "|", found "-"']),
    ("let f : A => B = id", ['1:11: expected "->" or "|", found "="']),
    ("let f : A -> B = id}", ['1:20: expected a declaration or the end of the file, found "}"']),
    ('let f : A -> B = agent "x"', ['1:24: expected "{", found a text']),
    ("@tool true type X = int", ["1:1: @tool stands before processes and tools only"]),
    (
        'let f : A -> B = tool { process: [g, h] hints: "x" nmae: "y" }',
        ['1:41: a tool has no key "hints" [hint]', '1:52: a tool has no key "nmae" [name]'],
    ),
    (
        'let f : !A -> !B = agent { modle: "x" mpc: [a] comand: "x" }',
        [
            '1:28: "modle" is no key of an agent, and nearly one; in options: { … } it goes to its program [model]',
            '1:39: "mpc" is no key of an agent, and nearly one; in options: { … } it goes to its program [mcp]',
            '1:48: "comand" is no key of an agent, and nearly one; in options: { … } it goes to its program [command]',
        ],
    ),
    (
        'let f : !A -> !B = agent { type: "x" options: { seed: 1 } seed: 2 }',
        [
            "1:28: the type stands before the braces: let name : A -> B = …",
            '1:59: "seed" stands in the options already',
        ],
    ),
    ("let x = filtr", ['1:9: no value is named "filtr" [filter]']),
    (
        "let f : A -> B = tool { expose: false } @tool false let g : A -> B = tool { expose: true }",
        ["1:41: @tool and expose between the braces say the same"],
    ),
    ("let f : A -> B = id(x)", ['1:20: expected a declaration or the end of the file, found "("']),
    ("@description let f = id", ['1:14: expected a value, found "let", which is a word of the notation']),
    ("let f = map(x) ; map(y)", ['1:16: expected a declaration or the end of the file, found ";"']),
    (
        "protocol P = send",
        [
            '1:1: expected a declaration or the end of the file, found "protocol"; protocols are not part of this notation'
        ],
    ),
    (
        "let f = exec { }",
        [
            '1:14: expected a declaration or the end of the file, found "{"; a program runs by tool { command: … } or agent { command: … }'
        ],
    ),
    (
        "let f = builtin(read)",
        ['1:16: expected a declaration or the end of the file, found "("; builtin tools are not part of this notation'],
    ),
    (
        "let f = plumb(i, o) { i ; a@ctrl ; o }",
        [
            '1:28: expected a process, ",", ";", "let" or "spawn", found "@ctrl"; ports of processes are not part of this notation: a chain is linear'
        ],
    ),
    ("module 5", ['1:8: expected a name, found "5"']),
    ("module _b", ["1:8: a declared name is letters, digits, - and _ after a letter, with dots between modules"]),
    ("let f = plumb(i, o) { i ; a ; o ; }", ['1:35: expected a process, found "}"']),
    ("let f : A -> = id", ['1:14: expected a type, found "="']),
    ("let f : -> A = id", ['1:9: expected a type, found "->"']),
    ('let f = tool { mcp: { url: "x", } name }', ['1:40: expected ":", found "}"']),
    ('let x = "a\nb" let y = @', ['2:12: expected a value or how it runs, found "@"']),
    ("let f = map(a and b)", ['1:15: "and" is written && in an expression']),
    ("let f = map(a or !b)", ['1:15: "or" is written || in an expression']),
    ("let f = map({a: x and y})", ['1:19: "and" is written && in an expression']),
    ("let f = map(a === b)", ['1:15: "===" is written == in an expression']),
    ("let f = map(a <> b)", ['1:15: "<>" is written != in an expression']),
    ("let f = map(a & b)", ['1:15: "&" is written && in an expression']),
    (
        "let f = map({...input})",
        ['1:14: there is no "..." in an expression: a record names each of its fields'],
    ),
    (
        "let f : X -> [{a?: Y}] = id type T = !Z | A",
        [
            "1:9: no such type: X; there are int, number, string, bool, unit, json, or a declared name",
            "1:20: no such type: Y; there are int, number, string, bool, unit, json, or a declared name",
            "1:39: no such type: Z; there are int, number, string, bool, unit, json, or a declared name",
        ],
    ),
    ("let f : int -> int = tool { command: 5 }", ["1:29: command takes a text, or a list of texts"]),
    ("let x = $", ['1:9: expected a value or how it runs, found "$"']),
]


@pytest.mark.parametrize(("text", "problems"), WRONG)
def test_a_mistake_is_told_in_these_words(text: str, problems: list[str]) -> None:
    assert wrong(text) == problems
