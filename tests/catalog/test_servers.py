"""Bindings: what `[mcp]` names, and the servers that stand where they are used."""

import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.servers import (
    URL_ALLOWED,
    Binding,
    ServerCredentials,
    ServerTool,
    binding_of,
    build_servers,
    server_tool,
)
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, Server, ToolSpec

SERVER = McpSpec(command="server")
URL = "https://docs.example/mcp"
BAD_URL = Problem(
    ("tools", "a", "mcp"),
    "this is no URL that can be used",
    allowed=URL_ALLOWED,
)


def tools(**servers: Server) -> dict[str, ToolSpec]:
    return {name: ToolSpec(mcp=server) for name, server in servers.items()}


def bindings(config: Config) -> dict[str, Binding]:
    servers, _, problems = build_servers(config)
    assert not problems
    return servers


def warnings(config: Config) -> list[str]:
    return build_servers(config)[1]


def problems(config: Config) -> list[Problem]:
    return build_servers(config)[2]


# --- bindings ---


def test_a_server_that_is_named_has_its_name_for_a_prefix_unless_it_states_one() -> None:
    stated = McpSpec(command="x", prefix="git")
    assert bindings(Config(mcp={"a": SERVER, "b": stated})) == {
        "a": Binding("a", SERVER, "a"),
        "b": Binding("b", stated, "git"),
    }


def test_a_taken_prefix_gets_the_next_number_and_a_warning() -> None:
    config = Config(mcp={"a": McpSpec(command="x", prefix="git"), "git-2": SERVER, "git": SERVER})
    assert [binding.prefix for binding in bindings(config).values()] == ["git", "git-2", "git-3"]
    assert warnings(config) == ['mcp.git: prefix "git" is taken, its tools are offered as "git-3:…"']


def test_a_long_prefix_is_cut_to_make_room_for_its_number() -> None:
    servers = {"a": McpSpec(command="x", prefix="p" * 32), "b": McpSpec(command="x", prefix="p" * 32)}
    assert bindings(Config(mcp=servers))["b"].prefix == "p" * 30 + "-2"


def test_any_number_of_servers_may_offer_raw_names() -> None:
    raw = McpSpec(command="x", prefix="")
    config = Config(mcp={"a": raw, "b": raw})
    assert [binding.prefix for binding in bindings(config).values()] == ["", ""]
    assert not warnings(config)


def test_a_server_without_a_name_is_called_after_its_command_or_its_host() -> None:
    config = Config(tools=tools(a=McpSpec(command="/usr/lib/My_Server.py"), b="https://Docs.Example:8443/mcp"))
    assert bindings(config) == {
        "my-server-py": Binding("my-server-py", McpSpec(command="/usr/lib/My_Server.py"), None),
        "docs-example": Binding("docs-example", McpSpec(url="https://docs.example:8443/mcp"), None),
    }


def test_a_name_that_is_taken_gets_the_next_number() -> None:
    config = Config(
        mcp={"npx": SERVER}, tools=tools(a=McpSpec(command="npx", args=("a",)), b=McpSpec(command="npx", args=("b",)))
    )
    assert [(name, binding.spec.args) for name, binding in bindings(config).items()] == [
        ("npx", ()),
        ("npx-2", ("a",)),
        ("npx-3", ("b",)),
    ]


def test_a_prefix_that_a_server_without_a_name_states_is_unique_too() -> None:
    config = Config(mcp={"git": SERVER}, tools=tools(a=McpSpec(command="npx", prefix="git")))
    assert bindings(config)["npx"].prefix == "git-2"
    assert warnings(config) == ['tools.a.mcp: prefix "git" is taken, its tools are offered as "git-2:…"']


def test_equal_servers_are_one_wherever_they_stand() -> None:
    def npx(cwd: str | None = None) -> McpSpec:
        return McpSpec(command="npx", env={"A": "1", "B": "2"}, cwd=cwd)

    config = Config(
        tools=tools(a=npx(), b=McpSpec(command="npx", env={"B": "2", "A": "1"}), c=npx(cwd="/x")),
        processes={"p": ProcessSpec(kind="agent", mcp=(npx(), URL, McpSpec(url="HTTPS://docs.example:443/mcp#top")))},
    )
    servers = bindings(config)
    assert list(servers) == ["npx", "npx-2", "docs-example"]
    assert binding_of(npx(), servers) == "npx"
    assert binding_of(npx(cwd="/x"), servers) == "npx-2"
    assert binding_of("https://DOCS.example/mcp", servers) == "docs-example"


def test_a_server_that_differs_in_any_key_is_another_one() -> None:
    config = Config(
        tools=tools(a=McpSpec(command="x"), b=McpSpec(command="x", call_s=5), c=McpSpec(command="x", deny=("d",)))
    )
    assert list(bindings(config)) == ["x", "x-2", "x-3"]


def test_what_equals_a_server_that_is_named_is_that_one() -> None:
    config = Config(mcp={"docs": McpSpec(url=URL), "twin": McpSpec(url=URL)}, tools=tools(a=URL, b="twin"))
    servers = bindings(config)
    assert list(servers) == ["docs", "twin"]
    assert (binding_of(URL, servers), binding_of("twin", servers)) == ("docs", "twin")


def test_a_declared_tool_is_the_servers_tool_of_its_name_unless_it_says_which() -> None:
    config = Config(mcp={"docs": SERVER}, tools={"a": ToolSpec(mcp="docs"), "b": ToolSpec(mcp="docs", name="find")})
    servers = bindings(config)
    assert server_tool("a", config.tools["a"], servers) == ServerTool("docs", "a")
    assert server_tool("b", config.tools["b"], servers) == ServerTool("docs", "find")
    assert server_tool("c", ToolSpec(inline="id"), servers) is None


# --- credentials ---


@pytest.mark.parametrize("url", ["http://docs.example/mcp", "ws://docs.example/mcp"])
def test_credentials_that_others_on_the_way_may_read_are_a_warning_once(url: str) -> None:
    scheme = url.partition(":")[0]
    config = Config(
        mcp={"docs": McpSpec(url=url, token_env="TOKEN"), "off": McpSpec(url=url, token="x", enabled=False)},
        tools=tools(a="docs", b=McpSpec(url=url, headers={"X-Key": "k"}), c="http://y/"),
    )
    said = f"its credentials go over {scheme}://, where others may read them; {scheme}s:// encrypts them"
    assert warnings(config) == [f"mcp.docs: {said}", f"tools.b.mcp: {said}"]


@pytest.mark.parametrize("host", ["localhost:80", "LOCALHOST", "a.localhost", "127.0.0.1", "127.8.9.1", "[::1]:9"])
def test_credentials_that_stay_on_the_machine_are_none(host: str) -> None:
    assert not warnings(Config(mcp={"a": McpSpec(url=f"http://{host}/", token="x")}))


def test_a_server_behind_a_url_is_no_warning() -> None:
    servers = {"a": McpSpec(url="http://a.example/"), "b": McpSpec(url="https://b.example/", token="x")}
    assert not warnings(Config(mcp=servers))


def test_servers_with_other_credentials_are_others() -> None:
    config = Config(
        tools=tools(a=McpSpec(url=URL, token="x"), b=McpSpec(url=URL, token="y"), c=McpSpec(url=URL, token="x"))
    )
    assert list(bindings(config)) == ["docs-example", "docs-example-2"]


def test_no_secret_is_in_what_is_shown_of_a_server() -> None:
    url, secret = f"{URL}?key=hunter2", "hunter2"
    spec = McpSpec(url=url, token=secret, headers={"X-Key": secret}, args=(secret,), env={"A": secret})
    read = ServerCredentials((("authorization", secret),), secret, secret)
    assert "hunter2" not in repr(Binding("a", spec, "a", read))
    assert repr(read) == "ServerCredentials(headers=['authorization'], client_secret=…, private_key=…)"


# --- problems ---


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (McpSpec(), [Problem(("mcp", "a"), "a server has command or url, this one has neither")]),
        (McpSpec(command="x", url=URL), [Problem(("mcp", "a"), "a server has command or url, this one has both")]),
        (
            McpSpec(command="x", token_env="T"),
            [Problem(("mcp", "a", "token_env"), "only a server with url has token_env")],
        ),
        (
            McpSpec(url=URL, args=("x",), cwd="/"),
            [
                Problem(("mcp", "a", "args"), "only a server with command has args"),
                Problem(("mcp", "a", "cwd"), "only a server with command has cwd"),
            ],
        ),
        (McpSpec(url="docs"), [Problem(("mcp", "a", "url"), BAD_URL.why, allowed=BAD_URL.allowed)]),
    ],
)
def test_the_keys_of_a_server_must_go_together(spec: McpSpec, found: list[Problem]) -> None:
    assert problems(Config(mcp={"a": spec})) == found


def test_a_table_where_a_server_is_used_is_looked_at_as_one_in_mcp_is() -> None:
    config = Config(tools=tools(a=McpSpec()), processes={"p": ProcessSpec(kind="agent", mcp=(McpSpec(token_env="T"),))})
    assert [(problem.path, problem.why) for problem in problems(config)] == [
        (("tools", "a", "mcp"), "a server has command or url, this one has neither"),
        (("processes", "p", "mcp", 0), "a server has command or url, this one has neither"),
        (("processes", "p", "mcp", 0, "token_env"), "only a server with url has token_env"),
    ]


def test_a_name_that_is_no_server_is_a_problem_with_the_nearest_one() -> None:
    config = Config(
        mcp={"docs": SERVER},
        tools=tools(a="dosc"),
        processes={"p": ProcessSpec(kind="agent", mcp=("doc",))},
        agents={"default": ProfileSpec(mcp=("nobody",))},
    )
    why = "no such server in [mcp]"
    assert problems(config) == [
        Problem(("tools", "a", "mcp"), why, value="dosc", nearest="docs"),
        Problem(("processes", "p", "mcp", 0), why, value="doc", nearest="docs"),
        Problem(("agents", "default", "mcp", 0), why, value="nobody"),
    ]
    assert binding_of("dosc", build_servers(config)[0]) == "dosc"


def test_the_name_of_a_server_without_a_table_is_no_name_for_others() -> None:
    config = Config(tools=tools(a=McpSpec(command="npx"), b="npx"))
    assert problems(config) == [Problem(("tools", "b", "mcp"), "no such server in [mcp]", value="npx")]


@pytest.mark.parametrize("url", ["http://ann:secret@host/", "HTTPS://ann:secret@host/", "http://host:port/"])
def test_a_url_that_cannot_be_used_is_a_problem_that_does_not_quote_it(url: str) -> None:
    assert problems(Config(tools=tools(a=url))) == [BAD_URL]


def test_what_may_be_a_url_with_a_password_is_not_quoted() -> None:
    assert problems(Config(tools=tools(a="ann:secret@host"))) == [
        Problem(("tools", "a", "mcp"), "no such server in [mcp]")
    ]


def test_a_declared_tool_on_a_name_that_the_server_denies_is_a_problem() -> None:
    config = Config(
        mcp={"docs": McpSpec(command="x", deny=("drop", "wipe"))},
        tools={
            "drop": ToolSpec(mcp="docs"),
            "clean": ToolSpec(mcp="docs", name="wipe"),
            "other": ToolSpec(mcp=McpSpec(command="x", deny=("other",))),
            "fine": ToolSpec(mcp="docs", name="read"),
        },
    )
    assert problems(config) == [
        Problem(("tools", "drop", "mcp"), "the server's deny takes drop away"),
        Problem(("tools", "clean", "name"), "the server's deny takes wipe away"),
        Problem(("tools", "other", "mcp"), "the server's deny takes other away"),
    ]


def test_a_declared_tool_may_be_one_that_the_servers_whitelist_lacks() -> None:
    assert not problems(Config(mcp={"docs": McpSpec(command="x", tools=("read",))}, tools=tools(search="docs")))
