"""What agents are shown, through a real daemon: every form, names both ways, and what belongs to tools besides."""

import json
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.daemon.spawned import ROOT, Agent, Daemon, Message, daemon_on
from tests.wire.toolbox import FORMS, escape, spell

NAMED: Final = ROOT / "tests" / "servers" / "named.py"
PROVIDERS: Final = tuple(form for form in FORMS if form not in ("plain", "text"))
LONG: Final = "x" * 100
# Those that take references, so that a type may hold itself; OpenAI's strict mode does.
TAKE_TREES: Final = ["plain", "text", "openai", "openai_responses", "mcp"]


def named(binding: str, *tools: str, prefix: str | None = None) -> str:
    """The table of a server that offers tools of these names, each of which says its own."""
    args = json.dumps(["-I", "-S", str(NAMED), binding, *tools])
    told = [] if prefix is None else [f'prefix = "{prefix}"']
    return "\n".join([f"[mcp.{binding}]", f'command = "{sys.executable}"', f"args = {args}", *told, ""])


CONFIG = "\n".join(
    [
        named("time", "convert_time", "_now", LONG),
        named("raw", "time__convert_time", "echo", prefix=""),
        """
[types]
Tree = "{value: int, children: [Tree]}"
[tools.echo]
type = "string -> string"
inline = "id"
description = "Give the text back."
hint = "Say it\\n  with echo."
[tools."text.trim"]
type = "string -> string"
inline = "id"
title = "Trim"
hint = "Trim first."
doc = "All there is to say of it."
[tools.hang]
type = "Tree -> int"
map = "value"
[tools.kept]
type = "string -> string"
inline = "id"
expose = false
[tools."text.kept"]
type = "string -> string"
inline = "id"
[agents.default]
tools = ["echo", "text.trim", "hang"]
mcp = ["time"]
jobs = false
[agents.raw]
tools = ["echo"]
mcp = ["raw", "time"]
jobs = false
[agents.plain]
tools = ["echo"]
[agents.own]
tools = ["text.trim", "info"]
[tools.info]
type = "string -> string"
inline = "id"
""",
    ]
)
TOOLS: Final = ("echo", "text.trim", "hang", "info", "time:convert_time", "time:_now", f"time:{LONG}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("forms"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


@pytest.fixture(scope="module")
def readies(daemon: Daemon) -> dict[str, Message]:
    """What `ready` says in each form."""
    found = {}
    for form in FORMS:
        with daemon.agent() as agent:
            found[form] = hello(agent, schemas=form)
    return found


def hello(agent: Agent, /, **fields: object) -> Message:
    agent.say({"__port": "hello", **fields})
    return agent.hear()


def tools(agent: Agent, /, **fields: object) -> list[Message]:
    agent.say({"__port": "tools", **fields})
    listed = agent.hear()["tools"]
    assert isinstance(listed, list)
    return listed


def name_of(entry: Message) -> str:
    """The name of a tool, in whichever form."""
    return str(entry.get("function", entry)["name"])


def fault(answer: Message) -> Message:
    assert answer["fault"]
    told: Message = json.loads(answer["content"])
    return told


# --- forms ---


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_all_tools_by_names_that_it_takes(readies: dict[str, Message], form: str) -> None:
    assert list(map(name_of, readies[form]["tools"])) == [spell(name, form) for name in TOOLS]


@pytest.mark.parametrize(
    ("form", "keys"),
    [
        ("plain", {"name", "title", "description", "input_schema"}),
        ("anthropic", {"name", "description", "input_schema"}),
        ("openai", {"type", "function"}),
        ("openai_responses", {"type", "name", "description", "parameters", "strict"}),
        ("google", {"name", "description", "parameters"}),
        ("mcp", {"name", "title", "description", "inputSchema"}),
    ],
)
def test_every_form_has_its_own_fields(readies: dict[str, Message], form: str, keys: set[str]) -> None:
    (trim,) = [tool for tool in readies[form]["tools"] if name_of(tool) == spell("text.trim", form)]
    assert trim.keys() == keys


@pytest.mark.parametrize("form", FORMS)
def test_tools_lists_what_ready_would_in_any_form_and_in_the_session_s_own(
    agent: Agent, readies: dict[str, Message], form: str
) -> None:
    hello(agent, schemas=form)
    assert {other: tools(agent, schemas=other) for other in FORMS} == {
        other: ready["tools"] for other, ready in readies.items()
    }
    assert tools(agent) == readies[form]["tools"]


@pytest.mark.parametrize("form", ["", "Plain", "openai ", "cobol", "x" * 1000])
def test_a_form_that_there_is_not_opens_nothing_and_lists_nothing(agent: Agent, form: str) -> None:
    assert hello(agent, schemas=form)["error"] == "invalid_request"
    agent.say({"__port": "tools", "schemas": form})
    assert agent.hear()["error"] == "invalid_request"
    assert hello(agent, schemas="openai")["profile"] == "default"


def test_what_a_form_cannot_say_is_a_warning_of_ready_that_names_the_tool(readies: dict[str, Message]) -> None:
    """[M126]: who takes no references is shown a tree that is left open where it is deep."""
    assert [form for form, ready in readies.items() if ready["warnings"] == []] == TAKE_TREES
    warnings = [warning for ready in readies.values() for warning in ready["warnings"]]
    assert all(warning.startswith("tool hang: ") for warning in warnings)


@pytest.mark.parametrize("form", PROVIDERS)
def test_what_is_left_open_in_a_form_is_checked_all_the_same(agent: Agent, form: str) -> None:
    hello(agent, schemas=form)
    leaf = {"value": 1, "children": []}
    deep = {"value": 4, "children": [{"value": 3, "children": [{"value": 2, "children": [leaf]}]}]}
    assert agent.ask("hang", deep)["content"] == "4"
    leaf["value"] = "one"
    assert fault(agent.ask("hang", deep))["error"] == "invalid_input"


# --- names ---


@pytest.mark.parametrize("form", FORMS)
def test_a_tool_is_called_by_its_own_name_and_by_the_one_that_was_shown(agent: Agent, form: str) -> None:
    hello(agent, schemas=form)
    for name in ("text.trim", spell("text.trim", form)):
        assert agent.ask(name, "x")["content"] == '"x"'
    for name in ("convert_time", "_now", LONG):
        assert agent.ask(f"time:{name}", {})["content"] == name
        assert agent.ask(spell(f"time:{name}", form), {})["content"] == name


def test_requests_for_a_server_s_tool_may_follow_hello_at_once_by_the_name_that_will_be_shown(agent: Agent) -> None:
    agent.say({"__port": "hello", "schemas": "anthropic"})
    agent.call("1", "time__convert_time", {})
    agent.call("2", "time___now", {})
    heard = [agent.hear() for _ in range(3)]
    assert [line["__port"] for line in heard] == ["ready", "tool_resp", "tool_resp"]
    assert {line["id"]: line["content"] for line in heard[1:]} == {"1": "convert_time", "2": "_now"}


def test_in_the_plain_form_the_names_of_all_others_are_taken(agent: Agent) -> None:
    """[M185]."""
    hello(agent)
    for form in FORMS:
        assert agent.ask(spell("time:convert_time", form), {})["content"] == "convert_time"
        assert agent.ask(spell(f"time:{LONG}", form), {})["content"] == LONG
    assert fault(agent.ask("convert_time", {}))["did_you_mean"] == "time:convert_time"


def test_a_name_that_was_shown_means_that_tool_though_another_has_it_for_its_own(daemon: Daemon) -> None:
    """[M131]: `time:convert_time` is shown by the raw name of another server's tool."""
    with daemon.agent() as plain:
        hello(plain, profile="raw")
        assert plain.ask("time__convert_time", {})["content"] == "time__convert_time"
    with daemon.agent() as agent:
        shown = [name_of(tool) for tool in hello(agent, profile="raw", schemas="anthropic")["tools"]]
        assert len(shown) == len(set(shown))
        assert agent.ask("time__convert_time", {})["content"] == "convert_time"
        assert agent.ask(escape("time__convert_time", "anthropic"), {})["content"] == "time__convert_time"


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_tool_hides_a_raw_one_of_its_name_with_one_warning(agent: Agent, form: str) -> None:
    """[M139]."""
    ready = hello(agent, profile="raw", schemas=form)
    assert [name_of(tool) for tool in ready["tools"]].count("echo") == 1
    assert ready["warnings"] == ["server raw: echo is hidden by another tool of that name"]
    assert agent.ask("echo", "declared")["content"] == '"declared"'


@pytest.mark.parametrize(("form", "proposed"), [("openai", "time__convert_time"), ("plain", "time:convert_time")])
@pytest.mark.parametrize("asked", ["time__convert_tim", "time:convert_tim"])
def test_what_is_proposed_is_the_name_that_was_shown(agent: Agent, form: str, proposed: str, asked: str) -> None:
    hello(agent, schemas=form)
    told = fault(agent.ask(asked, {}))
    assert (told["error"], told["did_you_mean"]) == ("unknown_tool", proposed)
    assert told["detail"].startswith(f"{asked} is an unknown tool: ")
    assert told["detail"].endswith(f"; did you mean {proposed}?")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_offered_is_not_allowed_by_either_name(agent: Agent, form: str) -> None:
    hello(agent, schemas=form)
    for name in ("kept", "text.kept", spell("text.kept", form)):
        assert fault(agent.ask(name, "x"))["error"] == "not_allowed"


# --- instructions and info ---


def test_the_hints_are_one_text_in_the_order_of_the_tools_a_line_each(agent: Agent) -> None:
    assert hello(agent, schemas="openai")["instructions"] == "- Say it with echo.\n- Trim first."


def test_of_the_hints_an_agent_gets_those_of_its_own_tools(agent: Agent) -> None:
    assert hello(agent, spec={"tools": ["text.trim"]})["instructions"] == "- Trim first."
    with_none = hello(agent, agent="a", spec={"tools": ["hang"]})
    assert "instructions" not in with_none


@pytest.mark.parametrize("form", FORMS)
def test_info_gives_a_text_by_either_name(agent: Agent, form: str) -> None:
    hello(agent, schemas=form)
    for name in ("text.trim", spell("text.trim", form)):
        assert agent.ask("info", {"name": name})["content"] == '"All there is to say of it."'
    assert fault(agent.ask("info", {"name": "nothing"}))["error"] == "invalid_input"


@pytest.mark.parametrize("form", FORMS)
def test_info_of_a_tool_without_a_text_is_its_name_description_and_schema(agent: Agent, form: str) -> None:
    """[M192]: of a server's tool too."""
    hello(agent, schemas=form)
    for name in ("echo", "time:convert_time", spell("time:convert_time", form)):
        told = json.loads(agent.ask("info", {"name": name})["content"])
        assert told.startswith("time:convert_time" if "time" in name else "echo")
        assert "Input (JSON Schema): {" in told


def test_info_is_there_only_for_who_may_call_a_tool_with_a_text(agent: Agent) -> None:
    narrowed = hello(agent, spec={"tools": ["echo"]})
    assert [tool["name"] for tool in narrowed["tools"]] == ["echo"]


def test_a_declared_info_stands_in_the_place_of_the_built_in_one(agent: Agent) -> None:
    hello(agent, profile="own")
    assert agent.ask("info", "mine")["content"] == '"mine"'
