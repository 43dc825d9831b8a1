"""What is said of a configuration that was understood: all of it, in a stable form, and no secret."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.enforcement import Enforceable
from tooldispatchd.catalog.explanation import bound_lines, explain, program_lines
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, OAuthSpec, ProcessSpec, ProfileSpec, ToolSpec


def built(config: Config) -> Catalog:
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    return catalog


def block(config: Config, first: str) -> list[str]:
    """The lines that are said of one thing, whose first line is given."""
    lines = explain(built(config))
    following = lines[lines.index(first) + 1 :]
    return [line.strip() for line in itertools.takewhile(lambda line: line.startswith(" "), following)]


def test_a_type_has_its_text() -> None:
    lines = explain(built(Config(types={"Query": "{text: string,\n  limit?: int}"})))
    assert lines == ["type Query = {text: string, limit?: int}"]


def test_a_tool_says_how_it_runs_how_long_and_who_may_call_it() -> None:
    tools = {
        "echo": ToolSpec(type="string -> string", inline="id", call_s=1.5),
        "double": ToolSpec(type="int -> int", map="score\n * 2"),
        "count": ToolSpec(command=("/usr/bin/wc", "-w")),
    }
    agents = {"default": ProfileSpec(tools=("echo", "double")), "clerk": ProfileSpec(tools=("echo",))}
    assert explain(built(Config(tools=tools, agents=agents))) == [
        "tool echo : string -> string",
        "    runs: inline id",
        "    limit: 1.5 s",
        "    offered to: default, clerk",
        "tool double : int -> int",
        "    runs: map: score * 2",
        "    limit: 60 s",
        "    offered to: default",
        "tool count : json -> json",
        "    runs: program wc",
        "    bounds: none; not shut in",
        "    limit: 60 s",
        "    offered to nobody: no profile names it",
    ]


def test_a_program_says_its_other_names_how_it_is_stopped_and_where_it_works() -> None:
    tool = ToolSpec(command=("x",), aliases=("find", "look"), stop_s=2.5, cwd="workspace", exit_codes=(0, 1))
    agents = {"default": ProfileSpec(tools=("a",), workspace="/srv/${agent}", make=True, workspaces=("/srv/*",))}
    config = Config(tools={"a": tool}, agents=agents)
    assert block(config, "tool a : json -> json")[:5] == [
        "also called: find, look",
        "runs: program x",
        "answer with exit code 0, 1",
        "ended early: told so, and killed 2.5 s later",
        "works in: the session's workspace",
    ]
    assert block(config, "profile default") == [
        "workspace: /srv/${agent}, made where it is missing",
        "workspace of a hello: in /srv/*",
    ]


def test_a_function_says_whose_state_it_keeps() -> None:
    own, named = ToolSpec(python="a:f", state=True), ToolSpec(python="a:f", state="notes")
    assert "keeps a state in each session" in program_lines(own, Enforceable())
    assert "keeps a state in each session, under notes" in program_lines(named, Enforceable())


def test_a_profile_says_how_names_are_shown_and_taken() -> None:
    profile = ProfileSpec(separator="__", resolve="lenient", order="sequential")
    assert block(Config(agents={"default": profile}), "profile default") == [
        "tools of servers are shown as: server__tool",
        "a tool is also called by the last part of its name",
        "calls run: sequential",
    ]


def test_what_is_given_as_a_schema_is_shown_as_a_type() -> None:
    schema: dict[str, object] = {"type": "array", "items": {"type": "string"}}
    tool = ToolSpec(command=("x",), input_schema=schema)
    assert explain(built(Config(tools={"a": tool})))[0] == "tool a : [string] -> json"


def test_a_tool_says_that_it_has_a_title_a_hint_and_a_doc() -> None:
    tool = ToolSpec(inline="id", title="Echo", hint="Use it.", doc="In full.")
    lines = explain(built(Config(tools={"a": tool})))
    assert lines[-1] == "    has: title, hint, doc"
    assert "In full." not in "".join(lines)


def test_a_tool_for_chains_only_is_not_offered() -> None:
    lines = explain(built(Config(tools={"a": ToolSpec(inline="id", expose=False)})))
    assert "    not offered: it is there for chains only" in lines


def test_a_tool_for_those_who_name_it_says_so() -> None:
    tools = {"a": ToolSpec(inline="id", expose="named")}
    nobody = "    offered to nobody: only a profile or an agent that names it is offered it"
    assert nobody in explain(built(Config(tools=tools)))
    named = Config(tools=tools, agents={"default": ProfileSpec(tools=("a",))})
    assert "    offered to: default" in explain(built(named))


CHAIN = Config(
    tools={
        "search": ToolSpec(type="string -> string", process="searcher"),
        "find": ToolSpec(type="string -> string", process="finder"),
        "clean": ToolSpec(type="string -> string", inline="id", expose=False),
    },
    processes={
        "searcher": ProcessSpec(kind="agent", type="!string -> !string", command=("/usr/lib/search-agent", "--quiet")),
        "some": ProcessSpec(kind="filter", type="!string -> !string", filter="input != ''"),
        "finder": ProcessSpec(kind="plumb", type="!string -> !string", chain=("lift(clean)", "searcher")),
        "spare": ProcessSpec(kind="id"),
        "writer": ProcessSpec(kind="agent", type="string -> string", mcp=()),
    },
    agent_command=("/usr/lib/run-agent", "--spec"),
)


def test_a_tool_made_of_a_process_says_what_the_process_is() -> None:
    assert block(CHAIN, "tool search : string -> string")[0] == "runs: process searcher (agent: search-agent)"


def test_a_tool_made_of_a_chain_says_its_links_and_what_they_lift() -> None:
    said = block(CHAIN, "tool find : string -> string")
    assert said[0] == "runs: process finder (chain lift(clean) -> searcher)"
    assert "its chains lift: clean" in said


def test_a_process_says_its_kind_and_who_uses_it() -> None:
    said = block(CHAIN, "process searcher : !string -> !string")
    assert said == [
        "runs: agent: search-agent",
        "ended early: told so, and killed 2 s later",
        "bounds: none; not shut in",
        "used by: tool search, process finder",
    ]


def test_a_process_without_a_type_of_its_own_says_so() -> None:
    said = block(CHAIN, "process spare")
    assert said == ["its type is taken from where it stands", "runs: id", "not used"]


def test_an_agent_in_the_base_category_that_the_common_command_runs_says_both() -> None:
    said = block(CHAIN, "process writer : string -> string")
    assert said[0] == "runs: agent: run-agent, the agent_command"
    assert said[4].startswith("in the base category")


def test_a_server_says_its_prefix_how_it_is_reached_and_who_uses_it() -> None:
    servers = {
        "docs": McpSpec(url="https://docs.example:8443/mcp?key=hunter2", prefix=""),
        "hub": McpSpec(command="npx", args=("-y", "x"), prefix="gh"),
    }
    tools = {"find": ToolSpec(mcp="docs", name="search"), "other": ToolSpec(mcp=McpSpec(command="/usr/lib/server"))}
    agents = {"default": ProfileSpec(mcp=("hub",), tools=("find",)), "clerk": ProfileSpec(tools=("gh:search",))}
    lines = explain(built(Config(mcp=servers, tools=tools, agents=agents)))
    assert "    runs: tool search of server docs" in lines
    assert lines[lines.index("server docs") :] == [
        "server docs",
        '    prefix: "", its tools have their names alone',
        "    runs: at https://docs.example:8443/mcp",
        "    protocol: as the server speaks it",
        "    connections: one for each agent, from the start",
        "    limits: 30 s to start, 60 s a call",
        "    credentials: none",
        "    used by: tool find",
        "server hub",
        '    prefix: "gh"',
        "    runs: program npx",
        "    protocol: as the server speaks it",
        "    connections: one for each agent, from the start",
        "    limits: 30 s to start, 60 s a call",
        "    bounds: none; not shut in",
        "    used by: profile default, profile clerk (search only)",
        "server server",
        "    prefix: by the server's own name",
        "    runs: program server",
        "    protocol: as the server speaks it",
        "    connections: one for each agent, from the start",
        "    limits: 30 s to start, 60 s a call",
        "    bounds: none; not shut in",
        "    used by: tool other",
    ]


def test_a_server_says_what_it_speaks_whose_it_is_and_whether_it_is_shown_credentials() -> None:
    docs = McpSpec(
        url="https://docs.example/mcp",
        transport="sse",
        protocol="2025-06-18",
        token_env="TOKEN",
        shared=True,
        lazy=True,
        restart="backoff",
    )
    assert block(Config(mcp={"docs": docs}), "server docs")[2:6] == [
        "protocol: 2025-06-18, over HTTP+SSE",
        "connections: one for all agents, from the first call, anew after each end",
        "limits: 30 s to start, 60 s a call, which then is cancelled alone",
        "credentials: token",
    ]


def test_a_server_says_what_it_offers_where_it_states_that_and_its_limits() -> None:
    servers = {
        "hub": McpSpec(command="hub", tools=("find", "get"), deny=("get",), mcp_resources=True, call_s=5),
        "slow": McpSpec(command="slow", deny=("drop",), mcp_resources=True, handshake_s=90, on_timeout="cancel"),
        "none": McpSpec(command="none", tools=()),
    }
    said = {name: block(Config(mcp=servers), f"server {name}")[4:-2] for name in servers}
    assert said == {
        "hub": ["offers: find only", "limits: 30 s to start, 5 s a call"],
        "slow": [
            "offers: all but drop, its resources and prompts",
            "limits: 90 s to start, 60 s a call, which then is cancelled alone",
        ],
        "none": ["offers: nothing", "limits: 30 s to start, 60 s a call"],
    }


def test_a_server_does_not_say_that_it_offers_what_it_denies_behind_its_prefix() -> None:
    hub = McpSpec(command="hub", tools=("find", "get_now"), deny=("hub_get_now",))
    assert "offers: find only" in block(Config(mcp={"hub": hub}), "server hub")


def test_a_server_says_that_it_is_traced() -> None:
    said = block(Config(mcp={"a": McpSpec(command="a", trace=True)}), "server a")
    assert "logged: each message's kind, number and size" in said


def test_a_server_says_each_kind_of_credentials_and_none_of_them() -> None:
    url = "https://docs.example/mcp"
    servers = {
        "none": McpSpec(url=url, headers={"X-Team": "docs"}),
        "file": McpSpec(url=url, token_file="/t", headers={"X-Api-Key": "hunter2"}),
        "login": McpSpec(url=url, auth="oauth"),
        "both": McpSpec(
            url=url,
            auth="oauth",
            oauth=OAuthSpec(grant="client_credentials", client_id="x", client_secret_env="S"),
            cert="/c.pem",
        ),
    }
    said = [line.strip() for line in explain(built(Config(mcp=servers))) if "credentials:" in line]
    assert said == [
        "credentials: none",
        "credentials: token, headers",
        "credentials: oauth authorization_code",
        "credentials: oauth client_credentials, client certificate",
    ]


def test_a_profile_says_its_roots_and_that_it_offers_resources() -> None:
    agents = {
        "default": ProfileSpec(roots=("file:///srv/a%20b", "file:///tmp")),
        "clerk": ProfileSpec(mcp_resources=True),
        "plain": ProfileSpec(),
    }
    assert explain(built(Config(agents=agents))) == [
        "profile default",
        "    roots: file:///srv/a%20b, file:///tmp",
        "profile clerk",
        "    offers: the resources and prompts of its servers",
    ]


def test_a_profile_says_what_all_programs_of_its_agents_keep_to() -> None:
    lines = block(Config(agents={"clerk": ProfileSpec(cpu_s=2, network=False)}), "profile clerk")
    assert lines == ["for all programs that its agents call:", "bounds: cpu_s 2", "shut in: no network"]


def test_a_program_says_what_it_keeps_to_however_long_that_is() -> None:
    places = tuple(f"/srv/a-directory-with-a-long-name/{number}" for number in range(8))
    lines = block(Config(tools={"a": ToolSpec(command=("x",), write=places)}), "tool a : json -> json")
    assert lines[1] == f"shut in: changes only {' and '.join(places)}; by landlock"


def test_an_agent_process_says_that_it_calls_tools_and_how_deep_agents_may() -> None:
    process = ProcessSpec(kind="agent", type="!int -> !int", command=("x",), tools=("a",))
    config = Config(processes={"p": process}, tools={"a": ToolSpec(inline="id")})
    lines = block(config, "process p : !int -> !int")
    assert "calls tools: as profile p, on a channel of its own (limits.agent_depth is 1)" in lines


def test_an_agent_process_says_that_it_calls_no_tools_where_it_may_not() -> None:
    process = ProcessSpec(kind="agent", type="!int -> !int", command=("x",), tools=("a",))
    config = Config(limits=LimitsSpec(agent_depth=0), processes={"p": process}, tools={"a": ToolSpec(inline="id")})
    assert "calls no tools: limits.agent_depth is 0" in block(config, "process p : !int -> !int")


def test_a_tool_of_a_server_has_the_servers_limit_unless_it_has_its_own() -> None:
    tools = {"a": ToolSpec(mcp="m"), "b": ToolSpec(mcp="m", call_s=2)}
    lines = explain(built(Config(mcp={"m": McpSpec(command="x", call_s=9)}, tools=tools)))
    assert [line for line in lines if "limit:" in line] == ["    limit: 9 s", "    limit: 2 s"]


def test_a_long_expression_is_cut_and_stays_one_line() -> None:
    source = "input +\n" + f"'{'x' * 200}'"
    line = explain(built(Config(tools={"a": ToolSpec(type="string -> string", map=source)})))[1]
    assert "\n" not in line
    assert line.endswith("…")


SECRETS = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=8, max_size=20).map("§{}".format)


@given(SECRETS)
@settings(max_examples=examples(30), deadline=None)
def test_no_secret_is_said_wherever_it_stands(secret: str) -> None:
    env = {"TOKEN": secret}
    config = Config(
        mcp={
            "a": McpSpec(command=f"npx --key={secret}", args=(secret,), env=env, cwd=f"/{secret}"),
            "b": McpSpec(url="https://host.example/x?key=zzhunter2zz", token_env=secret),
            "c": McpSpec(url="https://host.example/y", token=secret, ca=f"/{secret}", hosts=("zzhunter2zz",)),
            "d": McpSpec(url="https://host.example/z", headers={"zzhunter2zz": secret}, cert=f"/{secret}"),
        },
        tools={
            "run": ToolSpec(command=(f"/usr/lib/{secret}/x", secret), args=(secret,), env=env, description=secret),
            "find": ToolSpec(mcp="b", doc=secret, hint=secret, title=secret),
        },
        processes={
            "p": ProcessSpec(
                kind="agent", command=("x", secret), env=env, prompt=secret, model=secret, options={"key": secret}
            ),
            "q": ProcessSpec(kind="agent", prompt=secret),
        },
        agent_command=("run-agent", secret),
        agents={"default": ProfileSpec(token=secret, mcp=("a", "b", "c", "d"), tools=("run", "find"))},
    )
    said = "\n".join(explain(built(config)))
    assert secret not in said
    assert secret[1:] not in said
    assert "zzhunter2zz" not in said


ALL = Enforceable()


FREE = "bounds: none; not shut in"


def test_a_program_that_nothing_is_asked_of_is_said_to_be_free() -> None:
    assert list(program_lines(ToolSpec(command=("cat",)), ALL)) == [FREE]


def test_modes_are_said_where_one_is_not_json() -> None:
    spec = ToolSpec(command=("find",), input_mode="args", output_mode="lines")
    assert list(program_lines(spec, ALL)) == ["input: in its arguments; answer: lines", FREE]
    spec = ToolSpec(command=("wc",), input_mode="text")
    assert list(program_lines(spec, ALL)) == ["input: text on stdin; answer: one JSON value", FREE]


def test_bounds_are_said_as_a_configuration_writes_them() -> None:
    spec = ToolSpec(command=("x",), cpu_s=5, memory="1024M", file_size=1000, output_bytes="3K", nice=0, user=65534)
    assert list(program_lines(spec, ALL)) == [
        "bounds: cpu_s 5, memory 1G, file_size 1000, output_bytes 3K, nice 0, user 65534"
    ]


def test_a_sandbox_is_said_with_the_means_that_enforces_it() -> None:
    spec = ToolSpec(command=("x",), network=False, read=("/srv",), write=("/var/x",))
    walls = "shut in: no network, reads only /srv and /var/x, changes only /var/x"
    assert list(program_lines(spec, ALL)) == [f"{walls}; by landlock"]
    old = Enforceable({"landlock.write": "the kernel is too old"})
    assert list(program_lines(spec, old)) == [f"{walls}; by bubblewrap"]


def test_who_may_read_little_and_change_nothing_is_said_to() -> None:
    spec = ProcessSpec(kind="agent", command=("x",), read=())
    assert list(program_lines(spec, ALL)) == [
        "ended early: told so, and killed 2 s later",
        "shut in: reads only what every program may, changes only what every program may; by landlock",
    ]


def test_what_a_best_effort_cannot_do_is_said() -> None:
    spec = ToolSpec(command=("x",), processes=5, sandbox="best-effort")
    lines = list(program_lines(spec, Enforceable({"processes": "no", "processes_cgroup": "no"})))
    assert lines == ["bounds: processes 5", "sandbox: best-effort", "not enforced on this machine: processes"]


def test_a_function_says_when_its_parent_is_replaced() -> None:
    spec = ToolSpec(python="a:b", max_forks=50, max_rss="512M")
    assert list(program_lines(spec, ALL)) == [
        "its warm parent is replaced after 50 calls, or at 512M",
        FREE,
    ]


def test_a_resident_function_says_when_a_worker_is_replaced() -> None:
    spec = ToolSpec(python="a:b", resident=True)
    assert list(program_lines(spec, ALL)) == ["a worker is replaced after 10000 calls, or at 1G", FREE]
    counted = ToolSpec(python="a:b", resident=True, memory="64M")
    assert next(program_lines(counted, ALL)) == "its warm parent is replaced after 10000 calls, or at 1G"


def test_a_profile_says_its_bounds_without_means() -> None:
    assert list(bound_lines(ProfileSpec(memory="64M", network=False))) == ["bounds: memory 64M", "shut in: no network"]
