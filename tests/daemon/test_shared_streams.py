"""Agent processes with `ports = "stdio"`: requests beside the answer, and the daemon's lines after the message."""

import json
import sys
from pathlib import Path

from tests.daemon.spawned import daemon_on, until
from tests.seeds.seeded import checked

CONFIG = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.forever]
type = "json -> json"
command = ["sleep", "86399"]
[processes.asker]
kind = "agent"
type = "!json -> !json"
command = [{python}, "-c", {script}]
tools = ["echo", "forever"]
ports = "stdio"
{more}
[tools.ask]
process = "asker"
[agents.default]
tools = ["ask"]
"""
PRELUDE = """
import json, os, sys
message = json.loads(sys.stdin.readline())
def say(**fields):
    print(json.dumps(fields), flush=True)
def hear():
    return json.loads(sys.stdin.readline())
"""


def config(script: str, more: str = "") -> str:
    return CONFIG.format(python=json.dumps(sys.executable), script=json.dumps(PRELUDE + script), more=more)


def asked(directory: Path, script: str, value: object, more: str = "") -> dict[str, object]:
    """What a call of the agent that runs `script` is answered; nothing of it is left."""
    with daemon_on(directory, config(script, more)) as daemon, daemon.agent() as agent:
        agent.hello("default")
        answer = agent.ask("ask", value)
        until(lambda: daemon.running("-c") == set())
        return answer


def value_of(answer: dict[str, object]) -> object:
    assert answer["is_error"] is False, answer
    return json.loads(str(answer["content"]))


def test_requests_stand_beside_the_answer(tmp_path: Path) -> None:
    script = """
say(__port="tool_req", id="1", name="echo", input=message)
print('{"heard":')
heard = hear()
say(__port="tool_req", id="2", name="none", input=1)
other = hear()
print(json.dumps([heard, other["fault"], os.environ["TOOLDISPATCHD_CHANNEL"]]), end="}")
"""
    heard = {"__port": "tool_resp", "id": "1", "content": '{"a":[1]}', "is_error": False}
    assert value_of(asked(tmp_path, script, {"a": [1]})) == {"heard": [heard, True, "stdio"]}


def test_many_large_requests_and_answers_pass_in_full(tmp_path: Path) -> None:
    script = """
import threading
text = "x" * 60_000
def ask():
    for number in range(60):
        say(__port="tool_req", id=str(number), name="echo", input=text)
thread = threading.Thread(target=ask)
thread.start()
print(json.dumps(sum(len(hear()["content"]) for _ in range(60))), end="")
"""
    assert value_of(asked(tmp_path, script, None)) == 60 * 60_002


def test_an_agent_that_reads_no_answers_can_still_give_its_own(tmp_path: Path) -> None:
    script = """
os.close(0)
for number in range(5):
    say(__port="tool_req", id=str(number), name="echo", input="x" * 60_000)
print(5)
"""
    assert value_of(asked(tmp_path, script, None)) == 5


def test_a_call_in_flight_ends_with_the_agent(tmp_path: Path) -> None:
    script = """
say(__port="tool_req", id="1", name="forever", input=1)
say(__port="tool_req", id="2", name="echo", input=2)
print(hear()["content"])
"""
    with daemon_on(tmp_path, config(script)) as daemon, daemon.agent() as agent:
        agent.hello("default")
        assert value_of(agent.ask("ask", None)) == 2
        until(lambda: daemon.running("86399") == set())


def test_a_line_for_a_port_that_is_no_agents_is_a_part_of_the_answer(tmp_path: Path) -> None:
    assert value_of(asked(tmp_path, 'say(__port="result", score=1)', None)) == {"__port": "result", "score": 1}


def test_it_is_so_in_a_sandbox_too(tmp_path: Path) -> None:
    script = 'say(__port="tool_req", id="1", name="echo", input=7); print(hear()["content"])'
    assert value_of(asked(tmp_path, script, None, "cpu_s = 60")) == 7


def test_it_goes_with_no_text_as_input(tmp_path: Path) -> None:
    text = config("", 'input_mode = "text"').replace("!json -> !json", "!string -> !json")
    assert "a text has no end where stdin stays open" in checked(tmp_path, text)
