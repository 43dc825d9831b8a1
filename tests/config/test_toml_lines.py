import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.config.toml_lines import TomlLines

SOURCE = '''\
# a comment with [brackets] and """quotes
top = 1

[tools.first] # trailing
text = """
[not.a.header]
key = "not a key"
"""
after = 2
raw = \'\'\'
]] \'\'
\'\'\'
list = [
  "]", # ] in a comment
  [1,
   2],
]
last.dotted.key = { inner = 1, table = { deep = 2 } }
"quoted.name" = 3

[[array]]
a = 1
[array.sub]
b = 2
[[array]]
a = 3
  [[array.nested]]
  c = 4

[late.sub]
x = 1
[late]
y = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("tools",), 4),
        (("tools", "first"), 4),
        (("tools", "first", "text"), 5),
        (("tools", "first", "after"), 9),
        (("tools", "first", "raw"), 10),
        (("tools", "first", "list"), 13),
        (("tools", "first", "list", 1, 0), 13),
        (("tools", "first", "last", "dotted"), 18),
        (("tools", "first", "last", "dotted", "key", "table", "deep"), 18),
        (("tools", "first", "quoted.name"), 19),
        (("tools", "first", "missing"), 4),
        (("array", 0), 21),
        (("array", 0, "a"), 22),
        (("array", 0, "sub", "b"), 24),
        (("array", 1), 25),
        (("array", 1, "a"), 26),
        (("array", 1, "nested", 0, "c"), 28),
        (("late", "sub"), 30),
        (("late",), 32),
        (("late", "y"), 33),
        (("missing",), None),
        ((), None),
    ],
)
def test_every_key_stands_on_its_line(path: tuple[str | int, ...], line: int | None) -> None:
    assert TomlLines(SOURCE).line_of(path) == line


def test_lines_that_end_in_cr_lf_are_counted_alike() -> None:
    source = SOURCE.replace("\n", "\r\n")
    assert TomlLines(source).line_of(("late", "y")) == 33


def test_a_last_line_without_its_newline_is_read() -> None:
    assert TomlLines("a = 1\nb = 2").line_of(("b",)) == 2


def test_a_line_separator_within_a_string_ends_no_line() -> None:
    assert TomlLines('a = "\u2028\u0085"\nb = 2\n').line_of(("b",)) == 2


VALUES = [
    "1",
    '"a # b"',
    r'"\"]\\"',
    "'\\'",
    '"""""inner quotes"""""',
    "''''x''''",
    '"""\n\\"""\n"""',
    "'''\n[x]\n\\'''",
    '"""\\\n  folded"""',
    "[\n# ]\n1,\n[2, '''\n]'''],\n]",
    "{ a = [\n1\n], b = '}' }",
    "2020-01-01 10:00:00",
]
BETWEEN = ["", "\n", "# comment ''' \"\"\" [\n", "   \n\n"]
TAILS = ["\n", " # tail ] '''\n", "\t\n"]


@given(st.lists(st.tuples(st.sampled_from(BETWEEN), st.sampled_from(VALUES), st.sampled_from(TAILS)), max_size=12))
def test_keys_are_found_among_values_of_every_form(statements: list[tuple[str, str, str]]) -> None:
    source = ""
    expected = {}
    for index, (before, value, tail) in enumerate(statements):
        source += before
        expected[f"k{index}"] = source.count("\n") + 1
        source += f"k{index} = {value}{tail}"
    tomllib.loads(source)
    lines = TomlLines(source)
    assert {key: lines.line_of((key,)) for key in expected} == expected


def test_a_value_of_many_lines_costs_linear_work() -> None:
    source = "a = [\n" + '["x", """\n]\n"""],\n' * 20_000 + "]\nb = 1\n"
    assert TomlLines(source).line_of(("b",)) == 60_003
