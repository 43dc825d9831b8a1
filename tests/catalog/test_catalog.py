from hashlib import sha256

import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec

ECHO = ToolSpec(inline="id", type="string -> string")


def test_a_configuration_gives_its_tools_profiles_and_prefixes() -> None:
    config = Config(tools={"echo": ECHO}, mcp={"time": McpSpec(command="x")})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    assert catalog.config is config
    assert list(catalog.tools) == ["echo"]
    assert list(catalog.profiles) == ["default"]
    assert {name: binding.prefix for name, binding in catalog.servers.items()} == {"time": "time"}
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


def test_a_token_of_the_configuration_is_kept_as_its_digest_only() -> None:
    catalog = build_catalog(Config(agents={"a": ProfileSpec(token="s3cret"), "b": ProfileSpec()}))
    assert isinstance(catalog, Catalog)
    assert catalog.tokens == {"a": sha256(b"s3cret").digest()}
    assert "s3cret" not in repr(catalog)
    assert catalog.config.agents["a"] == ProfileSpec()


def test_tokens_from_elsewhere_are_given_as_digests() -> None:
    config = Config(agents={"a": ProfileSpec(token_env="X"), "b": ProfileSpec(token="s3cret")})
    catalog = build_catalog(config, {"a": b"digest"})
    assert isinstance(catalog, Catalog)
    assert catalog.tokens == {"a": b"digest", "b": sha256(b"s3cret").digest()}


@pytest.mark.parametrize("spec", [ProfileSpec(token_env="X"), ProfileSpec(token_file="x")])
def test_a_profile_whose_token_nobody_read_is_a_problem_and_never_open(spec: ProfileSpec) -> None:
    assert build_catalog(Config(agents={"a": spec})) == [Problem(("agents", "a"), "its token has not been read")]


@pytest.mark.parametrize("token", ["", "x" * 4097, "\udcff"])
def test_a_token_that_none_can_show_is_a_problem(token: str) -> None:
    problems = build_catalog(Config(agents={"a": ProfileSpec(token=token)}))
    assert isinstance(problems, list)
    assert [problem.path for problem in problems] == [("agents", "a", "token")]


@pytest.mark.parametrize(
    ("spec", "is_protected"),
    [
        (ProfileSpec(), False),
        (ProfileSpec(token="s3cret"), True),
        (ProfileSpec(uid=0), True),
        (ProfileSpec(gid=(1, 2)), True),
    ],
)
def test_a_catalog_is_protected_where_a_profile_asks_who_comes(spec: ProfileSpec, is_protected: bool) -> None:
    catalog = build_catalog(Config(agents={"default": ProfileSpec(), "a": spec}))
    assert isinstance(catalog, Catalog)
    assert catalog.is_protected is is_protected


def test_the_text_of_a_profile_hides_its_token() -> None:
    assert "s3cret" not in repr(Config(agents={"a": ProfileSpec(token="s3cret", tools=("b",))}))


def test_a_warning_tells_of_each_profile_that_administers_the_daemon_without_a_token() -> None:
    operators = {
        "all": ProfileSpec(admin=True),
        "own": ProfileSpec(admin=True, uid=(1000,)),
        "safe": ProfileSpec(admin=True, token="0123456789abcdef"),
    }
    catalog = build_catalog(Config(agents=operators))
    assert isinstance(catalog, Catalog)
    without = "admin = true without a token"
    assert catalog.warnings == (
        f"agents.all: {without}: whoever can open the socket may administer the daemon",
        f"agents.own: {without}: any process of its uid or gid, a tool's of this daemon too, may administer the daemon",
    )


def test_a_warning_tells_of_each_profile_that_is_asked_about_calls_without_a_token() -> None:
    agents = {
        "worker": ProfileSpec(approver="boss"),
        "other": ProfileSpec(approver="safe"),
        "boss": ProfileSpec(approver=True),
        "safe": ProfileSpec(approver=True, token="0123456789abcdef"),
        "idle": ProfileSpec(approver=True),
    }
    catalog = build_catalog(Config(agents=agents))
    assert isinstance(catalog, Catalog)
    [warning] = catalog.warnings
    assert warning.startswith("agents.boss: approver = true without a token: whoever can open the socket may allow")


def test_a_pattern_of_a_declared_tool_that_cannot_be_matched_is_a_warning() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"to": {"type": "string", "pattern": "^(?!a)"}}}
    catalog = build_catalog(Config(tools={"send": ToolSpec(command=("cat",), input_schema=schema)}))
    assert isinstance(catalog, Catalog)
    [warning] = catalog.warnings
    assert warning.startswith("tools.send: not checked is its input_schema at /properties/to/pattern (look-around")
    assert catalog.tools["send"].input_schema == schema
    assert not catalog.tools["send"].input.is_valid({"to": 1})
