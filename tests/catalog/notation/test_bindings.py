import pytest

from tests.catalog.notation.reading import read, table, wrong


def option(value: str, bindings: str = "") -> object:
    """A value as an agent's option."""
    return table(f"{bindings} let w : A -> B = agent {{ options: {{ x: {value} }} }}", "processes", "w", "options", "x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a"', "a"),
        ('""', ""),
        ("5", 5),
        ("-5", -5),
        ("2.50", 2.5),
        ("-1e3", -1000.0),
        ("true", True),
        ("false", False),
        ("[]", []),
        ("{}", {}),
        ("[1 2, 3,]", [1, 2, 3]),
        ('{a: 1, b: [2] "c d": {e: "f"},}', {"a": 1, "b": [2], "c d": {"e": "f"}}),
    ],
)
def test_a_value_is_what_it_says(text: str, value: object) -> None:
    assert option(text) == value


def test_a_name_stands_for_its_value_wherever_that_is_bound() -> None:
    assert option("[a, a, {b: c}]", "let a = 5 let c = [d] let d = a") == [5, 5, {"b": [5]}]


def test_a_list_with_a_name_may_be_what_an_agent_calls() -> None:
    text = 'let w : A -> B = agent { tools: t } let t = [a, more, "gh:c"] let more = b'
    assert table(text, "processes", "w", "tools") == ["a", "b", "gh:c"]


def test_a_binding_with_a_list_of_servers_makes_each_a_server() -> None:
    text = 'let w : A -> B = agent { mcp: all } let all = [x, y, z] let x = {url: "u"} let y = x'
    assert table(text, "processes", "w", "mcp") == ["x", "x", "z"]
    assert table(text, "mcp") == {"x": {"url": "u"}}


def test_a_server_that_nothing_uses_means_nothing() -> None:
    assert read('let x = {url: "u"}').table == read("").table


def test_an_address_with_a_name_stays_an_address() -> None:
    text = 'let f : A -> B = tool { mcp: here } let here = "http://x"'
    assert table(text, "tools", "f", "mcp") == "http://x"


def test_the_tools_of_a_server_are_words() -> None:
    text = 'let f : A -> B = tool { mcp: s } let s = { command: "x" tools: [f, list] deny: [t] } let t = "u"'
    assert table(text, "mcp", "s") == {"command": "x", "tools": ["f", "list"], "deny": ["u"]}


def test_a_record_used_as_a_value_is_no_server() -> None:
    text = 'let f : A -> B = tool { command: "x" env: e } let e = { A: "b" }'
    assert table(text, "mcp") == {}


def test_a_name_that_nothing_has_is_told_with_the_nearest() -> None:
    assert wrong("let limit = 5 let w : A -> B = agent { options: { x: limt } }") == [
        '1:54: no value is named "limt" [limit]'
    ]


def test_a_misspelt_word_of_the_notation_is_no_value() -> None:
    assert wrong("let f = discrad") == ['1:9: no value is named "discrad" [discard]']


def test_every_cycle_is_told_once_and_ends() -> None:
    text = "let a = [b] let b = {k: a} let c = c let d = [a, c] let w : A -> B = agent { options: { x: d } }"
    assert wrong(text) == [
        "1:9: a value cannot be made of itself: a -> b -> a",
        "1:36: a value cannot be made of itself: c -> c",
    ]


def test_a_long_cycle_is_shown_in_short() -> None:
    text = " ".join(f"let a{number} = a{(number + 1) % 1000}" for number in range(1000))
    assert wrong(text) == ["1:10: a value cannot be made of itself: a0 -> a1 -> a2 -> a3 -> … -> a0"]


def test_values_that_double_at_each_step_are_bounded() -> None:
    text = "let a0 = [1, 1] " + " ".join(f"let a{number + 1} = [a{number}, a{number}]" for number in range(20))
    assert wrong(text + " let w : A -> B = agent { options: { x: a20 } }") == [
        "1:14: with all names replaced there are more than 100000 values"
    ]


def test_names_that_lead_to_names_are_bounded() -> None:
    text = " ".join(f"let a{number} = a{number + 1}" for number in range(100)) + " let a100 = 5"
    found = wrong(text + " let w : A -> B = agent { options: { x: a0 } }")
    assert [each.partition(": ")[2] for each in found] == ["with all names replaced this is nested more than 64 deep"]
