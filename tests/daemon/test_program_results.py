"""What a program's end and output mean as its tool says, what it knows of its call, and what it says beside."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on

PARTS: Final = [{"type": "text", "text": "two"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]


def sh(name: str, script: str, *keys: str) -> str:
    lines = [f"[tools.{name}]", f"command = {json.dumps(['/bin/sh', '-c', script])}", *keys]
    return "\n".join(lines) + "\n"


VARIABLES: Final = ("CALL_ID", "TOOL", "AGENT", "SESSION", "PROFILE", "DEADLINE", "WORKSPACE")
SHOW: Final = (
    "printf '[%s]' \"$(for name in " + " ".join(VARIABLES) + '; do printenv TOOLDISPATCHD_$name || echo -; done)"'
)

WHOLE: Final = 'max_output = 1_048_576\noverflow = "truncate"'
CONFIG: Final = "".join(
    [
        sh("found", "echo none; exit 1", "exit_codes = [0, 1]", 'output_mode = "text"'),
        sh("fails", "echo none; echo why >&2; exit 2", "exit_codes = [0, 1]", 'output_mode = "text"'),
        sh("told", "echo one; echo two >&2; printf three; exit 7", 'exit_codes = "result"'),
        sh("told_shut_in", "echo one; echo two >&2; exit 7", 'exit_codes = "result"', "write = []"),
        sh("told_bytes", "printf '\\377'", 'exit_codes = "result"'),
        sh("told_much", "head -c 300000 /dev/zero | tr '\\0' x", 'exit_codes = "result"', WHOLE),
        sh("killed", "echo one; kill -9 $$$$", 'exit_codes = "result"'),
        sh("wrong", "echo '\"text\"'; echo oops >&2", 'type = "json -> int"'),
        sh("parts", f"cat >/dev/null; echo '{json.dumps(PARTS)}'", 'output_mode = "blocks"'),
        sh(
            "large_parts",
            """printf '[{"type":"text","text":"'; head -c 300000 /dev/zero | tr '\\0' x
printf '"},{"type":"text","text":""}]'""",
            'output_mode = "blocks"',
            WHOLE,
        ),
        sh("no_parts", "echo 5", 'output_mode = "blocks"'),
        sh("picture", "printf abc", 'output_mode = "image/png"'),
        sh("large_picture", "head -c 300000 /dev/zero", 'output_mode = "image/png"'),
        sh("sound", "printf abc", 'output_mode = "audio/wav"'),
        sh("document", "printf abc", 'output_mode = "application/pdf"'),
        sh("page", "printf abc", 'output_mode = "text/html"'),
        sh("nothing", "true", 'output_mode = "image/png"'),
        sh("knows", SHOW, 'output_mode = "text"'),
        sh(
            "says",
            """echo '{"__port":"tool_details","id":"x","a":1}
{"__port":"tool_details","a":[2],"b":null}' >&3; exit 1""",
            'exit_codes = "result"',
        ),
        '[tools.below]\nprocess = "chain"\n[processes.chain]\nkind = "plumb"\nchain = ["lift(knows)"]\n',
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("results"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def fault(heard: Message) -> Message:
    assert heard["fault"], heard
    told: Message = json.loads(heard["content"])
    return told


def value(heard: Message) -> object:
    assert not heard["is_error"], heard
    return json.loads(heard["content"])


def test_a_code_that_is_listed_is_a_result(agent: Agent) -> None:
    assert value(agent.ask("found", None)) == "none"


def test_one_that_is_not_is_a_failure_with_both_outputs(agent: Agent) -> None:
    told = fault(agent.ask("fails", None))
    assert (told["error"], told["exit_code"]) == ("tool_failed", 2)
    assert (told["stdout_tail"], told["stderr_tail"]) == ("none\n", "why\n")


def test_every_end_can_be_a_result_that_tells_all_in_order(agent: Agent) -> None:
    assert value(agent.ask("told", None)) == "one\ntwo\nthree\nexit code 7"
    assert value(agent.ask("told_shut_in", None)) == "one\ntwo\nexit code 7"


def test_such_a_text_need_not_be_utf8_nor_short(agent: Agent) -> None:
    assert value(agent.ask("told_bytes", None)) == "\N{REPLACEMENT CHARACTER}\nexit code 0"
    assert value(agent.ask("told_much", None)) == "x" * 300_000 + "\nexit code 0"


def test_a_signal_is_no_code(agent: Agent) -> None:
    told = fault(agent.ask("killed", None))
    assert (told["signal"], told["stdout_tail"]) == (9, "one\n")


def test_an_answer_of_the_wrong_type_is_shown(agent: Agent) -> None:
    told = fault(agent.ask("wrong", None))
    assert (told["error"], told["stdout_tail"], told["stderr_tail"]) == ("invalid_output", '"text"', "oops\n")


def test_stdout_may_be_typed_parts(agent: Agent) -> None:
    assert value(agent.ask("parts", None)) == PARTS
    heard = agent.ask("parts", None, content="blocks")
    assert (heard["kind"], heard["content"], heard["blocks"]) == ("blocks", "two\n[image/png, 3 B]", PARTS)
    assert agent.ask("parts", None, content="text")["content"] == "two\n[image/png, 3 B]"


def test_what_is_no_list_of_parts_is_a_failure(agent: Agent) -> None:
    told = fault(agent.ask("no_parts", None))
    assert (told["detail"], told["stdout_tail"]) == ("'/bin/sh' wrote no list of parts", "5\n")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("picture", {"type": "image", "data": "YWJj", "mimeType": "image/png"}),
        ("sound", {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}),
        (
            "document",
            {
                "type": "resource",
                "resource": {"uri": "urn:tooldispatchd:stdout", "mimeType": "application/pdf", "blob": "YWJj"},
            },
        ),
        (
            "page",
            {
                "type": "resource",
                "resource": {"uri": "urn:tooldispatchd:stdout", "mimeType": "text/html", "text": "abc"},
            },
        ),
    ],
)
def test_stdout_may_be_one_file(agent: Agent, name: str, part: object) -> None:
    assert agent.ask(name, None, content="blocks")["blocks"] == [part]


def test_a_large_file_is_one_part_too(agent: Agent) -> None:
    heard = agent.ask("large_picture", None, content="blocks")
    assert heard["content"] == "[image/png, 293 KiB]"
    assert base64.b64decode(heard["blocks"][0]["data"]) == bytes(300_000)


@pytest.mark.parametrize("kind", ["json", "text", "blocks"])
def test_a_job_gives_its_large_parts_as_they_are(agent: Agent, kind: str) -> None:
    agent.ask("large_parts", None, content="blocks", background=True)
    heard = agent.ask("job_wait", {"job": "job-1"}, content=kind)
    job = json.loads(heard["content"])
    assert (heard["kind"], job["kind"]) == (kind, "blocks")
    assert job["content"] == "x" * 300_000 + "\n"
    assert [part["text"] for part in job["blocks"]] == ["x" * 300_000, ""]
    assert heard.get("blocks") == ([{"type": "text", "text": heard["content"]}] if kind == "blocks" else None)


def test_no_file_is_a_failure(agent: Agent) -> None:
    assert fault(agent.ask("nothing", None))["detail"] == "'/bin/sh' wrote no answer: one file on stdout is expected"


def known(heard: Message) -> list[str]:
    return str(value(heard)).strip("[]").split("\n")


def test_a_program_knows_its_call(agent: Agent) -> None:
    agent.say({"__port": "hello", "agent": "a b"})
    agent.hear()
    agent.call("7", "knows", None, agent="a b", deadline_ms=20_000)
    call_id, tool, name, session, profile, deadline, workspace = known(agent.hear())
    assert (call_id, tool, name, profile, workspace) == ("7", "knows", "a b", "default", "-")
    assert session.isdigit()
    assert 0 < float(deadline) - time.time() <= 20


def test_a_stage_of_a_chain_knows_itself_and_the_agent_s_call(agent: Agent) -> None:
    call_id, tool, name, *_ = known(agent.ask("below", None))
    assert (call_id, tool, name) == ("ask", "knows", "-")


def test_an_id_that_no_variable_can_hold_is_left_out(agent: Agent) -> None:
    agent.call("a\0b", "knows", None)
    assert known(agent.hear())[0] == "-"


def test_details_are_for_who_asks(agent: Agent) -> None:
    assert "details" not in agent.ask("says", None)


def test_a_program_s_details_are_merged_and_its_code_is_among_them(agent: Agent) -> None:
    agent.say({"__port": "hello", "details": True})
    agent.hear()
    heard = agent.ask("says", None)
    assert heard["details"] == {"a": [2], "b": None, "exit_code": 1}
