import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.expressions.tree import Made, Node, Tree, TreeError, read_tree

VARIABLES = {"xs": "list<int>", "s": "string", "m": "map<string, dyn>"}


def tree(source: str) -> Tree:
    environment = cel.NewEnv(variables={name: cel.Type(text) for name, text in VARIABLES.items()})
    return read_tree(environment.compile(source).serialize())


def shown(node: Node) -> object:
    """A node as nested tuples, without its id."""
    inner = tuple(shown(part) for part in node.parts)
    return (node.kind, node.text, *inner)


@pytest.mark.parametrize(
    ("source", "nodes"),
    [
        ("1", ("constant", None)),
        ("'é'", ("constant", "é")),
        ("b'xy'", ("constant", "xy")),
        ("xs", ("name", "xs")),
        ("m.a", ("select", "a", ("name", "m"))),
        ("has(m.a)", ("select", "a", ("name", "m"))),
        ("s + 'x'", ("call", "_+_", ("name", "s"), ("constant", "x"))),
        ("s.matches('x')", ("call", "matches", ("name", "s"), ("constant", "x"))),
        ("size(s)", ("call", "size", ("name", "s"))),
        ("[]", ("list", None)),
        ("[s]", ("list", None, ("name", "s"))),
        ("{'a': s}", ("map", None, ("constant", "a"), ("name", "s"))),
        ("google.protobuf.Any{}", ("map", "google.protobuf.Any")),
    ],
)
def test_the_tree_is_that_of_the_source(source: str, nodes: object) -> None:
    assert shown(tree(source).root) == nodes


def test_a_macro_is_a_loop_with_its_names() -> None:
    loop = tree("xs.map(x, x * 2)").root
    assert loop.kind == "loop"
    assert loop.names == ("x", "@result")
    assert [part.kind for part in loop.parts] == ["name", "list", "constant", "call", "name"]


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("xs[0]", Made("INT")),
        ("xs", Made("LIST", (Made("INT"),))),
        ("m", Made("MAP", (Made("STRING"), Made("DYN")))),
        ("m.a", Made("DYN")),
        ("null", Made("NULL")),
        ("[[1.0]]", Made("LIST", (Made("LIST", (Made("DOUBLE"),)),))),
    ],
)
def test_each_node_has_its_type(source: str, made: Made) -> None:
    read = tree(source)
    assert read.type_of(read.root) == made


@pytest.mark.parametrize(
    ("source", "begin"), [("s + s", 0), ("  xs.map(x, x)", 2), (" size(s)", 1), ("'é😀' + s", 0), ("(s + s) + s", 1)]
)
def test_a_node_begins_where_its_first_part_does(source: str, begin: int) -> None:
    read = tree(source)
    assert read.begin_of(read.root) == begin


@given(st.binary(max_size=60))
def test_any_bytes_are_a_tree_or_an_error(serialized: bytes) -> None:
    try:
        read_tree(serialized)
    except TreeError:
        return


@given(st.data())
def test_a_damaged_tree_is_a_tree_or_an_error(data: st.DataObject) -> None:
    whole = bytearray(cel.NewEnv(variables={"xs": cel.Type("list<int>")}).compile("xs.map(x, x * 2)").serialize())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_tree(bytes(whole))
    except TreeError:
        return


def test_a_tree_of_boundless_depth_is_refused() -> None:
    node = b""
    for _ in range(300):
        body = b"\x0a" + length(node) + node
        node = b"\x3a" + length(body) + body
    checked = b"\x22" + length(node) + node
    with pytest.raises(TreeError, match="nested deeper than 256"):
        read_tree(b"\x12" + length(checked) + checked)


def length(message: bytes) -> bytes:
    number = len(message)
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])
