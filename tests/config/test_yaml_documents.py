"""YAML files of servers: as much of YAML as says what JSON says."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.specs import McpSpec
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.documents import DocumentError, read_json
from tooldispatchd.config.yaml_documents import read_shared_yaml, read_yaml

TEXT = """\
# of another client
mcpServers:
  github:
    type: stdio
    command: npx
    args: ["-y", "@mcp/github"]
    env:
      SINCE: 2020-01-01
      ON: yes
    toolsAllowed:
    - search
    requestTimeoutMs: 1500
"""


def test_a_file_whose_name_ends_so_is_yaml(tmp_path: Path) -> None:
    for name in ("servers.yaml", "servers.yml"):
        (tmp_path / name).write_text(TEXT)
        (tmp_path / "t.toml").write_text(f'mcp_json = ["{name}"]')
        assert load_catalog(tmp_path / "t.toml", {}).config.mcp == {
            "github": McpSpec(
                command="npx",
                args=("-y", "@mcp/github"),
                env={"SINCE": "2020-01-01", "ON": "yes"},
                tools=("search",),
                call_s=1.5,
            )
        }


def test_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        TEXT.replace("- search", "- s3cret[0-9]").replace("SINCE: 2020-01-01", "SINCE: []")
    )
    (tmp_path / "t.toml").write_text('mcp_json = ["s.yaml"]')
    with pytest.raises(ConfigError) as caught:
        load_catalog(tmp_path / "t.toml", {})
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines()[1::2] == [
        "s.yaml:8: mcp.github.env.SINCE: wrong kind of value",
        "s.yaml:11: mcp.github.tools[0]: not well-formed",
    ]


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ("a: &x 1\nb: 2", "an anchor (&) is not taken", 1),
        ("a: 1\nb: *x", "an alias (*) is not taken: write what it stands for", 2),
        ("a: !!python/object:os.system x", "a tag (!) is not taken", 1),
        ("? [a]\n: b", "a key is a text", 1),
        ("a: 1\na: 2", "this key stands here already", 2),
        ("a: 1\n---\nb: 2", "a second document begins here", 2),
        ("a: \x07", "not YAML: it has a character that no YAML may have", 1),
        ("a: b: c", "not YAML: mapping values are not allowed in this context", 1),
        ("[" * 100_000, "arrays and objects are nested more than 32 deep", 1),
        ("- " * 100_000, "arrays and objects are nested more than 32 deep", 1),
    ],
)
def test_what_json_does_not_have_is_refused(text: str, why: str, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        read_yaml(text)
    assert (caught.value.why, caught.value.line) == (why, line)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(-1e6, 1e6)
    | st.text("ab\n:#-{\"' é0~", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab c0", max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.booleans())
def test_a_value_is_the_same_in_both_notations(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    assert read_yaml(text).value == value


@given(VALUES)
def test_json_is_yaml_and_its_lines_are_the_same(value: object) -> None:
    text = json.dumps({"top": value}, indent=2)
    one, other = read_json(text), read_yaml(text)
    assert one.value == other.value
    assert one.lines.depth == other.lines.depth
    assert one.lines.line_of(("top",)) == other.lines.line_of(("top",))


# --- with anchors and aliases ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x 2020-01-01\nc: [*x, '1']", {"a": "2020-01-01", "c": ["2020-01-01", "1"]}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
        ("a: &x {b: 1}\nd: {<<: [{b: 2}, *x], e: &y 5}\nf: *y", {"a": {"b": 1}, "d": {"b": 1, "e": 5}, "f": 5}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("200: {on: yes, n: 1e3}", {"200": {"on": "yes", "n": 1000.0}}),
    ],
)
def test_what_an_alias_stands_for_stands_in_its_place(text: str, value: object) -> None:
    assert read_shared_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x [*x]", "an alias (*) stands for nothing that is complete"),
        ("a: *y", "an alias (*) stands for nothing that is complete"),
        ("a: {<<: 5}", "only mappings are merged (<<)"),
        ("a: !!python/object:os.system 1", "a tag (!) is not taken"),
        ("? [a]\n: 1", "a key is a text"),
        ("[" * 101 + "]" * 101, "arrays and objects are nested more than 100 deep"),
        ("a: 1\n---\nb: 2", "a second document begins here"),
    ],
)
def test_what_json_does_not_have_is_refused_beside_aliases(text: str, why: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_shared_yaml(text)
    assert caught.value.why == why


def test_a_billion_laughs_are_refused_before_they_are_heard() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    text = "\n".join(["l0: &l0 [lol]", *levels])
    with pytest.raises(DocumentError) as caught:
        read_shared_yaml(text)
    assert caught.value.why == "the document has more than 4000000 parts, with what its aliases stand for"
    assert caught.value.line == 8
