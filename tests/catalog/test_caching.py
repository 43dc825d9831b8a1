"""Which answers may be given again, as all tables of a tool say it together, and what of that is a mistake."""

from typing import Any

import pytest

from tooldispatchd.catalog.caching import Caching, keeps_s_of
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.explanation import policy_lines
from tooldispatchd.catalog.policy import policy_of
from tooldispatchd.catalog.restspecs import AnnotationsSpec, RestApiSpec, RestSpec
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ToolSpec


def caching(tool: dict[str, Any] | None, server: dict[str, Any], name: str = "get_file") -> Caching | None:
    """That of a tool which its server calls `name`."""
    config = Config(tools={} if tool is None else {"t": ToolSpec(mcp="s", **tool)})
    binding = Binding("s", McpSpec(command="x", **server), prefix="s")
    return policy_of(config, None, tool=None if tool is None else "t", server=binding, server_tool=name).caching


@pytest.mark.parametrize(
    ("tool", "server", "found"),
    [
        (None, {"cache": "5m", "read_only": ("*",)}, Caching(300.0)),
        (None, {"cache": 1500, "read_only": ("*",)}, Caching(1.5)),
        (None, {"cache": "5m"}, None),
        (None, {"cache": {"get_*": "1s", "*": "1h"}, "read_only": ("*",)}, Caching(1.0)),
        (None, {"cache": {"put_*": "1s"}, "read_only": ("*",)}, None),
        ({"cache": "off"}, {"cache": "5m", "read_only": ("*",)}, None),
        ({"read_only": False}, {"cache": "5m", "read_only": ("*",)}, None),
        ({"read_only": True, "cache": "2m"}, {"cache": "5m", "cache_scope": "shared"}, Caching(120.0, is_shared=True)),
        ({"idempotent": True}, {"cache": "5m", "single_flight": True}, Caching(is_joined=True)),
        ({"single_flight": False}, {"single_flight": True, "read_only": ("*",)}, None),
        (None, {"single_flight": True}, None),
    ],
)
def test_the_nearest_table_that_says_something_counts_for_tools_that_only_read(
    tool: dict[str, Any] | None, server: dict[str, Any], found: Caching | None
) -> None:
    assert caching(tool, server) == found


@pytest.mark.parametrize(
    ("tool", "api", "found"),
    [
        ({}, {"cache": "5m", "cache_scope": "shared"}, Caching(300.0, is_shared=True)),
        ({"cache": "1s"}, {"cache": "5m"}, Caching(1.0)),
        ({}, {"cache": {"x*": "1s", "t*": "1h"}}, Caching(3600.0)),
        ({"read_only": False}, {"cache": "5m"}, None),
        ({}, {"single_flight": True}, Caching(is_joined=True)),
    ],
)
def test_an_api_says_it_for_those_of_its_tools_that_only_read(
    tool: dict[str, Any], api: dict[str, Any], found: Caching | None
) -> None:
    spec = ToolSpec(rest=RestSpec(api="a", path="/"), **tool)
    config = Config(rest={"a": RestApiSpec(base_url="http://x", **api)}, tools={"tt": spec})
    assert policy_of(config, None, tool="tt", says_read_only=True).caching == found


@pytest.mark.parametrize(
    ("kept", "seconds"), [("250ms", 0.25), ("5m", 300.0), ("2d", 172_800.0), ("off", 0.0), (10, 0.01)]
)
def test_a_time_is_written_with_its_unit_or_in_milliseconds(kept: int | str, seconds: float) -> None:
    assert keeps_s_of(kept) == seconds


def problems_of(**tables: Any) -> list[tuple[str, str]]:
    """Where each mistake stands, and what it is."""
    found = build_catalog(Config(**tables))
    return [] if isinstance(found, Catalog) else [(".".join(map(str, each.path)), each.why) for each in found]


PROGRAM = {"command": ("x",)}
CHANGES = "a tool that may change something has to be called"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({**PROGRAM, "cache": "5m", "read_only": True, "single_flight": True, "cache_scope": "shared"}, None),
        ({**PROGRAM, "cache": "off"}, None),
        ({**PROGRAM, "cache": "5m"}, ("cache", CHANGES)),
        ({**PROGRAM, "cache": "5 m", "read_only": True}, ("cache", "for how long is not to be read from this")),
        ({**PROGRAM, "cache": -1, "read_only": True}, ("cache", "for how long is not to be read from this")),
        ({**PROGRAM, "cache": {"a": "5m"}, "read_only": True}, ("cache", "a tool's answers are all kept for one time")),
        ({**PROGRAM, "cache_scope": "shared"}, ("cache_scope", "it means nothing without cache or single_flight")),
        ({**PROGRAM, "single_flight": True, "idempotent": True}, None),
        (
            {**PROGRAM, "single_flight": True},
            ("single_flight", "calls of a tool that may change something are not one"),
        ),
        (
            {**PROGRAM, "cache": "5m", "read_only": True, "mode": "asked"},
            ("cache", "its calls are jobs, each with a result of its own"),
        ),
        (
            {"inline": "id", "type": "json -> json", "cache": "5m", "read_only": True},
            ("cache", "its answer is computed sooner than it would be found"),
        ),
        (
            {"map": "input", "type": "json -> json", "cache": "5m", "read_only": True},
            ("cache", "its answer is computed sooner than it would be found"),
        ),
        (
            {"process": "writer", "cache": "5m", "read_only": True},
            ("cache", "it runs an agent, which answers anew each time"),
        ),
        ({"rest": RestSpec(url="https://a.example/"), "cache": "5m"}, None),
        ({"rest": RestSpec(url="https://a.example/", method="POST"), "cache": "5m"}, ("cache", CHANGES)),
        (
            {
                "rest": RestSpec(url="https://a.example/", method="POST"),
                "annotations": AnnotationsSpec(read_only_hint=True),
                "cache": "5m",
            },
            None,
        ),
        ({"rest": RestSpec(url="https://a.example/"), "cache": "5m", "read_only": False}, ("cache", CHANGES)),
        # What its server says of it is known later.
        ({"mcp": "s", "cache": "5m"}, None),
    ],
)
def test_a_cache_for_a_tool_that_cannot_have_one_is_a_mistake(
    tool: dict[str, Any], problem: tuple[str, str] | None
) -> None:
    writer = ProcessSpec(kind="agent", type="string -> string", command=("agent",))
    found = problems_of(tools={"t": ToolSpec(**tool)}, mcp={"s": McpSpec(command="x")}, processes={"writer": writer})
    assert found == ([] if problem is None else [(f"tools.t.{problem[0]}", problem[1])])


def test_a_server_says_which_of_its_tools_are_kept_or_is_warned_of() -> None:
    tables = {
        "a": McpSpec(command="x", cache="5m"),
        "b": McpSpec(command="y", cache="5m", read_only=("get_*",)),
        "c": McpSpec(command="z", cache="off"),
    }
    catalog = build_catalog(Config(mcp=tables))
    assert isinstance(catalog, Catalog)
    warning = "mcp.a: only tools are cached of which it says that they only read (readOnlyHint); read_only names more"
    assert catalog.warnings == (warning,)
    wrong = {"a": McpSpec(command="x", cache={"*": "soon"}), "b": McpSpec(command="y", cache_scope="shared")}
    assert [path for path, _ in problems_of(mcp=wrong)] == ["mcp.a.cache.*", "mcp.b.cache_scope"]


def test_check_explains_what_is_given_again_and_to_whom() -> None:
    server = McpSpec(command="x", cache={"get_*": "5m", "*": 0}, cache_scope="shared", single_flight=True)
    assert list(policy_lines(server)) == [
        "answers are given again: get_* for 300 s, * never, to whoever asks",
        "equal calls under way are one",
    ]
