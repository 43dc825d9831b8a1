"""How the tools of servers may be called and chosen, through a real daemon."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.agent.declaring import NAMED, code_of, command, late, names_of
from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, until

ODD: Final = ("查询", "a b", "what?", "x" * 150)
CONFIG: Final = "\n".join(
    [
        "[tools.first]\ninline = 'id'\ntype = 'string -> string'\naliases = ['one']",
        "[mcp]",
        f"quick = {command(NAMED, 'quick', 'search', 'look_up')}",
        f"slow = {late(NAMED, 'slow', 'search', 'find')}",
        f"again = {command(NAMED, 'again', 'open', prefix='quick')}",
        f"part = {command(NAMED, 'part', 'get_a', 'get_b', 'put_a', tools=['get_*', 'put_a'], deny=['*_b'])}",
        f"filtered = {command(NAMED, 'filtered', 'get_a', 'put_a', allow=['get_*', 'gone'])}",
        "silent = {command = 'sleep', args = ['86399']}",
        "failing = {command = 'false'}",
        f"lacking = {command(NAMED, 'lacking', 'get_a', tools=['put_*'])}",
        f"odd = {command(NAMED, 'odd', *ODD)}",
        f"some = {command(NAMED, 'some', *ODD, deny=['查询', 'a__-20b'])}",
        f"raw = {command(NAMED, 'raw', 'ns::tool', 'quick:search', 'quick!resources/read', prefix='')}",
        "[tools.asked]\nmcp = 'odd'\nname = 'what__-3f'",
        "[agents.odd]\ntools = ['asked']\nmcp = ['odd']\njobs = false",
        "[agents.some]\nmcp = ['some']\ndeny = ['some:what__-3f', 'some:x*']\njobs = false",
        "[agents.named]\ntools = ['odd:a b', 'odd:__-e69fa5__-e8afa2']\njobs = false",
        "[agents.raw]\nmcp = ['raw', 'quick']\njobs = false",
        "[agents.rawer]\nmcp = ['raw']\ndeny = ['ns::tool', 'quick:*']\njobs = false",
        "[agents.default]\ntools = ['first']\nmcp = ['quick', 'slow']\njobs = false",
        "[agents.lenient]\nmcp = ['quick', 'slow']\nresolve = 'lenient'\njobs = false",
        "[agents.flat]\nmcp = ['slow']\nseparator = '_'\njobs = false",
        "[agents.denied]\nmcp = ['silent', 'failing']\ndeny = ['silent:find', 'failing:find']\njobs = false",
        "[agents.twice]\nmcp = ['quick', 'again']\njobs = false",
        "[agents.chosen]\ntools = ['part:get_*', 'filtered:get_a']\nmcp = []\njobs = false",
        "[agents.parts]\nmcp = ['part', 'filtered']\njobs = false",
        "[agents.lacking]\nmcp = ['lacking']",
        "[agents.wishful]\ntools = ['slow:l*']",
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("called"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


@pytest.mark.parametrize(
    ("profile", "name", "content"),
    [
        ("default", "slow_find", "find"),
        ("default", "slow__find", "find"),
        ("default", "one", '"x"'),
        ("lenient", "find", "find"),
        ("flat", "slow_find", "find"),
        ("flat", "slow:find", "find"),
    ],
)
def test_a_request_that_follows_hello_at_once_waits_until_it_is_known_what_its_name_means(
    agent: Agent, profile: str, name: str, content: str
) -> None:
    agent.say({"__port": "hello", "profile": profile})
    agent.call("1", name, {} if content == "find" else "x")
    lines = {str(line["__port"]): line for line in (agent.hear(), agent.hear())}
    assert lines["tool_resp"]["content"] == content


def test_a_tool_that_the_configuration_denies_is_refused_whether_its_server_is_up_or_not(
    agent: Agent, daemon: Daemon
) -> None:
    agent.say({"__port": "hello", "profile": "denied"})
    until(lambda: "failing" in daemon.log.read_text())
    for server in ("silent", "failing"):
        agent.call("1", f"{server}:find", {})
        answer = agent.hear()
        assert (answer["__port"], code_of(answer)) == ("tool_resp", "not_allowed")


@pytest.mark.parametrize("profile", ["default", "lenient"])
def test_a_name_that_several_tools_end_in_means_none_of_them_whichever_server_is_quicker(
    agent: Agent, profile: str
) -> None:
    agent.say({"__port": "hello", "profile": profile})
    agent.call("1", "search", {})
    lines = {str(line["__port"]): line for line in (agent.hear(), agent.hear())}
    assert code_of(lines["tool_resp"]) == "unknown_tool"


def test_a_prefix_that_another_server_has_is_told_in_ready(agent: Agent) -> None:
    ready = agent.hello("twice")
    assert ready["warnings"] == ['server again: prefix "quick" is taken, its tools are offered as "quick-2:…"']
    assert names_of(ready) == ["quick:search", "quick:look_up", "quick-2:open"]


def test_patterns_choose_among_the_tools_of_a_server(agent: Agent) -> None:
    assert names_of(agent.hello("parts")) == ["part:get_a", "part:put_a", "filtered:get_a"]
    assert code_of(agent.ask("part:get_b", {})) == "not_allowed"


def test_patterns_of_a_profile_choose_among_what_the_server_s_table_leaves(agent: Agent) -> None:
    assert names_of(agent.hello("chosen")) == ["part:get_a", "filtered:get_a"]


@pytest.mark.parametrize(("profile", "tool"), [("lacking", "put_*"), ("wishful", "l*")])
def test_a_pattern_that_no_tool_of_the_server_matches_refuses_the_session(
    agent: Agent, profile: str, tool: str
) -> None:
    refused = agent.hello(profile)
    assert (refused["error"], refused["tool"]) == ("missing_tool", tool)


def test_a_spec_filters_the_tools_of_a_server_and_insists_on_none(agent: Agent) -> None:
    agent.say({"__port": "hello", "spec": {"allow": ["*:find", "first", "gone:*"]}})
    assert names_of(agent.hear()) == ["first", "slow:find"]


def greet(agent: Agent, profile: str, **fields: object) -> Message:
    agent.say({"__port": "hello", "profile": profile, **fields})
    return agent.hear()


@pytest.mark.parametrize("form", ["plain", "mcp", "anthropic", "openai_responses", "google"])
def test_a_tool_of_any_name_is_called_by_each_spelling_and_its_server_by_the_true_one(agent: Agent, form: str) -> None:
    ready = greet(agent, "odd", schemas=form)
    shown = names_of(ready)[1:]
    assert ready["warnings"] == []
    called = [*shown, *(f"odd:{name}" for name in ODD), "odd____-e69fa5__-e8afa2", "asked"]
    answers = [agent.ask(name, {})["content"] for name in called]
    assert answers == [*ODD, *ODD, "查询", "what?"]


def test_a_profile_has_single_tools_by_true_names_and_by_spelt_ones(agent: Agent) -> None:
    tools = greet(agent, "named", schemas="anthropic")["tools"]
    assert [(tool["name"], tool["description"]) for tool in tools] == [
        ("odd____-e69fa5__-e8afa2", "Say 查询."),
        ("odd__a__-20b", "Say a b."),
    ]


def test_lists_take_away_tools_by_true_names_and_by_spelt_ones(agent: Agent) -> None:
    ready = agent.hello("some")
    assert (names_of(ready), ready["warnings"]) == ([], [])


def test_a_name_without_a_prefix_is_never_one_of_another_server(agent: Agent) -> None:
    ready = greet(agent, "raw", servers=True)
    assert set(names_of(ready)) == {"ns::tool", "quick:search", "quick:look_up"}
    assert agent.ask("quick:search", {})["content"] == "search"
    assert [warning.split(" is hidden")[0] for warning in ready["warnings"]] == [
        "server raw: quick:search",
        "server raw: quick!resources/read",
    ]


def test_a_name_with_colons_and_without_a_prefix_is_denied_as_it_is(agent: Agent) -> None:
    assert names_of(agent.hello("rawer")) == ["quick!resources/read"]
