"""A server over HTTP that goes wrong: one answer for each call, by its deadline, and no harm to any other."""

from collections.abc import Iterator

import pytest

from tests.daemon.spawned import PATIENCE_S
from tests.real.installed import url_binding
from tests.real.listening import Ports, misbehaving
from tests.real.visit import Visit, visit
from tooldispatchd.client.blocking import connect
from tooldispatchd.client.conversation import Call
from tooldispatchd.client.errors import FaultError

LIMITS = "[limits]\nmax_content_bytes = 8388608\n"
# What hangs is given up at the agent's own deadline, which leaves the connection alone.
SHORT_MS = 400.0
# What 100 MB or a bomb may take to be recognised, on a busy machine.
LONG_MS = 10_000.0


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    """One server for all tests; its sessions are the agents'."""
    with misbehaving() as found:
        yield found


@pytest.fixture(scope="module")
def agent(ports: Ports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """One agent with two connections: one whose calls go wrong, and one to see that no other is harmed."""
    config = (
        LIMITS
        + url_binding("odd", ports.url())
        + url_binding("fine", ports.url())
        + '[agents.default]\nmcp = ["odd", "fine"]\n'
    )
    with visit(tmp_path_factory.mktemp("daemon"), config) as found:
        assert found.ready.warnings == []
        yield found


def fails(agent: Visit, tool: str, deadline_ms: float) -> FaultError:
    """The fault of a call that goes wrong, beside others that do not, on its connection and on another one."""
    client = agent.client
    wrong = client.start(Call(f"odd:{tool}", {}, deadline_ms=deadline_ms))
    beside = [client.start(Call(f"{server}:echo", {"text": f"beside {server}"})) for server in ("odd", "fine")]
    assert [client.result(each).content for each in beside] == ["beside odd", "beside fine"]
    with pytest.raises(FaultError) as fault:
        client.result(wrong)
    assert agent.call("odd:echo", text="still there") == "still there"
    client.ping()
    return fault.value


@pytest.mark.parametrize(
    "tool", ["no_headers", "slow_headers", "stall_in_body", "stall_in_events"], ids=lambda tool: tool
)
def test_a_call_that_hangs_is_answered_at_its_deadline(agent: Visit, tool: str) -> None:
    fault = fails(agent, tool, SHORT_MS)
    assert (fault.code, fault.fields["stage"]) == ("timeout", "run")


@pytest.mark.parametrize(
    ("tool", "status"),
    [
        ("unauthorized", 401),
        ("forbidden", 403),
        ("internal", 500),
        ("bad_gateway", 502),
        ("not_found", 410),
    ],
)
def test_a_call_that_is_refused_says_with_which_status(agent: Visit, tool: str, status: int) -> None:
    fault = fails(agent, tool, LONG_MS)
    assert (fault.code, fault.fields["http_status"], fault.fields["server"]) == ("tool_failed", status, "odd")


@pytest.mark.parametrize(("tool", "status", "after_ms"), [("overloaded", 503, 2000), ("too_many", 429, 1000)])
def test_a_server_that_asks_for_patience_is_not_available_for_so_long(
    agent: Visit, tool: str, status: int, after_ms: int
) -> None:
    fault = fails(agent, tool, LONG_MS)
    assert (fault.code, fault.fields["http_status"]) == ("server_unavailable", status)
    assert fault.retry_after_ms == after_ms


@pytest.mark.parametrize(
    "tool",
    [
        "cut_in_body",
        "cut_in_event",
        "redirect_in_circles",
        "wrong_type",
        "no_json",
        "wrong_id",
        "null_result",
    ],
)
def test_an_answer_that_is_none_fails_its_call_alone(agent: Visit, tool: str) -> None:
    fault = fails(agent, tool, LONG_MS)
    assert (fault.code, fault.fields["server"]) == ("tool_failed", "odd")


@pytest.mark.parametrize("tool", ["large_with_length", "large_in_chunks", "large_event", "bomb"])
def test_an_answer_over_the_bound_is_refused(agent: Visit, tool: str) -> None:
    fault = fails(agent, tool, LONG_MS)
    assert (fault.code, fault.fields["limit"]) == ("tool_failed", "content_bytes")


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        ("wrong_session", "answered"),
        ("batch", "one of a batch"),
        ("redirect_here", "answered where it was sent"),
        ("cut_and_resumed", "resumed"),
    ],
)
def test_an_answer_on_an_odd_way_is_given(agent: Visit, tool: str, content: str) -> None:
    assert agent.call(f"odd:{tool}") == content
    assert agent.call("odd:echo", text="still there") == "still there"


def test_a_redirect_to_another_origin_is_not_followed(agent: Visit) -> None:
    fault = fails(agent, "redirect_elsewhere", LONG_MS)
    assert fault.code == "tool_failed"
    assert agent.call("fine:seen_elsewhere") == "0"


def test_a_session_that_the_server_ended_is_dead_and_says_so(
    ports: Ports, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = (
        url_binding("ends", ports.url("/ends"))
        + url_binding("fine", ports.url())
        + '[agents.default]\nmcp = ["ends", "fine"]\n'
    )
    with visit(tmp_path_factory.mktemp("daemon"), config) as agent:
        faults = [agent.client.call_many([Call("ends:echo", {"text": "bees"})])[0] for _ in range(4)]
        codes = [fault.code for fault in faults if isinstance(fault, FaultError)]
        assert codes[-1] == "connection_dead"
        assert "HTTP 404" in str(agent.fault("ends:echo").fields["reason"])
        assert agent.call("fine:echo", text="unharmed") == "unharmed"


@pytest.mark.parametrize(
    "path",
    [
        "/mcp",
        "/discover-404",
        "/discover-400",
        "/discover-405",
        "/discover-method",
        "/discover-params",
        "/discover-older",
    ],
)
def test_a_server_that_refuses_the_newer_question_is_asked_the_older_one(
    ports: Ports, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = url_binding("older", ports.url(path)) + '[agents.default]\nmcp = ["older"]\n'
    with visit(tmp_path_factory.mktemp("daemon"), config) as agent:
        assert agent.ready.warnings == []
        assert agent.call("older:echo", text="bees") == "bees"


@pytest.mark.parametrize("path", ["/all-401", "/all-403", "/all-500", "/discover-newer", "/silent"])
def test_a_server_that_cannot_be_opened_is_left_out_and_said_to_be(
    ports: Ports, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = (
        url_binding("wrong", ports.url(path), "handshake_s = 1.5")
        + url_binding("fine", ports.url())
        + '[agents.default]\nmcp = ["wrong", "fine"]\n'
    )
    with visit(tmp_path_factory.mktemp("daemon"), config) as agent:
        (warning,) = agent.ready.warnings
        assert "wrong" in str(warning)
        assert agent.fault("wrong:echo").code == "server_unavailable"
        assert agent.call("fine:echo", text="unharmed") == "unharmed"


def test_a_hanging_call_of_one_agent_harms_no_other(agent: Visit) -> None:
    with connect(str(agent.daemon.path), timeout_s=PATIENCE_S) as other:
        other.hello()
        hanging = agent.client.start(Call("odd:no_headers", {}, deadline_ms=SHORT_MS))
        answers = other.call_many([Call("odd:echo", {"text": str(number)}) for number in range(50)])
        assert [answer.content for answer in answers if not isinstance(answer, FaultError)] == list(map(str, range(50)))
        with pytest.raises(FaultError, match="timeout"):
            agent.client.result(hanging)
        other.bye()
