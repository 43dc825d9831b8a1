"""Tables as TOML: what is written is read back as it was."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.tomltext import toml_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@given(table=st.dictionaries(TEXTS, VALUES, max_size=5), name=TEXTS)
def test_any_table_is_read_back(table: dict[str, Any], name: str) -> None:
    assert tomllib.loads(toml_of(table, "tools", name)) == {"tools": {name: table}}


def test_a_table_is_written_as_a_person_would() -> None:
    table = {"a": "x", "b": {"c-d": [1, True], "$e": {}}}
    assert toml_of(table, "tools", "t") == '[tools.t]\na = "x"\nb = { c-d = [1, true], "$e" = {} }\n'
