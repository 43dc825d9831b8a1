import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.catalog import build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.catalog.workspaces import escaped, is_within, segments

NAMES = st.none() | st.text(min_size=1, max_size=400) | st.text("._-%/a", min_size=1, max_size=8)
TOOL = ToolSpec(command=("true",), cwd="workspace")
SHUT_IN = ToolSpec(command=("true",), read=("workspace",))


@given(NAMES)
def test_every_name_is_one_segment(name: str | None) -> None:
    segment = escaped(name)
    assert segment not in {"", ".", ".."}
    assert "/" not in segment
    assert "\0" not in segment
    assert segment.isascii()
    assert len(segment) <= 255


@given(NAMES, NAMES)
def test_no_two_names_are_the_same_segment(one: str | None, other: str | None) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "segment"),
    [("ann", "ann"), (None, "_"), ("_", "%5F"), (".git", "%2Egit"), ("a/b", "a%2Fb"), ("é", "%C3%A9"), ("%", "%25")],
)
def test_names_stay_legible(name: str | None, segment: str) -> None:
    assert escaped(name) == segment


def test_long_names_that_begin_alike_are_told_apart() -> None:
    assert escaped("x" * 300) != escaped("x" * 301)


def test_what_may_be_missing_of_a_template_begins_with_its_first_variable() -> None:
    values = {"agent": "a", "profile": "p", "uid": "7"}
    assert segments("/srv/agents/${profile}/in/${agent}", values) == ("/srv/agents", ["p", "in", "a"])
    assert segments("/srv/agents/one/", values) == ("/srv/agents", ["one"])
    assert segments("/${uid}", values) == ("/", ["7"])


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("/srv/a", "/srv/*", True),
        ("/srv/a/b/c", "/srv/*", True),
        ("/srv", "/srv/*", False),
        ("/srv2/a", "/srv/*", False),
        ("/srv/a", "/srv/a", True),
        ("/srv/ab", "/srv/a", False),
        ("/srv/team-1/x", "/srv/team-*/x", True),
        ("/srv/team/x", "/srv/team-*/x", False),
        ("/srv/a.b", "/srv/a?b", False),
        ("/srv/line\nfeed", "/srv/*", True),
        ("/srv/a-b-c-b", "/srv/a*b*b", True),
        ("/srv/aba", "/srv/a*ba*ba", False),
        # Tried in every way it would take hours.
        ("/srv/" + "ab" * 2_000, "/srv/a*b*a*b*a*c", False),
    ],
)
def test_a_pattern_means_its_directories_and_what_is_in_them(path: str, pattern: str, *, expected: bool) -> None:
    assert is_within(path, pattern) is expected


def problems(config: Config) -> list[Problem]:
    built = build_catalog(config)
    return built if isinstance(built, list) else []


@pytest.mark.parametrize("template", ["/srv/${agent}x", "/srv/${profile}${agent}", "/srv/${name}"])
def test_a_variable_is_a_whole_segment(template: str) -> None:
    found = problems(Config(agents={"a": ProfileSpec(workspace=template)}))
    assert [problem.path for problem in found] == [("agents", "a", "workspace")]


@pytest.mark.parametrize("tool", [TOOL, SHUT_IN])
def test_a_profile_without_a_workspace_cannot_offer_what_needs_one(tool: ToolSpec) -> None:
    assert [each.path for each in problems(Config(tools={"t": tool}))] == [("tools", "t")]
    without = ProfileSpec(tools=("t",))
    assert [each.path for each in problems(Config(tools={"t": tool}, agents={"a": without}))] == [("tools", "t")]


@pytest.mark.parametrize("profile", [ProfileSpec(workspace="/srv"), ProfileSpec(workspaces=("/srv/*",))])
def test_a_profile_that_may_have_one_can(profile: ProfileSpec) -> None:
    agents = {"a": ProfileSpec(tools=("t",), workspace=profile.workspace, workspaces=profile.workspaces)}
    assert problems(Config(tools={"t": TOOL}, agents=agents)) == []


def test_servers_and_agents_in_chains_are_looked_at_too() -> None:
    config = Config(
        mcp={"s": McpSpec(command="server", cwd="workspace")},
        tools={"t": ToolSpec(process="p", type="string -> string")},
        processes={"p": ProcessSpec(kind="agent", type="!string -> !string", command=("true",), cwd="workspace")},
        agents={"a": ProfileSpec(tools=("t",), mcp=("s",))},
    )
    assert [each.path for each in problems(config)] == [("processes", "p"), ("mcp", "s")]


def test_a_shared_server_can_have_none() -> None:
    shared = McpSpec(command="server", cwd="workspace", shared=True)
    found = problems(Config(mcp={"s": shared}, agents={"a": ProfileSpec(mcp=("s",), workspaces=("/srv",))}))
    assert [each.path for each in found] == [("mcp", "s")]


def test_what_no_profile_offers_needs_none() -> None:
    assert problems(Config(tools={"t": TOOL}, agents={"a": ProfileSpec()})) == []
