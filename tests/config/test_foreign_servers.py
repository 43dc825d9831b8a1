"""What restricts a server in another client's file restricts it here, or is an error; and what `[mcp.NAME]` adds."""

import json
from pathlib import Path

import pytest

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import McpSpec
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.foreign_servers import may_restrict

NAMED = 'mcp_json = [".mcp.json"]\n'
# As the documentation of a client has it that also reads such files.
SAMPLE = {
    "type": "stdio",
    "command": "npx",
    "args": ["-y", "@mcp/github"],
    "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},
    "toolsAllowed": ["search_code", "get_file", "delete_repo"],
    "toolsDenied": ["delete_repo"],
    "cache": 300_000,
    "queue": "github-queue",
}
# As the same documentation has it.
QUEUES = {
    "queues": {"github": {"concurrent": 3}, "slow-api": {"concurrent": 1}},
    "mcpServers": {
        "github": {"command": "x", "queue": "github"},
        "slow-service": {"command": "y", "queue": "slow-api"},
    },
}


def load(directory: Path, document: object, text: str = "", environ: dict[str, str] | None = None) -> Catalog:
    (directory / ".mcp.json").write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
    (directory / "t.toml").write_text(NAMED + text)
    return load_catalog(directory / "t.toml", environ or {})


def server(directory: Path, entry: object, text: str = "", environ: dict[str, str] | None = None) -> McpSpec:
    return load(directory, {"mcpServers": {"a": entry}}, text, environ).config.mcp["a"]


def report_of(directory: Path, document: object, text: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        load(directory, document, text)
    return str(caught.value).replace(f"{directory}/", "").partition("\n")[2]


def left_out(directory: Path, document: object) -> list[str]:
    told = [each.replace(f"{directory}/", "") for each in load(directory, document).warnings]
    return [each for each in told if "left out" in each]


# --- what is understood ---


def test_lists_of_tools_are_tools_and_deny(tmp_path: Path) -> None:
    own = "[queues]\ngithub-queue = { concurrent = 5 }\n"
    assert server(tmp_path, SAMPLE, own, environ={"GITHUB_TOKEN": "x"}) == McpSpec(
        command="npx",
        args=("-y", "@mcp/github"),
        env={"GITHUB_TOKEN": "x"},
        tools=("search_code", "get_file", "delete_repo"),
        deny=("delete_repo",),
        queue="github-queue",
        cache=300_000,
    )


def test_lists_of_one_kind_go_together_so_that_the_stricter_holds(tmp_path: Path) -> None:
    entry = {
        "command": "x",
        "toolsAllowed": ["a", "b"],
        "includeTools": ["b", "c"],
        "toolsDenied": ["d"],
        "disabledTools": ["d", "e"],
        "excludeTools": ["f"],
    }
    assert server(tmp_path, entry) == McpSpec(command="x", tools=("b",), deny=("d", "e", "f"))


def test_a_star_that_allows_all_allows_all_and_an_empty_list_nothing(tmp_path: Path) -> None:
    assert server(tmp_path, {"command": "x", "toolsAllowed": ["*"]}).tools is None
    assert server(tmp_path, {"command": "x", "includeTools": []}).tools == ()


@pytest.mark.parametrize("key", ["toolsAllowed", "toolsDenied", "excludeTools"])
def test_a_set_of_characters_is_no_pattern_and_an_error(tmp_path: Path, key: str) -> None:
    document = {"mcpServers": {"a": {"command": "x", key: ["get", "delete_[a-z]"]}}}
    ours = "tools" if key == "toolsAllowed" else "deny"
    assert (
        report_of(tmp_path, document)
        == f"""\
.mcp.json:7: mcp.a.{ours}[1]: not well-formed
    seen "delete_[a-z]"; allowed: a tool's name, or a pattern with * and ? alone"""
    )


@pytest.mark.parametrize(
    ("said", "is_enabled"),
    [
        ({"enabled": False}, False),
        ({"enabled": True}, True),
        ({"disabled": True, "enabled": True}, False),
        ({"disabled": False, "enabled": False}, False),
        ({"disabled": False}, True),
        # As Cherry Studio writes it.
        ({"isActive": False}, False),
        ({"isActive": True}, True),
        ({"active": False, "enabled": True}, False),
    ],
)
def test_a_server_that_is_switched_off_is_off(tmp_path: Path, said: dict[str, bool], is_enabled: bool) -> None:
    assert server(tmp_path, {"command": "x", **said}).enabled is is_enabled


def test_a_server_that_is_switched_off_needs_nothing_of_the_environment(tmp_path: Path) -> None:
    entry = {"command": "${BIN}/x", "args": ["${input:key}"], "env": {"A": "${A}"}, "enabled": False, "autoApprove": []}
    assert server(tmp_path, entry) == McpSpec(command=str(tmp_path / "x/x"), enabled=False)
    assert not server(tmp_path, {"url": "https://${HOST}/", "disabled": True}).enabled


def test_values_of_the_wrong_kind_are_errors(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x", "toolsDenied": "delete", "enabled": "no"}}}
    assert (
        report_of(tmp_path, document)
        == """\
.mcp.json:5: mcp.a.toolsDenied: wrong kind of value
    allowed: an array of tools' names
.mcp.json:6: mcp.a.enabled: wrong kind of value
    allowed: true or false"""
    )


@pytest.mark.parametrize(
    ("entry", "call_s"),
    [
        ({"requestTimeoutMs": 1500}, 1.5),
        ({"requestTimeoutMs": 60_000, "timeout": 5}, 60),
        # As Cline and Roo Code mean it, and as most others do.
        ({"timeout": 60}, 60),
        ({"timeout": 30_000}, 30),
        ({}, None),
    ],
)
def test_a_time_out_is_the_seconds_of_a_call(tmp_path: Path, entry: dict[str, object], call_s: float | None) -> None:
    assert server(tmp_path, {"command": "x", **entry}).call_s == call_s


def test_a_time_out_that_may_be_seconds_or_milliseconds_leaves_its_server_out_until_the_configuration_says(
    tmp_path: Path,
) -> None:
    document = {"mcpServers": {"a": {"command": "x", "timeout": 1800}}}
    assert left_out(tmp_path, document) == [
        (
            '.mcp.json:3: server "a" is left out: mcp.a.timeout: seconds for some clients, and milliseconds for others '
            "(allowed: call_s in [mcp.a], in seconds)"
        )
    ]
    assert load(tmp_path, document, "[mcp.a]\ncall_s = 1800\n").config.mcp["a"].call_s == 1800


def test_a_time_out_that_is_none_or_too_long_is_told_where_it_stands(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x", "timeout": "5s"}, "b": {"command": "x", "timeout": 1e9}}}
    assert left_out(tmp_path, document) == [
        '.mcp.json:3: server "a" is left out: mcp.a.timeout: wrong kind of value (allowed: a number over 0)',
        '.mcp.json:7: server "b" is left out: mcp.b.call_s: too large (allowed: a number, over 0 and at most 86400)',
    ]


def test_the_file_may_say_a_time_out_for_servers_that_say_none(tmp_path: Path) -> None:
    servers = {"a": {"command": "x"}, "b": {"command": "x", "requestTimeoutMs": 500}, "c": {"command": "x"}}
    document = {"defaults": {"toolTimeout": 30_000, "stream": True}, "mcpServers": servers}
    catalog = load(tmp_path, document, "[mcp.c]\ncall_s = 7\n")
    assert {name: spec.call_s for name, spec in catalog.config.mcp.items()} == {"a": 30, "b": 0.5, "c": 7}
    assert catalog.warnings == (f'{tmp_path}/.mcp.json:4: "defaults" has keys that mean nothing here: "stream"',)


def test_the_file_may_say_how_much_of_an_answer_a_model_should_get(tmp_path: Path) -> None:
    document = {
        "defaults": {"toolResponseMaxBytes": 100_000},
        "mcpServers": {"a": {"command": "x"}, "b": {"url": "http://x"}},
    }
    catalog = load(tmp_path, document, "[mcp.b]\nmax_output = 2048\n")
    assert {name: spec.max_output for name, spec in catalog.config.mcp.items()} == {"a": 100_000, "b": 2048}
    assert catalog.warnings == ()
    few = {"defaults": {"toolResponseMaxBytes": 1023}, "mcpServers": {}}
    assert report_of(tmp_path, few) == (
        ".mcp.json:3: toolResponseMaxBytes: a whole number of bytes, 1,024 at least, is allowed"
    )


def test_queues_beside_the_servers_are_queues(tmp_path: Path) -> None:
    catalog = load(tmp_path, QUEUES)
    assert catalog.config.queues == {"github": QueueSpec(concurrent=3), "slow-api": QueueSpec(concurrent=1)}
    assert {name: spec.queue for name, spec in catalog.config.mcp.items()} == {
        "github": "github",
        "slow-service": "slow-api",
    }
    assert catalog.warnings == ()


def test_what_the_configuration_says_of_a_queue_holds_alone(tmp_path: Path) -> None:
    catalog = load(tmp_path, QUEUES, '[queues.github]\nrate = "1/s"\n')
    assert catalog.config.queues["github"] == QueueSpec(rate="1/s")


def test_a_mistake_in_a_queue_is_told_where_it_is_written(tmp_path: Path) -> None:
    document = {"queues": {"q": {"concurrent": 0}}, "mcpServers": {"a": {"command": "x", "queue": "q"}}}
    assert report_of(tmp_path, document).startswith(".mcp.json:4: queues.q.concurrent: too small\n")
    document = {"queues": {"q": {"concurrent": 1}}, "mcpServers": {"a": {"command": "x", "queue": "p"}}}
    assert left_out(tmp_path, document)[0].startswith(
        '.mcp.json:8: server "a" is left out: mcp.a.queue: no such queue in [queues]'
    )
    wrong = {"queues": [1], "mcpServers": {"a": {"command": "x"}}}
    assert report_of(tmp_path, wrong) == ".mcp.json:2: queues: an object is allowed"


def test_two_files_that_say_two_things_of_a_queue_are_a_mistake(tmp_path: Path) -> None:
    one = {"queues": {"q": {"concurrent": 1}}, "servers": {"b": {"command": "x"}}}
    (tmp_path / "one.json").write_text(json.dumps(one))
    text = 'mcp_json = ["one.json", ".mcp.json"]\n'
    (tmp_path / "t.toml").write_text(text)
    for concurrent, is_right in ((1, True), (2, False)):
        two = {"queues": {"q": {"concurrent": concurrent}}, "servers": {"a": {"command": "x"}}}
        (tmp_path / ".mcp.json").write_text(json.dumps(two))
        if is_right:
            assert load_catalog(tmp_path / "t.toml", {}).config.queues["q"] == QueueSpec(concurrent=1)
        else:
            with pytest.raises(ConfigError, match=r"queues\.q is another one at .*one\.json:1"):
                load_catalog(tmp_path / "t.toml", {})


def test_a_server_of_the_type_websocket_has_such_a_url(tmp_path: Path) -> None:
    found = server(tmp_path, {"type": "websocket", "url": "wss://docs.example/mcp"})
    assert (found.url, found.transport) == ("wss://docs.example/mcp", "auto")
    wrong = {"mcpServers": {"a": {"type": "websocket", "url": "https://docs.example/mcp"}}}
    why = 'the url of a server of type "websocket" begins with ws:// or wss://'
    assert left_out(tmp_path, wrong) == [f'.mcp.json:3: server "a" is left out: mcp.a.type: {why}']


def test_the_directory_has_many_names(tmp_path: Path) -> None:
    assert server(tmp_path, {"command": "x", "workingDirectory": "/srv"}).cwd == "/srv"
    assert server(tmp_path, {"command": "x", "cwd": "/here", "workingDir": "/there"}).cwd == "/here"


# --- files with variables ---

ENV = """\
# of all servers
export A=one   # the first
B = "two\\n$HOME"
C='thr#ee'

D=
"""


def test_variables_of_a_file_stand_below_those_of_the_server(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(ENV)
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"A": "own"}}
    assert server(tmp_path, entry).env == {"A": "own", "B": "two\n$HOME", "C": "thr#ee", "D": ""}
    assert server(tmp_path, {"command": "x", "envFile": ".env"}).env["A"] == "one"


def test_a_file_with_variables_that_cannot_be_used_is_told_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("A=1\ns3cret\n")
    (tmp_path / "open").write_text('A="s3cret\n')
    servers = {
        name: {"command": "x", "envFile": file}
        for name, file in [("a", "none"), ("b", "wrong"), ("c", "open"), ("e", "${NONE}/x"), ("f", [])]
    }
    assert [each.partition("left out: ")[2] for each in left_out(tmp_path, {"mcpServers": servers})] == [
        "mcp.a.envFile: cannot read this file: No such file or directory",
        "mcp.b.envFile: cannot use this file: line 2 is not NAME=VALUE",
        "mcp.c.envFile: cannot use this file: line 1 is not NAME=VALUE",
        "mcp.e.envFile: a variable in this path cannot be read, or is not set",
        "mcp.f.envFile: wrong kind of value (allowed: the path of a file)",
    ]


def test_a_secret_in_a_file_with_variables_that_others_may_read_is_a_warning_about_that_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("GITHUB_TOKEN=s3cret")
    (tmp_path / ".env").chmod(0o644)
    document = {"mcpServers": {"a": {"command": "x", "envFile": ".env"}}}
    file = tmp_path / ".env"
    assert load(tmp_path, document).warnings == (
        f"mcp.a.env.GITHUB_TOKEN: others may read {file} (mode 0644): chmod 600 {file}",
    )
    (tmp_path / ".env").chmod(0o600)
    assert load(tmp_path, document).warnings == ()


def test_the_file_of_a_server_that_is_off_is_not_read(tmp_path: Path) -> None:
    assert not server(tmp_path, {"command": "x", "envFile": "none", "disabled": True}).enabled


# --- what is not ---


@pytest.mark.parametrize(
    "key",
    [
        *("allow", "tools_allowed", "ToolsDenied", "deniedTools", "DISABLED", "denied_tools"),
        *("exclude", "include-tools", "blockedTools", "readOnly", "read_only", "READ-ONLY"),
        *("requireApproval", "permissions", "restrictions", "toolFilter", "toolset", "sandbox", "confirm"),
        *("networkAccess", "omitResources", "without", "selected", "suppressWrites", "protectedPaths", "guardrails"),
        *("configs", "localOnly", "accessPolicy"),
    ],
)
def test_an_unknown_key_that_could_restrict_is_an_error_that_says_how_to_go_on(tmp_path: Path, key: str) -> None:
    document = {"mcpServers": {"a": {"command": "x", key: True}}}
    report = report_of(tmp_path, document)
    assert report.startswith(f".mcp.json:5: mcp.a.{key}: unknown key, which may restrict the server\n")
    assert 'allowed: "tools", "deny" or "enabled" in [mcp.a], which then says what holds here' in report
    assert server(tmp_path, {"command": "x", key: True}, "[mcp.a]\ndeny = []\n") == McpSpec(command="x")
    assert any(f'"{key}"' in warning for warning in load(tmp_path, document, "[mcp.a]\nenabled = true\n").warnings)


def test_a_cache_is_taken_as_it_is_written_and_told_where_it_cannot_be_read(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x", "cache": {"get_*": "5m", "*": "off"}}}}
    assert load(tmp_path, document).config.mcp["a"].cache == {"get_*": "5m", "*": "off"}
    for nothing, kept in ((0, 0), ("", None), (None, None), ("off", "off")):
        loaded = load(tmp_path, {"mcpServers": {"a": {"command": "x", "cache": nothing}}})
        assert (loaded.config.mcp["a"].cache, loaded.warnings) == (kept, ())
    document = {"mcpServers": {"a": {"command": "x", "cache": {"get_*": "5 minutes"}}}}
    assert left_out(tmp_path, document)[0].startswith(
        '.mcp.json:3: server "a" is left out: mcp.a.cache."get_*": for how long is not to be read from this'
    )


@pytest.mark.parametrize("key", ["autoApprove", "alwaysAllow"])
def test_a_list_of_what_nobody_is_asked_about_is_an_error_that_says_how_to_ask(tmp_path: Path, key: str) -> None:
    document = {"mcpServers": {"a": {"command": "x", key: ["search"]}}}
    assert report_of(tmp_path, document) == (
        f".mcp.json:5: mcp.a.{key}: here no tool is asked about unless approve says so\n"
        '    allowed: approve in [mcp.a] ("always", "destructive", …), or enabled = true there, to ask about none'
    )
    assert server(tmp_path, {"command": "x", key: ["search"]}, "[mcp.a]\nenabled = true\n") == McpSpec(command="x")
    asking = '[mcp.a]\napprove = "destructive"\n'
    assert server(tmp_path, {"command": "x", key: ["search"]}, asking).approve == "destructive"
    empty: tuple[object, ...] = ([], "", 0, None, False)
    for nothing in empty:
        assert load(tmp_path, {"mcpServers": {"a": {"command": "x", key: nothing}}}).warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        *("timeout", "toolTimeout", "tool_call_timeout_ms", "description", "cache", "queue", "icon", "envFile"),
        *("type", "transport", "title", "logoUrl", "registryUrl", "serverInstructions", "accessToken"),
        *("fileConfig", "selectedAuthType", "inputs", "version", "$schema", "startup", "longRunning", "provider"),
    ],
)
def test_a_key_that_can_take_nothing_away_is_none_of_them(key: str) -> None:
    assert not may_restrict(key)


def test_a_key_beside_the_servers_is_one_too_until_each_server_is_told_of(tmp_path: Path) -> None:
    document = {
        "permissions": {"deny": ["mcp__a__delete"]},
        "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z", "disabled": True}},
    }
    assert report_of(tmp_path, document, '[mcp.a]\ndeny = ["delete"]\n') == (
        '.mcp.json:2: "permissions" may restrict servers: say "tools", "deny" or "enabled" of each in [mcp.NAME]; '
        'said nowhere: "b"'
    )
    assert load(tmp_path, document, "[mcp.a]\ndeny = []\n[mcp.b]\ntools = []\n").config.mcp["b"].tools == ()


# --- what [mcp.NAME] adds ---


def test_a_table_with_no_way_to_its_server_completes_the_one_of_its_name(tmp_path: Path) -> None:
    text = """\
[mcp.a]
shared = true
lazy = true
call_s = 5
restart = "backoff"
"""
    assert server(tmp_path, {"command": "x", "args": ["y"]}, text) == McpSpec(
        command="x", args=("y",), shared=True, lazy=True, call_s=5.0, restart="backoff"
    )


def test_neither_takes_back_what_the_other_restricts(tmp_path: Path) -> None:
    entry = {"command": "x", "toolsAllowed": ["get", "put"], "toolsDenied": ["put"]}
    found = server(tmp_path, entry, '[mcp.a]\ntools = ["put", "get", "delete"]\ndeny = ["get"]\n')
    assert (found.tools, found.deny) == (("get", "put"), ("put", "get"))
    assert not server(tmp_path, {"command": "x", "disabled": True}, "[mcp.a]\nenabled = true\n").enabled
    assert not server(tmp_path, {"command": "x", "enabled": True}, "[mcp.a]\nenabled = false\n").enabled


def test_what_both_say_is_a_problem_that_says_where(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x", "args": ["y"], "cwd": "/srv"}}}
    text = '[mcp.a]\nargs = ["z"]\ncwd = "/usr"\ncall_s = 0\n'
    assert (
        report_of(tmp_path, document, text)
        == """\
t.toml:3: mcp.a.args: .mcp.json:3 says it already
t.toml:4: mcp.a.cwd: .mcp.json:3 says it already
t.toml:5: mcp.a.call_s: too small
    seen 0; allowed: a number, over 0 and at most 86400"""
    )


def test_a_table_that_completes_nothing_is_a_problem_that_names_the_nearest(tmp_path: Path) -> None:
    text = "[mcp.gihub]\ndeny = ['delete']\n"
    assert (
        report_of(tmp_path, {"mcpServers": {"github": {"command": "x"}}}, text)
        == """\
t.toml:2: mcp.gihub: a server has command or url, this one has neither
    allowed: command or url, or the name of a server in a file of mcp_json; did you mean "github"?"""
    )


def test_a_table_is_no_mistake_where_the_file_that_it_completes_cannot_be_read(tmp_path: Path) -> None:
    assert report_of(tmp_path, "{", "[mcp.github]\ndeny = ['delete']\n").count("\n") == 0


# --- variables of editors ---


@pytest.mark.parametrize("directory", [".", ".vscode", ".cursor"])
def test_variables_of_editors_have_the_values_that_these_give_them(tmp_path: Path, directory: str) -> None:
    (tmp_path / directory).mkdir(exist_ok=True)
    args = [
        "${workspaceFolder}/src",
        "${workspaceFolderBasename}",
        "${userHome}",
        "a${pathSeparator}b${/}c",
        "${env:A}",
        "${input:api-key}",
    ]
    (tmp_path / directory / "mcp.json").write_text(json.dumps({"servers": {"a": {"command": "x", "args": args}}}))
    (tmp_path / "t.toml").write_text(f'mcp_json = ["{directory}/mcp.json"]')
    environ = {"HOME": "/srv/me", "A": "one", "INPUT_API_KEY": "two", "workspaceFolder": "no"}
    assert load_catalog(tmp_path / "t.toml", environ).config.mcp["a"].args == (
        f"{tmp_path}/src",
        tmp_path.name,
        "/srv/me",
        "a/b/c",
        "one",
        "two",
    )


# --- our own tables ---


def test_a_set_of_characters_in_deny_is_an_error_in_the_configuration_too(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[mcp.a]\ncommand = "x"\ndeny = ["delete_[a-z]"]\n')
    with pytest.raises(ConfigError, match=r"mcp\.a\.deny\[0\]: not well-formed"):
        load_catalog(tmp_path / "t.toml", {})


# --- what looks like a variable ---


@pytest.mark.parametrize("text", ["pa$SECRET", "{env:SECRET}", "%SECRET%"])
def test_a_form_of_another_clients_variables_stays_with_a_warning_that_shows_no_secret(
    tmp_path: Path, text: str
) -> None:
    catalog = load(tmp_path, {"mcpServers": {"a": {"command": "x", "env": {"A": text}}}}, environ={"SECRET": "no"})
    assert catalog.config.mcp["a"].env == {"A": text}
    assert "which is no variable in this file" in catalog.warnings[0]
    assert "SECRET" not in catalog.warnings[0]


def test_a_dollar_that_names_nothing_is_itself_where_a_client_has_such_variables(tmp_path: Path) -> None:
    entry = {"httpUrl": "https://a.example/", "headers": {"A": "pa$SECRET", "B": "$TOKEN"}}
    found = server(tmp_path, entry, environ={"TOKEN": "t"})
    assert found.headers == {"A": "pa$SECRET", "B": "t"}


def test_a_variable_is_the_servers_own_first_and_two_dollars_begin_none(tmp_path: Path) -> None:
    entry = {"command": "${BIN}", "args": ["A:${A}", "$${A}", "${B:-c}"], "env": {"A": "pa$$", "BIN": "x", "C": "${A}"}}
    found = server(tmp_path, entry, environ={"A": "outer", "BIN": "no"})
    assert (found.command, found.args) == ("x", ("A:pa$$", "${A}", "c"))
    assert found.env["C"] == "outer"


def test_settings_of_a_client_are_not_judged_but_what_restricts_its_servers_is(tmp_path: Path) -> None:
    settings = {"toolUsage": {"a": 1}, "sandbox": True, "mcp": {}, "mcpServers": {"a": {"command": "x"}}}
    (tmp_path / "t.toml").write_text('mcp_json = ["settings.json"]')
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert load_catalog(tmp_path / "t.toml", {}).config.mcp["a"].enabled
    for key in ("permissions", "excludeTools", "allowMCPServers", "disabledMcpjsonServers", "tools", "mcp"):
        (tmp_path / "settings.json").write_text(json.dumps({**settings, key: {"x": ["a"]}}))
        with pytest.raises(ConfigError, match="may restrict servers"):
            load_catalog(tmp_path / "t.toml", {})


def test_numbers_are_texts_and_a_type_decides_between_two_ways(tmp_path: Path) -> None:
    entry = {"type": "STREAMABLE_HTTP", "command": "x", "url": "https://a.example/", "headers": {"N": 1, "B": True}}
    found = server(tmp_path, entry)
    assert (found.command, found.transport, found.headers) == (None, "http", {"N": "1", "B": "true"})
    assert server(tmp_path, {"type": "Local", "command": "x", "url": "https://a/", "args": [1, 0.5]}).args == (
        "1",
        "0.5",
    )


def test_a_server_of_a_list_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    found = load(tmp_path, {"mcpServers": [{"name": "a", "command": "x"}, {"command": "y"}]}).config.mcp
    assert {name: spec.command for name, spec in found.items()} == {"a": "x", "server-2": "y"}


def test_tools_that_are_all_are_all_and_no_list_is_an_error(tmp_path: Path) -> None:
    assert server(tmp_path, {"command": "x", "tools": "*"}).tools is None
    assert server(tmp_path, {"command": "x", "tools": ["a"]}).tools == ("a",)
    document = {"mcpServers": {"a": {"command": "x", "tools": {"a": {"mode": "never"}}}}}
    assert report_of(tmp_path, document).startswith(".mcp.json:5: mcp.a.tools: wrong kind of value\n")
