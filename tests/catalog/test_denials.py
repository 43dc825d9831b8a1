"""What a profile takes away, by every spelling under which a tool can be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.serverdenials import ServerDenials, is_spelled, spellings_of
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec

CONFIG = Config(
    tools={
        "rm.all": ToolSpec(type="int -> int", inline="id", aliases=("wipe",), tags=("files",)),
        "keep": ToolSpec(type="int -> int", inline="id"),
        "find": ToolSpec(mcp="srv", name="search"),
    },
    mcp={"srv": McpSpec(command="srv"), "few": McpSpec(command="few", prefix="f", tools=("one", "two"))},
)


def built(**keys: object) -> Catalog | list[Problem]:
    everything = ProfileSpec(tools=("rm.all", "keep", "find"), mcp=("srv", "few"), **keys)  # type: ignore[arg-type]
    return build_catalog(Config(tools=CONFIG.tools, mcp=CONFIG.mcp, agents={"default": everything}))


def offered(entry: str, **keys: object) -> tuple[set[str], set[str]]:
    """The declared tools that are left, and of the servers' tools those that are not."""
    catalog = built(deny=(entry,), **keys)
    assert isinstance(catalog, Catalog), catalog
    profile = catalog.profiles["default"]
    tools = {"srv": ("search", "danger.zone"), "few": ("one", "two")}
    prefixes = {"srv": "srv", "few": "f"}
    left = {
        f"{use.server}:{tool}"
        for use in profile.servers
        for tool in tools[use.server]
        if use.denies(tool, (), prefix=prefixes[use.server])
    }
    return set(profile.tools), left


@pytest.mark.parametrize("entry", ["rm.all", "wipe", "rm_all", "rm*", "wip?", "#files"])
def test_a_declared_tool_is_taken_away_by_any_of_its_names(entry: str) -> None:
    assert offered(entry) == ({"keep", "find"}, set())


@pytest.mark.parametrize(
    "entry", ["srv:danger.zone", "srv__danger.zone", "srv_danger.zone", "srv__danger_zone", "srv__dan*"]
)
def test_a_server_s_tool_is_taken_away_by_any_of_its_names(entry: str) -> None:
    assert offered(entry) == ({"rm.all", "keep", "find"}, {"srv:danger.zone"})


@pytest.mark.parametrize("entry", ["f:one", "few:one", "f__one", "f_one"])
def test_a_prefix_and_a_table_s_name_stand_for_one_server(entry: str) -> None:
    assert offered(entry) == ({"rm.all", "keep", "find"}, {"few:one"})


@pytest.mark.parametrize("entry", ["find", "srv:search", "srv__search"])
def test_a_declared_tool_of_a_server_is_taken_away_with_what_it_is_made_of(entry: str) -> None:
    assert offered(entry) == ({"rm.all", "keep"}, {"srv:search"})


@pytest.mark.parametrize("entry", ["srv*danger*", "*danger*", "srv_dan*", "s??_danger?zone", "srv__danger_z*"])
def test_a_pattern_without_a_colon_is_of_servers_tools_too(entry: str) -> None:
    assert offered(entry) == ({"rm.all", "keep", "find"}, {"srv:danger.zone"})


def test_a_star_alone_is_all_declared_tools() -> None:
    assert offered("*") == (set(), set())


@pytest.mark.parametrize(
    "entry",
    [
        "danger.zone",
        "danger_zone",
        "srv__danger_zone",
        "srv_danger.zone",
        "mine__danger_zone",
        "dan*",
        "srv_d*",
        "*_zone",
    ],
)
def test_a_server_s_own_denial_holds_for_every_name_of_its_tools(entry: str) -> None:
    denials = ServerDenials((entry,), ("srv", "mine"))
    assert [denials.admits(tool) for tool in ("danger.zone", "danger.zones", "srv")] == [
        True,
        entry in {"dan*", "srv_d*"},
        False,
    ]
    assert denials.missing(("danger.zone",)) == []
    assert denials.missing(("other",)) == [entry]


def test_a_profile_may_not_name_what_its_server_denies_by_another_name() -> None:
    servers = {"srv": McpSpec(command="srv", deny=("srv__danger_zone",))}
    problems = build_catalog(Config(mcp=servers, agents={"default": ProfileSpec(tools=("srv:danger.zone",))}))
    assert [problem.why for problem in problems] == ["mcp.srv.deny takes this tool away"]  # type: ignore[union-attr]


def test_a_bare_name_is_one_where_names_are_read_leniently() -> None:
    assert offered("one", resolve="lenient")[1] >= {"few:one"}


@pytest.mark.parametrize(("entry", "near"), [("kep", "keep"), ("f:on", "f:one"), ("nobody:x", None), ("kee_", "keep")])
def test_what_fits_no_tool_is_a_problem(entry: str, near: str | None) -> None:
    (problem,) = built(deny=(entry,))  # type: ignore[misc]  # it is a list
    assert (problem.path, problem.value, problem.nearest) == (("agents", "default", "deny", 0), entry, near)


def test_what_only_a_server_can_tell_is_a_warning() -> None:
    catalog = built(deny=("srv:dangr",), allow=("keep", "nothing"))
    assert isinstance(catalog, Catalog)
    assert catalog.warnings == (
        "agents.default.allow: nothing: no tool has this name",
        "agents.default.deny: srv:dangr: whether a tool has this name is known once its server has told its tools",
    )


def test_an_alias_in_allow_means_its_tool() -> None:
    catalog = built(allow=("wipe", "srv__search"))
    assert isinstance(catalog, Catalog)
    profile = catalog.profiles["default"]
    assert (profile.tools, [use.server for use in profile.servers]) == (("rm.all",), ["srv"])


@given(st.text(st.sampled_from("abZ09_.-/: 查é$*?"), min_size=1, max_size=90))
def test_each_spelling_of_a_name_stands_for_it(name: str) -> None:
    assert [each for each in spellings_of(name) if not is_spelled(name, ["other", each])] == []
