"""Any input to any tool of the toolbox, and what an attacker would try through them, against a real daemon."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.daemon.spawned import Agent, Daemon, daemon_on
from tests.examples import examples
from tooldispatchd.toolbox.sets import SETS

KEY: Final = "hunter2-of-the-search-engine"
CONFIG: Final = f"""
[toolbox.files]
[toolbox.shell]
session = true
[toolbox.clock]
[toolbox.look]
[toolbox.scratchpad]
[toolbox.web]
call_s = 5
search = {{ engine = "searxng", url = "http://127.0.0.1:9/search", token = "{KEY}" }}
[agents.default]
toolboxes = {json.dumps(list(SETS))}
workspace = "work/${{agent}}"
make = true
"""
# Nothing of these is fetched, run or waited for long: the first would only be slow, the second may do anything inside.
UNTRIED: Final = {"sleep", "bash", "python"}
TOOLS: Final = [name for tool_set in SETS.values() for name in tool_set.tools if name not in UNTRIED]
TEXTS: Final = some.sampled_from(
    [
        *(
            "",
            " ",
            ".",
            "..",
            "/",
            "a.txt",
            "b.json",
            "sub",
            "sub/../a.txt",
            "../../outside/a.txt",
            "out",
            "out/a.txt",
            "loop",
        ),
        *("/etc/passwd", "/etc/shadow", "/proc/self/mem", "/proc/self/root/etc/shadow", "/proc/1/environ", "/dev/zero"),
        *(
            "/dev/stdin",
            "/dev/full",
            "pipe",
            "sock",
            "**",
            "*",
            "[",
            "(a+)+$",
            "{",
            "\\",
            "-",
            "--",
            "-rf",
            "~",
            "$HOME",
        ),
        *(
            "nul\x00l",
            "\u202e",
            "é" * 300,
            "x" * 5000,
            "line\nbreak",
            "\x1b[31m",
            "/a/b",
            "/a/-",
            "/a/0",
            "~0",
        ),
        *("--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n", "UTC", "Europe/Berlin", "http://127.0.0.1:9/", "ftp://x"),
        *("http://[::1]/", "http://0/", "get", "set", "list", "overview", "all", "1", "null", '{"a": [1]}', "one"),
    ]
)
NUMBERS: Final = some.sampled_from([-1, 0, 1, 2, 200, 2**31, 2**63, 10**30, 0.5])
ANY: Final = TEXTS | NUMBERS | some.none() | some.booleans() | some.lists(TEXTS, max_size=2)


def valued(schema: dict[str, Any]) -> some.SearchStrategy[object]:
    """Mostly what a field may be, and now and then anything."""
    if "enum" in schema:
        return some.sampled_from(schema["enum"]) | ANY
    kinds = {kind for one in (schema, *schema.get("anyOf", ())) if isinstance(kind := one.get("type"), str)}
    if "array" in kinds:
        return some.lists(inputs(schema["items"]), max_size=3) | ANY
    fitting = {"string": TEXTS, "integer": NUMBERS, "number": NUMBERS, "boolean": some.booleans(), "null": some.none()}
    found = [fitting[kind] for kind in sorted(kinds) if kind in fitting]
    return some.one_of(*found, *found, *found, ANY)


def inputs(schema: dict[str, Any]) -> some.SearchStrategy[object]:
    """Objects with the fields that a schema names; some lack one that is required."""
    if "properties" not in schema:
        return ANY
    fields = {name: valued(field) for name, field in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    return some.fixed_dictionaries(required, optional=fields)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("attacks")
    (directory / "outside").mkdir()
    (directory / "outside" / "a.txt").write_text("one\n")
    work = directory / "work" / "_"
    (work / "sub").mkdir(parents=True)
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(work / "sock"))
    (work / "out").symlink_to(directory / "outside")
    (work / "loop").symlink_to("loop")
    return directory


@pytest.fixture(scope="module")
def daemon(directory: Path) -> Iterator[Daemon]:
    with daemon_on(directory, CONFIG, "--log-level", "debug") as daemon:
        (directory / "config.toml").chmod(0o600)
        yield daemon


@pytest.fixture(scope="module")
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


@pytest.fixture(scope="module")
def schemas(agent: Agent) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool["input_schema"] for tool in agent.hello("default")["tools"]}


def is_foreseen(answer: dict[str, Any]) -> bool:
    """Whether it is a result, or a failure that its tool has words for."""
    if not answer["is_error"]:
        return True
    fault = json.loads(answer["content"])
    return fault["error"] == "invalid_input" or (fault["error"] == "tool_failed" and "exception" not in fault)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_input_has_an_answer_that_its_tool_has_words_for(
    tool: str, agent: Agent, schemas: dict[str, dict[str, Any]], directory: Path
) -> None:
    work = directory / "work" / "_"

    @settings(max_examples=examples(30), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs(schemas[tool]))
    def ask(value: object) -> None:
        (work / "sub").mkdir(exist_ok=True)
        for name, text in (("a.txt", "one\n"), ("b.json", '{"a": [1]}\n')):
            if not (work / name).is_dir():
                (work / name).write_text(text)
        answer = agent.ask(tool, value)
        assert is_foreseen(answer), (value, answer)
        assert KEY not in answer["content"]

    ask()
    assert [(path.name, path.read_text()) for path in (directory / "outside").iterdir()] == [("a.txt", "one\n")]
    assert not list(work.rglob(".tooldispatchd*"))


def told(agent: Agent, tool: str, **value: object) -> str:
    content: str = agent.ask(tool, value)["content"]
    return content


@pytest.mark.parametrize(
    "command",
    [
        "tr '\\0' '\\n' < /proc/$PPID/environ",
        "cat /proc/*/environ",
        "grep -r hunter2 / --include=config.toml",
        "cat ../../config.toml",
        "cat /proc/$PPID/root/etc/shadow",
        "ls /proc/$PPID/fd; cat /proc/$PPID/fd/*",
        "env",
    ],
)
def test_no_secret_is_found_by_a_command(agent: Agent, schemas: object, command: str) -> None:
    assert KEY not in told(agent, "bash", command=command, timeout_s=2)


def test_no_secret_is_in_the_log(agent: Agent, schemas: object, daemon: Daemon) -> None:
    told(agent, "search", query="x")
    assert KEY.encode() not in daemon.log.read_bytes()


# RFC 3986 spellings of an address of this machine, and what browsers and resolvers take for one.
SPELLINGS: Final = (
    *("127.0.0.1", "localhost", "localhost.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1"),
    *("0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "①②⑦.⓪.⓪.①"),
    *("127.0.0.1%00", "127。0。0。1", "LOCALHOST", "user@127.0.0.1", "example.com@127.0.0.1", "[64:ff9b::7f00:1]"),
)


def test_no_spelling_leads_fetch_to_this_machine(agent: Agent, schemas: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for host in SPELLINGS:
            for scheme in ("http", "https"):
                answer = agent.ask("fetch", {"url": f"{scheme}://{host}:{port}/"})
                assert answer["is_error"], host
                assert is_foreseen(answer), (host, answer)
        listener.setblocking(False)  # its own way to say it
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_agents_share_neither_workspace_nor_notes_nor_what_they_read(daemon: Daemon) -> None:
    with daemon.agent() as one, daemon.agent() as other:
        for agent, name in ((one, "one"), (other, "other")):
            agent.say({"__port": "hello", "agent": name})
            agent.hear()

        def ask(agent: Agent, name: str, tool: str, **value: object) -> str:
            agent.call("1", tool, value, agent=name)
            heard: str = agent.hear()["content"]
            return heard

        ask(one, "one", "write", path="mine.txt", content="words of one")
        ask(one, "one", "scratchpad", action="set", key="k", value="words of one")
        ask(one, "one", "bash", command="export WORDS='words of one'")
        assert "mine.txt" not in ask(other, "other", "list")
        assert "words of one" not in ask(other, "other", "scratchpad", action="list")
        assert "words of one" not in ask(other, "other", "bash", command="echo $WORDS; cat ../one/mine.txt")
