from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec

ECHO = ToolSpec(inline="id", type="string -> string")


def test_a_configuration_gives_its_tools_profiles_and_prefixes() -> None:
    config = Config(tools={"echo": ECHO}, mcp={"time": McpSpec(command="x")})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    assert catalog.config is config
    assert list(catalog.tools) == ["echo"]
    assert list(catalog.profiles) == ["default"]
    assert catalog.prefixes == {"time": "time"}
    assert catalog.warnings == ()


def test_an_empty_configuration_gives_an_empty_default_profile() -> None:
    catalog = build_catalog(Config())
    assert isinstance(catalog, Catalog)
    assert catalog.profiles["default"].tools == ()


def test_the_problems_of_tools_and_profiles_are_given_together() -> None:
    config = Config(tools={"none": ToolSpec()}, agents={"default": ProfileSpec(tools=("missing",))})
    problems = build_catalog(config)
    assert isinstance(problems, list)
    assert [problem.path[:2] for problem in problems] == [("tools", "none"), ("agents", "default")]


def test_warnings_tell_of_taken_prefixes_and_of_servers_that_are_not_enabled() -> None:
    servers = {"a": McpSpec(command="x", prefix="b"), "b": McpSpec(command="x", enabled=False)}
    catalog = build_catalog(Config(mcp=servers, agents={"default": ProfileSpec(mcp=("a", "b"))}))
    assert isinstance(catalog, Catalog)
    assert catalog.warnings == (
        'mcp.b: prefix "b" is taken, its tools are offered as "b-2:…"',
        "agents.default: b is not offered: server b is not enabled",
    )
