"""A table is added to any TOML, and a key of one is replaced; lines that are not concerned stay."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.mcpface.jsonc import Json
from tooldispatchd.mcpface.tomledit import with_toml
from tooldispatchd.tomltext import toml_of

KEYS = st.sampled_from(["a", "b", "x y", "a.b", "é"])
VALUES = (
    st.text("ab'\"#[]=\n\x7f", max_size=6) | st.integers(-9, 9) | st.lists(st.text("a#'\"]\n", max_size=3), max_size=2)
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


@given(TABLES, TABLES, st.tuples(KEYS, KEYS), VALUES, st.sampled_from(["\n", "\r\n"]))
def test_a_key_is_set_and_a_table_is_added(
    first: dict[str, Json], second: dict[str, Json], path: tuple[str, str], value: Json, line_end: str
) -> None:
    name, key = path
    text = f"# first\n{toml_of(first, 'servers', name)}\n{toml_of(second, 'last')}# last\n".replace("\n", line_end)
    changed = with_toml(text, ("servers", name, key), value)
    assert tomllib.loads(changed) == {"servers": {name: {**first, key: value}}, "last": second}
    added = with_toml(changed, ("servers", "new"), second)
    assert tomllib.loads(added)["servers"] == {name: {**first, key: value}, "new": second}
    assert added.startswith(f"# first{line_end}")
    assert f"{line_end}# last{line_end}" in added


def test_a_comment_behind_a_value_stays() -> None:
    assert with_toml("[a]\nb = 'x#'  # why\n", ("a", "b"), "y") == '[a]\nb = "y"  # why\n'
