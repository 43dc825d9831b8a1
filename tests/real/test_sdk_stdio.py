"""Servers written with the official SDK of both generations, over stdio."""

import sys
from pathlib import Path

import pytest

from tests.real.installed import OWN, binding, needs_sdk1, python_of
from tests.real.visit import Visit, visit
from tooldispatchd.client.conversation import Call
from tooldispatchd.client.errors import FaultError


def say(words: str, **more: float) -> Call:
    return Call("sdk:say", {"words": words} | more)


def is_served(agent: Visit) -> None:
    """Every kind of answer, many at once, and one that is not waited for."""
    assert agent.ready.warnings == []
    assert agent.tools == {"sdk:add", "sdk:say", "sdk:fail"}
    assert agent.call("sdk:add", a=2, b=3) == '{"result":5}'
    assert agent.call("sdk:say", words="bées 🐝") == "bées 🐝"
    assert agent.error("sdk:fail", why="no hives").startswith("Error executing tool fail")
    answers = agent.client.call_many([say(f"bee {number}", after_s=0.01) for number in range(30)])
    assert [answer.content for answer in answers if not isinstance(answer, FaultError)] == [
        f"bee {number}" for number in range(30)
    ]
    assert agent.fault("sdk:say", deadline_ms=100, words="late", after_s=30).code == "timeout"
    assert agent.call("sdk:say", words="still there") == "still there"


@pytest.mark.parametrize(
    "interpreter", [pytest.param(python_of("sdk1"), marks=needs_sdk1, id="1.x"), pytest.param(sys.executable, id="2.x")]
)
def test_a_server_over_stdio_is_served(tmp_path: Path, interpreter: str) -> None:
    command = (interpreter, str(OWN / "sdk_any.py"), "stdio")
    with visit(tmp_path, binding("sdk", command) + '[agents.default]\nmcp = ["sdk"]\n') as agent:
        is_served(agent)
