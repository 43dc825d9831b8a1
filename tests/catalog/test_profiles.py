from hashlib import sha256
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.catalog import build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.profiles import (
    Narrowing,
    NotOffered,
    Profile,
    ServerUse,
    build_profiles,
    digest_of,
    disabled_uses,
    narrow,
)
from tooldispatchd.catalog.servers import build_servers
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, ToolSpec

ECHO = ToolSpec(inline="id", type="string -> string")
SERVER = McpSpec(command="server")
OFF = McpSpec(command="server", enabled=False)


def built(config: Config) -> tuple[dict[str, Profile], list[Problem]]:
    """The profiles, and what is wrong with their servers and tools."""
    servers, _, problems = build_servers(config)
    profiles, wrong = build_profiles(config, servers)
    return profiles, [*problems, *wrong]


def test_without_profiles_a_default_one_offers_every_tool_and_every_server() -> None:
    config = Config(tools={"b": ECHO, "a": ECHO}, mcp={"github": SERVER})
    assert built(config) == (
        {"default": Profile("default", ("b", "a"), (ServerUse("github"),))},
        [],
    )


def test_where_profiles_exist_there_is_no_default_unless_it_is_written() -> None:
    profiles, problems = built(Config(tools={"a": ECHO}, agents={"coder": ProfileSpec(tools=("a",))}))
    assert list(profiles) == ["coder"]
    assert not problems


def test_an_empty_profile_offers_nothing() -> None:
    profiles, _ = built(Config(tools={"a": ECHO}, mcp={"s": SERVER}, agents={"quiet": ProfileSpec()}))
    assert profiles["quiet"] == Profile("quiet", (), ())


def test_a_tool_of_a_server_opens_that_server_with_only_this_tool() -> None:
    spec = ProfileSpec(tools=("a", "github:search", "github:read"))
    profiles, problems = built(Config(tools={"a": ECHO}, mcp={"github": SERVER}, agents={"default": spec}))
    assert not problems
    assert profiles["default"] == Profile("default", ("a",), (ServerUse("github", ("search", "read")),))


def test_a_server_that_is_offered_whole_stays_whole() -> None:
    spec = ProfileSpec(tools=("github:search",), mcp=("github",))
    profiles, _ = built(Config(mcp={"github": SERVER}, agents={"default": spec}))
    assert profiles["default"].servers == (ServerUse("github", None),)


def test_what_is_listed_twice_is_offered_once() -> None:
    spec = ProfileSpec(tools=("a", "a", "s:t", "s:t"), mcp=())
    profiles, _ = built(Config(tools={"a": ECHO}, mcp={"s": SERVER}, agents={"default": spec}))
    assert profiles["default"] == Profile("default", ("a",), (ServerUse("s", ("t",)),))


def test_before_the_colon_stands_the_prefix_and_a_prefix_wins_over_a_binding() -> None:
    servers = {"one": McpSpec(command="x", prefix="two"), "two": McpSpec(command="y", prefix="three")}
    spec = ProfileSpec(tools=("two:a", "three:b", "one:c"))
    profiles, problems = built(Config(mcp=servers, agents={"default": spec}))
    assert not problems
    assert profiles["default"].servers == (ServerUse("one", ("a", "c")), ServerUse("two", ("b",)))


def test_a_tool_name_is_split_at_the_first_colon_only() -> None:
    spec = ProfileSpec(tools=("s:a:b",))
    profiles, _ = built(Config(mcp={"s": SERVER}, agents={"default": spec}))
    assert profiles["default"].servers == (ServerUse("s", ("a:b",)),)


def test_a_server_with_raw_names_is_named_by_its_binding() -> None:
    spec = ProfileSpec(tools=("raw:search",))
    profiles, problems = built(Config(mcp={"raw": McpSpec(command="x", prefix="")}, agents={"default": spec}))
    assert not problems
    assert profiles["default"].servers == (ServerUse("raw", ("search",)),)


def test_names_that_do_not_exist_are_problems_with_the_nearest_ones() -> None:
    spec = ProfileSpec(tools=("ecko", "githab:search"), mcp=("gihtub",))
    config = Config(tools={"echo": ECHO}, mcp={"github": SERVER}, agents={"default": spec})
    _, problems = built(config)
    assert problems == [
        Problem(("agents", "default", "mcp", 0), "no such server in [mcp]", value="gihtub", nearest="github"),
        Problem(("agents", "default", "tools", 0), "no such tool in [tools]", value="ecko", nearest="echo"),
        Problem(
            ("agents", "default", "tools", 1),
            "no such server in [mcp]",
            value="githab:search",
            nearest="github:search",
        ),
    ]


def test_a_process_among_the_tools_is_told_to_be_one() -> None:
    spec = ProfileSpec(tools=("echo",))
    _, problems = built(Config(processes={"echo": ProcessSpec(kind="id")}, agents={"default": spec}))
    why = "no such tool in [tools]: echo is a process; a tool can be made of it"
    assert problems == [Problem(("agents", "default", "tools", 0), why, value="echo")]


def test_a_tool_that_its_server_denies_is_a_problem() -> None:
    server = McpSpec(command="x", deny=("delete",))
    _, problems = built(Config(mcp={"s": server}, agents={"default": ProfileSpec(tools=("s:delete",))}))
    assert problems == [Problem(("agents", "default", "tools", 0), "mcp.s.deny takes this tool away", value="s:delete")]


def test_a_tool_that_its_servers_whitelist_lacks_is_a_problem() -> None:
    server = McpSpec(command="x", tools=("search", "read"))
    _, problems = built(Config(mcp={"s": server}, agents={"default": ProfileSpec(tools=("s:serch",))}))
    assert problems == [
        Problem(
            ("agents", "default", "tools", 0),
            "mcp.s.tools does not list this tool",
            value="s:serch",
            nearest="s:search",
        )
    ]


def test_a_server_that_is_not_enabled_is_left_out_with_a_warning() -> None:
    spec = ProfileSpec(tools=("off:search",), mcp=("off", "on"))
    config = Config(mcp={"off": OFF, "on": SERVER}, agents={"default": spec})
    profiles, problems = built(config)
    assert not problems
    assert profiles["default"].servers == (ServerUse("on"),)
    assert disabled_uses(config, build_servers(config)[0]) == [
        "agents.default: off is not offered: server off is not enabled",
        "agents.default: off:search is not offered: server off is not enabled",
    ]


def test_the_profile_that_offers_everything_leaves_out_servers_that_are_not_enabled() -> None:
    config = Config(mcp={"off": OFF, "on": SERVER})
    profiles, _ = built(config)
    assert profiles["default"].servers == (ServerUse("on"),)
    assert disabled_uses(config, build_servers(config)[0]) == [
        "agents.default: off is not offered: server off is not enabled"
    ]


def test_users_groups_and_jobs_stand_in_the_profile() -> None:
    profiles, problems = built(Config(agents={"a": ProfileSpec(uid=(0, 5), gid=7, jobs=False)}))
    assert not problems
    assert profiles["a"] == Profile("a", (), (), jobs=False, uids=frozenset({0, 5}), gids=frozenset({7}))
    assert profiles["a"].is_bound


def test_a_user_whose_name_was_not_looked_up_is_a_problem() -> None:
    _, problems = built(Config(agents={"a": ProfileSpec(uid=("ann", 5))}))
    assert problems == [Problem(("agents", "a", "uid"), "this name has not been looked up", value="ann")]


def test_a_digest_is_the_sha256_of_the_text() -> None:
    assert digest_of("ä") == sha256("ä".encode()).digest()


def test_of_a_long_token_no_more_is_digested_than_tells_it_from_every_right_one() -> None:
    assert digest_of("x" * 10_000_000) == digest_of("x" * 4097) != digest_of("x" * 4096)


# --- tools that are not offered, servers of tools ---

HIDDEN = ToolSpec(inline="id", type="string -> string", expose=False)
SEARCH = ToolSpec(mcp="docs")


def test_the_profile_that_offers_everything_leaves_out_what_is_not_exposed() -> None:
    profiles, _ = built(Config(tools={"a": ECHO, "inner": HIDDEN}))
    assert profiles["default"].tools == ("a",)


def test_a_tool_for_those_who_name_it_is_in_their_profiles_alone() -> None:
    tools = {"a": ECHO, "inner": ToolSpec(inline="id", type="string -> string", expose="named")}
    profiles, _ = built(Config(tools=tools))
    assert profiles["default"].tools == ("a",)
    profiles, problems = built(Config(tools=tools, agents={"default": ProfileSpec(tools=("inner",))}))
    assert not problems
    assert profiles["default"].tools == ("inner",)


@pytest.mark.parametrize(
    ("profile", "offered"),
    [
        (ProfileSpec(tools=("*",)), ("a",)),
        (ProfileSpec(tools=("*", "inner")), ("a", "inner")),
        (ProfileSpec(allow=("*",)), ("a",)),
        (ProfileSpec(allow=("inner",)), ("inner",)),
    ],
)
def test_a_pattern_names_no_tool_that_must_be_named(profile: ProfileSpec, offered: tuple[str, ...]) -> None:
    tools = {"a": ECHO, "inner": ToolSpec(inline="id", type="string -> string", expose="named")}
    profiles, problems = built(Config(tools=tools, agents={"default": profile}))
    assert not problems
    assert profiles["default"].tools == offered


def test_a_profile_cannot_list_a_tool_that_is_not_exposed() -> None:
    _, problems = built(Config(tools={"inner": HIDDEN}, agents={"default": ProfileSpec(tools=("inner",))}))
    why = "tools.inner has expose = false: it is there for chains only"
    assert problems == [Problem(("agents", "default", "tools", 0), why, value="inner")]


def test_a_server_that_only_a_declared_tool_uses_is_not_offered() -> None:
    config = Config(mcp={"docs": SERVER}, tools={"search": SEARCH}, agents={"default": ProfileSpec(tools=("search",))})
    profiles, problems = built(config)
    assert not problems
    assert profiles["default"] == Profile("default", ("search",), ())


def test_anonymous_servers_of_tools_are_not_among_all_servers() -> None:
    profiles, _ = built(Config(mcp={"docs": SERVER}, tools={"search": ToolSpec(mcp=McpSpec(command="npx"))}))
    assert profiles["default"].servers == (ServerUse("docs"),)


def test_a_declared_tool_of_a_server_that_is_not_enabled_is_a_warning() -> None:
    config = Config(mcp={"docs": OFF}, tools={"search": SEARCH})
    assert disabled_uses(config, build_servers(config)[0]) == [
        "agents.default: docs is not offered: server docs is not enabled",
        "tools.search: server docs is not enabled; it answers server_unavailable",
    ]


# --- agent processes ---


def agent(tools: tuple[str, ...] | None = None, mcp: tuple[str | McpSpec, ...] | None = None) -> ProcessSpec:
    return ProcessSpec(kind="agent", type="!string -> !string", command=("agent",), tools=tools, mcp=mcp)


def test_an_agent_process_that_names_tools_or_servers_is_a_profile_of_its_name() -> None:
    config = Config(
        tools={"a": ECHO, "b": ECHO},
        mcp={"docs": SERVER, "github": SERVER},
        processes={"writer": agent(("a", "github:search")), "reader": agent(mcp=("docs",)), "plain": agent()},
        agents={"default": ProfileSpec(tools=("b",))},
    )
    profiles, problems = built(config)
    assert not problems
    assert profiles == {
        "writer": Profile("writer", ("a",), (ServerUse("github", ("search",)),)),
        "reader": Profile("reader", (), (ServerUse("docs"),)),
        "default": Profile("default", ("b",), ()),
    }


def test_an_agent_process_is_offered_the_servers_that_have_no_name() -> None:
    servers = ("https://docs.example/mcp", McpSpec(command="npx", args=("-y", "x"), tools=("a",)))
    profiles, problems = built(Config(processes={"writer": agent(mcp=servers)}))
    assert not problems
    assert profiles["writer"].servers == (ServerUse("docs-example"), ServerUse("npx"))


def test_agent_processes_leave_the_profile_that_offers_everything_where_it_is() -> None:
    profiles, _ = built(Config(tools={"a": ECHO}, processes={"writer": agent(())}))
    assert profiles == {"default": Profile("default", ("a",), ()), "writer": Profile("writer", (), ())}


def test_an_agent_process_may_itself_be_the_default_profile() -> None:
    profiles, problems = built(Config(tools={"a": ECHO, "b": ECHO}, processes={"default": agent(("a",))}))
    assert not problems
    assert profiles == {"default": Profile("default", ("a",), ())}


def test_a_profile_has_one_table() -> None:
    _, problems = built(Config(processes={"writer": agent(())}, agents={"writer": ProfileSpec()}))
    why = "the agent process of this name is a profile of this name already"
    assert problems == [Problem(("agents", "writer"), why)]


def test_what_an_agent_process_names_must_exist() -> None:
    _, problems = built(Config(tools={"echo": ECHO}, processes={"writer": agent(("ecko",), ("nobody",))}))
    assert problems == [
        Problem(("processes", "writer", "mcp", 0), "no such server in [mcp]", value="nobody"),
        Problem(("processes", "writer", "tools", 0), "no such tool in [tools]", value="ecko", nearest="echo"),
    ]


# --- narrowing ---

NARROWED = Config(
    tools={"a": ECHO, "b": ECHO, "c": ECHO},
    mcp={
        "docs": McpSpec(command="x", deny=("drop",)),
        "listed": McpSpec(command="x", tools=("search", "read")),
        "part": McpSpec(command="x", prefix="p"),
        "other": SERVER,
        "off": OFF,
    },
    agents={
        "default": ProfileSpec(tools=("a", "b", "p:search", "p:read"), mcp=("docs", "listed", "off"), uid=5, jobs=True),
        "jobless": ProfileSpec(jobs=False),
    },
)
SERVERS = build_servers(NARROWED)[0]
WHOLE = built(NARROWED)[0]["default"]


def narrowed(wish: Narrowing) -> Profile | NotOffered:
    return narrow(WHOLE, wish, SERVERS)


@pytest.mark.parametrize(
    ("wish", "tools", "servers"),
    [
        (Narrowing(), WHOLE.tools, WHOLE.servers),
        (Narrowing(jobs=True), WHOLE.tools, WHOLE.servers),
        (Narrowing(tools=()), (), ()),
        (Narrowing(tools=(), mcp=("docs",)), (), (ServerUse("docs"),)),
        (Narrowing(mcp=()), ("a", "b"), ()),
        (Narrowing(tools=("b", "b")), ("b",), ()),
        (Narrowing(mcp=("docs",)), ("a", "b"), (ServerUse("docs"),)),
        (Narrowing(tools=("docs:search",)), (), (ServerUse("docs", ("search",)),)),
        (Narrowing(tools=("docs:search",), mcp=("docs",)), (), (ServerUse("docs"),)),
        (Narrowing(tools=("p:read",)), (), (ServerUse("part", ("read",)),)),
        (Narrowing(tools=("part:read", "p:search")), (), (ServerUse("part", ("read", "search")),)),
        (Narrowing(tools=("listed:read", "a")), ("a",), (ServerUse("listed", ("read",)),)),
        (Narrowing(tools=("docs:perhaps",)), (), (ServerUse("docs", ("perhaps",)),)),
    ],
)
def test_a_profile_is_narrowed_to_what_is_named(
    wish: Narrowing, tools: tuple[str, ...], servers: tuple[ServerUse, ...]
) -> None:
    assert narrowed(wish) == Profile("default", tools, servers, uids=frozenset({5}), disabled=("off",))


def test_a_server_without_a_name_is_narrowed_to_by_what_it_is_called_in_faults() -> None:
    config = Config(processes={"writer": agent(mcp=(McpSpec(command="npx"), McpSpec(command="uvx")))})
    servers, _, _ = build_servers(config)
    whole = build_profiles(config, servers)[0]["writer"]
    part = narrow(whole, Narrowing(mcp=("npx",), tools=("uvx:add",)), servers)
    assert part == Profile("writer", (), (ServerUse("npx"), ServerUse("uvx", ("add",))))


@pytest.mark.parametrize(
    "wish",
    [
        Narrowing(tools=("c",)),
        Narrowing(tools=("nothing",)),
        Narrowing(tools=("",)),
        Narrowing(tools=(":",)),
        Narrowing(tools=("docs",)),
        Narrowing(mcp=("a",)),
        Narrowing(mcp=("other",)),
        Narrowing(mcp=("off",)),
        Narrowing(mcp=("part",)),
        Narrowing(mcp=("p",)),
        Narrowing(tools=("other:search",)),
        Narrowing(tools=("off:search",)),
        Narrowing(tools=("nobody:search",)),
        Narrowing(tools=("p:write",)),
        Narrowing(tools=("docs:drop",)),
        Narrowing(tools=("listed:write",)),
    ],
)
def test_what_the_profile_does_not_offer_is_refused_by_its_name(wish: Narrowing) -> None:
    assert narrowed(wish) == NotOffered((*(wish.tools or ()), *(wish.mcp or ()))[0])


def test_jobs_can_be_given_up_and_not_be_gained() -> None:
    jobless = built(NARROWED)[0]["jobless"]
    given_up = narrowed(Narrowing(jobs=False))
    assert isinstance(given_up, Profile)
    assert not given_up.jobs
    gained = narrow(jobless, Narrowing(jobs=True), SERVERS)
    assert gained == NotOffered("jobs")
    assert narrow(jobless, Narrowing(), SERVERS) == jobless


NAMES = st.sampled_from(["a", "b", "c", "docs", "listed", "part", "p", "other", "off", "jobs", "search", "drop", ""])
ENTRIES = NAMES | st.builds("{}:{}".format, NAMES, NAMES)
WISHES = st.builds(
    Narrowing,
    tools=st.lists(ENTRIES, max_size=4).map(tuple),
    mcp=st.lists(NAMES, max_size=3).map(tuple),
    jobs=st.none() | st.booleans(),
)


def is_within(use: ServerUse, whole: dict[str, ServerUse]) -> bool:
    if use.server not in whole:
        return False
    only = whole[use.server].only
    return only is None or (use.only is not None and set(use.only) <= set(only))


@given(WISHES, WISHES)
def test_narrowing_never_offers_more_than_there_was(first: Narrowing, second: Narrowing) -> None:
    """The profile is itself a narrowed one, so that every kind of profile comes up."""
    whole = narrowed(first)
    for start in (WHOLE, whole):
        part = narrow(start, second, SERVERS) if isinstance(start, Profile) else None
        if isinstance(part, Profile) and isinstance(start, Profile):
            offered = {use.server: use for use in start.servers}
            assert set(part.tools) <= set(start.tools)
            assert all(is_within(use, offered) for use in part.servers)
            assert part.jobs <= start.jobs
            assert (part.name, part.uids, part.gids) == (start.name, start.uids, start.gids)


@given(WISHES)
def test_narrowing_twice_by_the_same_is_narrowing_once(wish: Narrowing) -> None:
    once = narrowed(wish)
    if isinstance(once, Profile):
        assert narrow(once, wish, SERVERS) == once


PATTERNED = Config(
    tools={
        "Fs.read": ToolSpec(inline="id", type="int -> int", aliases=("cat",)),
        "Fs.write": ToolSpec(inline="id", type="int -> int"),
        "echo": ToolSpec(inline="id", type="int -> int"),
        "hidden": ToolSpec(inline="id", type="int -> int", expose=False),
    },
    mcp={"docs": McpSpec(command="docs"), "raw": McpSpec(command="raw", prefix="")},
)


def patterned(spec: ProfileSpec) -> Profile | list[Problem]:
    config = msgspec.structs.replace(PATTERNED, agents={"default": spec})
    servers, _, _ = build_servers(config)
    profiles, problems = build_profiles(config, servers)
    return problems or profiles["default"]


@pytest.mark.parametrize(
    ("spec", "tools", "uses"),
    [
        (ProfileSpec(tools=("Fs.*",)), ("Fs.read", "Fs.write"), ()),
        (ProfileSpec(tools=("*", "echo")), ("Fs.read", "Fs.write", "echo"), ()),
        (ProfileSpec(tools=("cat",)), ("Fs.read",), ()),
        (ProfileSpec(tools=("docs:get_*",)), (), (ServerUse("docs", ("get_*",)),)),
        (ProfileSpec(allow=("Fs.*", "gone")), ("Fs.read", "Fs.write"), (ServerUse("raw", None, (("Fs.*", "gone"),)),)),
        (ProfileSpec(allow=("d*:get_*",)), (), (ServerUse("docs", None, (("get_*",),)),)),
        (ProfileSpec(tools=("*",), mcp=("docs",), allow=("*.read",)), ("Fs.read",), ()),
        (ProfileSpec(tools=("docs:a", "docs:b"), allow=("docs:b",)), (), (ServerUse("docs", ("b",), (("b",),)),)),
        (ProfileSpec(tools=("docs:a",), allow=("docs:b",)), (), ()),
        (ProfileSpec(allow=()), (), ()),
    ],
)
def test_a_profile_has_what_its_patterns_stand_for_and_its_filter_leaves(
    spec: ProfileSpec, tools: tuple[str, ...], uses: tuple[ServerUse, ...]
) -> None:
    assert patterned(spec) == Profile("default", tools, uses)


@pytest.mark.parametrize("entry", ["fs.*", "hid*", "?", "*:get"])
def test_a_pattern_that_nothing_matches_is_a_problem(entry: str) -> None:
    (problem,) = cast("list[Problem]", patterned(ProfileSpec(tools=(entry,))))
    assert problem.path == ("agents", "default", "tools", 0)


@pytest.mark.parametrize(
    ("wish", "tools", "uses"),
    [
        (Narrowing(tools=("cat",)), ("Fs.read",), ()),
        (Narrowing(tools=("Fs.*", "docs:*")), ("Fs.read", "Fs.write"), (ServerUse("docs", ("*",), (("get_*", "b"),)),)),
        (Narrowing(tools=("docs:get_x",)), (), (ServerUse("docs", ("get_x",)),)),
        (Narrowing(allow=("echo", "gone")), ("echo",), ()),
        (Narrowing(allow=("docs:get_x",)), (), (ServerUse("docs", ("get_*",), (("get_x",),)),)),
    ],
)
def test_a_spec_narrows_by_aliases_patterns_and_a_filter_and_never_widens(
    wish: Narrowing, tools: tuple[str, ...], uses: tuple[ServerUse, ...]
) -> None:
    whole = Profile("default", ("Fs.read", "Fs.write", "echo"), (ServerUse("docs", ("get_*", "b")),))
    servers, _, _ = build_servers(PATTERNED)
    assert narrow(whole, wish, servers, {"cat": "Fs.read"}) == Profile("default", tools, uses)


@pytest.mark.parametrize("entry", ["fs*", "hidden", "docs:c", "raw:*"])
def test_a_spec_that_names_in_vain_is_told_so(entry: str) -> None:
    whole = Profile("default", ("Fs.read", "echo"), (ServerUse("docs", ("a", "b")),))
    servers, _, _ = build_servers(PATTERNED)
    assert narrow(whole, Narrowing(tools=(entry,)), servers) == NotOffered(entry)


def test_an_alias_that_another_tool_has_is_a_problem_that_names_both() -> None:
    tools = {
        "a": ToolSpec(inline="id", type="int -> int", aliases=("b", "x")),
        "b": ToolSpec(inline="id", type="int -> int", aliases=("x",)),
    }
    problems = cast("list[Problem]", build_catalog(Config(tools=tools)))
    assert [(problem.path, problem.why) for problem in problems] == [
        (("tools", "a", "aliases", 0), "b cannot mean a: it is the name of tools.b"),
        (("tools", "b", "aliases", 0), "x cannot mean b: it is an alias of tools.a"),
    ]
