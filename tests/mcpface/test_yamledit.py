"""Any YAML is edited to what was asked for, or refused; lines that are not concerned stay."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.mcpface.install import InstallError, plan
from tooldispatchd.mcpface.jsonc import Json
from tooldispatchd.mcpface.yamledit import read_yaml, with_yaml

KEYS = st.sampled_from(["a", "b", "name", "x y", "true"])
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["", "a: b", "# no", "é\n\nf\n", "- x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3) | st.none(), max_size=3)


@given(OBJECTS, st.tuples(KEYS, KEYS), VALUES, st.sampled_from([None, True, False]), st.integers(2, 4))
def test_a_value_is_set_wherever_it_is(
    before: dict[str, Json], path: tuple[str, str], value: Json, flow: bool | None, indent: int
) -> None:
    table, key = path
    text = f"# first\n{yaml.safe_dump(before, default_flow_style=flow, indent=indent, allow_unicode=True)}# last\n"
    after = with_yaml(text, (table, key), value)
    expected: dict[str, Json] = dict(before)
    held = before.get(table)
    expected[table] = {**(held if isinstance(held, dict) else {}), key: value}
    assert read_yaml(after) == expected
    assert (after.startswith("# first\n"), after.endswith("# last\n")) == (True, True)


@pytest.mark.parametrize("text", ["a: [", "a: \x00", "- !!python/object:x {}\n"])
def test_what_is_no_yaml_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(InstallError, match=r"config.yaml:[12]: this is no YAML; nothing was changed"):
        plan("goose", file, "tools", ["t"])
