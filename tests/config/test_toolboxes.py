from pathlib import Path
from typing import Any

import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.made_tools import MadeTools
from tooldispatchd.config.toolboxes import take_toolboxes
from tooldispatchd.toolbox.sets import SETS, doc_of

SHUT_IN = {"read": [], "write": [], "network": False}


def made(table: dict[str, Any], **secrets: str) -> tuple[dict[str, Any], MadeTools]:
    """The tools of a table, by name, and what else was said of them."""
    found = take_toolboxes(table, {("token_env", name): value for name, value in secrets.items()})
    return table.get("tools", {}), found


def problems(table: dict[str, Any]) -> list[Problem]:
    return list(made(table)[1].problems)


def test_a_toolbox_offers_its_set() -> None:
    tools, found = made({"toolbox": {"clock": {}}})
    assert list(tools) == ["current_date", "sleep"]
    assert found.places == {("tools", "current_date"): ("toolbox", "clock"), ("tools", "sleep"): ("toolbox", "clock")}
    assert tools["current_date"]["python"] == "tooldispatchd.toolbox.clock:current_date"
    assert {key: tools["current_date"][key] for key in SHUT_IN} == SHUT_IN


def test_of_its_set_it_offers_what_its_table_names() -> None:
    tools, _ = made({"toolbox": {"files": {"tools": ["read", "json_*"], "deny": ["json_write"]}}})
    assert list(tools) == ["read", "json_read"]


def test_a_second_one_has_a_prefix_a_place_and_a_state_of_its_own() -> None:
    docs = {"set": "files", "prefix": "docs", "workspace": "/usr/share/doc", "tools": ["read"], "write": []}
    tools, _ = made({"toolbox": {"files": {"tools": ["read"]}, "manuals": docs}})
    assert (tools["read"]["cwd"], tools["read"]["read"], tools["read"]["state"]) == (
        "workspace",
        ["workspace"],
        "files",
    )
    second = tools["docs_read"]
    assert (second["cwd"], second["read"], second["write"]) == ("/usr/share/doc", ["/usr/share/doc"], [])
    assert second["state"] == "manuals.files"


def test_a_workspace_that_is_not_there_is_named_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[toolbox.files]\ntools = ["read"]\nworkspace = "/none"\n')
    with pytest.raises(ConfigError) as caught:
        load_catalog(file, {})
    why = "toolbox.files.workspace: cannot enter this directory: No such file or directory"
    assert str(caught.value).splitlines()[1:] == [f"{file}:3: {why}", '    seen "/none"']


def test_a_cache_counts_for_those_of_its_tools_that_change_and_keep_nothing() -> None:
    tools, _ = made({"toolbox": {"files": {"cache": "5m", "tools": ["read", "write", "list", "grep"]}}})
    assert [name for name, tool in tools.items() if "cache" in tool] == ["list", "grep"]


def test_what_its_table_states_counts_for_each_of_its_tools() -> None:
    tools, _ = made({"toolbox": {"shell": {"network": True, "memory": "2G", "call_s": 30}}})
    assert [(tool["network"], tool["memory"], tool["call_s"]) for tool in tools.values()] == [(True, "2G", 30)] * 2


@pytest.mark.parametrize(
    ("box", "tool", "state"),
    [
        ({"files": {}}, "edit", "files"),
        ({"files": {"guard": "warn"}}, "edit", "files"),
        ({"files": {"guard": "off"}}, "edit", None),
        ({"files": {}}, "grep", None),
        ({"shell": {}}, "bash", None),
        ({"shell": {"session": True}}, "bash", "shell"),
        ({"scratchpad": {}}, "scratchpad", "scratchpad"),
        ({"scratchpad": {"shared": "/srv/notes"}}, "scratchpad", None),
    ],
)
def test_a_state_is_kept_only_where_it_is_needed(box: dict[str, Any], tool: str, state: str | None) -> None:
    tools, _ = made({"toolbox": box})
    assert tools[tool].get("state") == state


def test_a_shared_scratchpad_may_change_its_directory_alone() -> None:
    tools, _ = made({"toolbox": {"scratchpad": {"shared": "/srv/notes"}}})
    assert tools["scratchpad"]["write"] == ["/srv/notes"]


def test_one_tool_alone_has_a_name_of_its_own() -> None:
    tools, _ = made({"tools": {"today": {"builtin": "current_date", "sandbox": "best-effort"}}})
    assert list(tools) == ["today"]
    assert tools["today"]["python"] == "tooldispatchd.toolbox.clock:current_date"
    assert tools["today"]["sandbox"] == "best-effort"
    assert "builtin" not in tools["today"]


def test_a_profile_offers_toolboxes_beside_its_tools() -> None:
    table: dict[str, Any] = {"toolbox": {"clock": {}}, "agents": {"a": {"tools": ["x"], "toolboxes": ["clock"]}}}
    made(table)
    assert table["agents"] == {"a": {"tools": ["x", "current_date", "sleep"]}}


def test_search_is_offered_with_an_engine_alone_and_check_says_how_to_have_it() -> None:
    tools, found = made({"toolbox": {"web": {}}})
    assert list(tools) == ["fetch"]
    how = 'search = { engine = "brave", token_env = "BRAVE_KEY" }'
    assert found.warnings == (f'toolbox.web: "search" is not offered: it needs an engine, as in {how}',)
    tools, found = made({"toolbox": {"web": {"search": {"engine": "brave", "token_env": "KEY"}}}}, KEY="hunter2")
    assert tools["search"]["options"] == {"search": {"engine": "brave", "key": "hunter2"}}
    assert found.warnings == ()
    assert made({"toolbox": {"web": {"deny": ["search"]}}})[1].warnings == ()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            {"toolbox": {"fils": {}}},
            Problem(
                ("toolbox", "fils"),
                "this is no set of tools, and its table names none",
                allowed="files, shell, web, clock, look, scratchpad",
            ),
        ),
        (
            {"toolbox": {"clock": {"guard": "off"}}},
            Problem(("toolbox", "clock", "guard"), "means nothing for the set clock", value="off"),
        ),
        (
            {"toolbox": {"files": {"tools": ["reed"]}}},
            Problem(("toolbox", "files", "tools", 0), "the set has no such tool", value="reed", nearest="read"),
        ),
        (
            {"toolbox": {"clock": {}, "b": {"set": "clock", "tools": ["sleep"]}}},
            Problem(
                ("toolbox", "b"), "of its tools these are declared already: sleep", allowed='a prefix: prefix = "…"'
            ),
        ),
        (
            {"toolbox": {"web": {"tools": ["search"]}}},
            Problem(
                ("toolbox", "web", "tools", 0),
                "it needs an engine",
                allowed='search = { engine = "brave", token_env = "BRAVE_KEY" }',
            ),
        ),
        (
            {"toolbox": {"web": {"search": {"engine": "searxng"}}}},
            Problem(("toolbox", "web", "search"), "SearXNG is wherever you run it: its url is missing"),
        ),
        (
            {"toolbox": {"web": {"search": {"engine": "brave"}}}},
            Problem(
                ("toolbox", "web", "search"), "its engine needs a key", allowed="one of token, token_env, token_file"
            ),
        ),
        (
            {"toolbox": {"web": {"search": {"engine": "brave", "token": "a", "token_env": "B"}}}},
            Problem(("toolbox", "web", "search"), "names its key twice", allowed="one of token, token_env, token_file"),
        ),
        (
            {"tools": {"t": {"builtin": "reed"}}},
            Problem(("tools", "t", "builtin"), "there is no such tool", value="reed", nearest="read"),
        ),
        (
            {"tools": {"t": {"builtin": "read", "inline": "id"}}},
            Problem(("tools", "t", "inline"), 'it has "builtin" already', value="id"),
        ),
        (
            {"tools": {"t": {"builtin": "read", "options": {"session": True}}}},
            Problem(("tools", "t", "options", "session"), "means nothing for read", allowed="guard"),
        ),
        (
            {"tools": {"t": {"builtin": "fetch", "options": {"private": "no"}}}},
            Problem(("tools", "t", "options", "private"), "Expected bool | null, got str"),
        ),
        (
            {"toolbox": {"shell": {"single_flight": True}}},
            Problem(("toolbox", "shell", "single_flight"), "each of its tools changes something, and has to be called"),
        ),
        (
            {"toolbox": {"clock": {}}, "agents": {"a": {"toolboxes": ["clok"]}}},
            Problem(("agents", "a", "toolboxes", 0), "there is no such toolbox", value="clok", nearest="clock"),
        ),
    ],
)
def test_a_mistake_is_told_at_its_place(table: dict[str, Any], problem: Problem) -> None:
    assert problems(table) == [problem]


def test_what_is_wrong_with_a_tool_of_a_toolbox_is_told_of_its_table(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[toolbox.clock]\n\n[toolbox.scratchpad]\nmemory = "1K"\n')
    with pytest.raises(ConfigError) as caught:
        load_catalog(file, {})
    assert str(caught.value).splitlines()[1].startswith(f"{file}:3: toolbox.scratchpad: ")


def test_every_tool_has_a_full_text() -> None:
    tools = [name for tool_set in SETS.values() for name in tool_set.tools]
    assert [name for name in tools if not doc_of(name)] == []
