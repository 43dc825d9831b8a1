"""Tools chosen by tags and hints, as far as the configuration tells."""

import pytest
from msgspec import Raw

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.profiles import Narrowing, Profile, ServerUse, narrow
from tooldispatchd.catalog.restspecs import RestApiSpec, RestSpec
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec
from tooldispatchd.catalog.traits import Choice, hints_in

TOOLS = {
    "read": ToolSpec(inline="id", tags=("files",), read_only=True),
    "write": ToolSpec(inline="id", tags=("files", "edit")),
    "get": ToolSpec(rest=RestSpec(url="http://x/"), type="{x: int} -> json"),
    "drop": ToolSpec(rest=RestSpec(url="http://x/", method="DELETE"), type="{x: int} -> json"),
    "hit": ToolSpec(mcp="web"),
}
SERVERS = {"web": McpSpec(command="x", tags=("net",)), "db": McpSpec(command="x")}


def profile(spec: ProfileSpec) -> Profile:
    built = build_catalog(Config(tools=TOOLS, mcp=SERVERS, agents={"default": spec}))
    assert isinstance(built, Catalog)
    return built.profiles["default"]


@pytest.mark.parametrize(
    ("allow", "deny", "tools", "servers"),
    [
        (None, ("write", "db:*_x"), "read get drop hit", (ServerUse("web"), ServerUse("db", without=("*_x",)))),
        (("#files",), (), "read write", ()),
        (("#f*",), ("#edit",), "read", ()),
        (("#net",), (), "hit", (ServerUse("web"),)),
        (None, ("#net", "#files"), "get drop", (ServerUse("db"),)),
        (("*", "*:*"), ("*",), "", (ServerUse("web", within=(("*",),)), ServerUse("db", within=(("*",),)))),
    ],
)
def test_tags_choose_declared_tools_and_whole_servers(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], tools: str, servers: tuple[ServerUse, ...]
) -> None:
    found = profile(ProfileSpec(allow=allow, deny=deny))
    assert (" ".join(found.tools), found.servers) == (tools, servers)


def test_an_api_s_tags_are_those_of_each_of_its_tools() -> None:
    api = RestApiSpec(base_url="http://x", tags=("shop", "net"))
    tools = {
        "item": ToolSpec(rest=RestSpec(api="shop", path="/"), tags=("net", "own")),
        "other": ToolSpec(rest=RestSpec(url="http://y/")),
    }
    built = build_catalog(
        Config(tools=tools, rest={"shop": api}, agents={"default": ProfileSpec(allow=("#shop",), deny=("#none*",))})
    )
    assert isinstance(built, Catalog)
    assert built.profiles["default"].tools == ("item",)
    assert built.tools["item"].spec.tags == ("net", "own", "shop")


def test_hints_choose_what_says_so_of_itself_and_leave_the_rest_to_the_session() -> None:
    # What a server says of its tools is known when it is up.
    both = (ServerUse("web", within=(("@read_only",),)), ServerUse("db", within=(("@read_only",),)))
    found = profile(ProfileSpec(allow=("@read_only",)))
    assert (found.tools, found.servers) == (("read", "get", "hit"), both)
    found = profile(ProfileSpec(deny=("@destructive",)))
    assert found.tools == ("read", "write", "get", "hit")
    assert found.servers == (ServerUse("web", without=("@destructive",)), ServerUse("db", without=("@destructive",)))


def test_a_tool_that_is_named_and_denied_is_not_asked_for() -> None:
    found = profile(ProfileSpec(tools=("read", "db:a", "db:b", "web:c"), deny=("read", "db:a", "web:*")))
    assert (found.tools, found.servers) == ((), (ServerUse("db", ("b",), without=("a",)),))


def test_what_a_profile_denies_no_spec_brings_back() -> None:
    built = build_catalog(Config(tools=TOOLS, mcp=SERVERS, agents={"default": ProfileSpec(deny=("db:a", "write"))}))
    assert isinstance(built, Catalog)
    whole = built.profiles["default"]
    part = narrow(whole, Narrowing(mcp=("db",), allow=("#files", "db:*")), built.servers, traits=built.traits)
    assert isinstance(part, Profile)
    assert (part.tools, part.servers) == (("read",), (ServerUse("db", within=(("*",),), without=("a",)),))
    for name in ("db:a", "write"):
        assert not isinstance(narrow(whole, Narrowing(tools=(name,)), built.servers), Profile)


@pytest.mark.parametrize(
    ("entry", "why", "close"),
    [("#filse", "no tool has this tag", "#files"), ("@readonly", "there is no such hint", "@read_only")],
)
def test_a_tag_or_a_hint_that_is_not_there_is_a_mistake(entry: str, why: str, close: str) -> None:
    for spec in (ProfileSpec(deny=("#nothing*", entry)), ProfileSpec(allow=("#files", entry))):
        found = build_catalog(Config(tools=TOOLS, mcp=SERVERS, agents={"default": spec}))
        assert isinstance(found, list)
        assert [(each.path[-1], each.why, each.nearest) for each in found] == [(1, why, close)]


def test_a_pattern_of_names_is_of_no_tag() -> None:
    assert not Choice(("*_web",)).admits("x", ("#my_web",))
    assert Choice(("*_web",)).admits("my_web", ())


@pytest.mark.parametrize(
    ("said", "hints"),
    [
        (None, ()),
        (b'{"readOnlyHint":true,"destructiveHint":false}', ("@read_only",)),
        (b'{"destructiveHint":true,"idempotentHint":1}', ("@destructive",)),
        (b"[]", ()),
        (b'{"readOnlyHint":', ()),
        (b'{"a":"\xff"}', ()),
    ],
)
def test_a_hint_is_what_a_server_says_in_so_many_words(said: bytes | None, hints: tuple[str, ...]) -> None:
    assert hints_in(None if said is None else Raw(said)) == hints
