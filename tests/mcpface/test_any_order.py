"""Whatever a client and a daemon say, in any order: nothing is raised, and nothing is answered twice."""

import json
import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tooldispatchd.mcpface.clientside import Said
from tooldispatchd.mcpface.face import Face

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
METHODS = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/update",
    "tasks/cancel",
    "notifications/initialized",
    "notifications/cancelled",
]
SCALARS = st.none() | st.booleans() | st.integers(-3, 12) | st.text(max_size=5)
PARAMS: dict[str, st.SearchStrategy[object]] = {
    "protocolVersion": st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "x"]),
    "capabilities": st.sampled_from([{}, {"elicitation": {}, "sampling": {}, "roots": {}}]),
    "name": st.sampled_from(["look", "a__x", "a!b"]),
    "uri": st.sampled_from(["u:1", ""]),
    "arguments": SCALARS | st.just({"a": [1, {"b": 2}]}),
    "level": st.sampled_from(["debug", "x"]),
    "ref": st.just({"type": "ref/prompt", "name": "a__x"}),
    "argument": st.just({"name": "n", "value": ""}),
    "task": st.just({}),
    "taskId": SCALARS,
    "requestId": SCALARS,
    "cursor": SCALARS,
    "notifications": st.just({"toolsListChanged": True, "resourceSubscriptions": ["u:1"]}),
    "requestState": SCALARS,
    "inputResponses": st.sampled_from([{"q": {}}, {"q": 5, "who": {}}, None]),
    "_meta": st.just(META) | st.just({"progressToken": 1}),
}
MESSAGES = st.builds(
    lambda method, params: {"method": method, "params": params},
    st.sampled_from(METHODS),
    st.fixed_dictionaries({}, optional=PARAMS) | SCALARS,
)
ASKED = st.sampled_from(["roots", "question-q", "question-r", "x"])
REPLIES = st.builds(
    lambda id_, result: {"id": id_, "result": result},
    ASKED,
    SCALARS | st.just({"roots": [{"uri": "file:///a"}]}) | st.just({"action": "accept", "content": {"allow": True}}),
)
WIRE_IDS = st.integers(1, 12).map(str) | st.sampled_from(["2.1", "4.1", "4.2", "own-1", "hello-1", "hello-2"])
CONTENTS = st.sampled_from(
    [
        "text",
        '{"job":"job-1"}',
        '{"job":"job-1","state":"done","content":"x"}',
        '{"job":"job-1","state":"done","is_error":true,"fault":true,"content":"{\\"error\\":\\"cancelled\\"}"}',
        '{"jobs":[{"job":"job-1","state":"done"}]}',
        '{"resources":[{"uri":"u:1"}],"nextCursor":"c"}',
        '{"error":"unknown_tool","category":"not_found","detail":"None."}',
        '{"code":-32602,"message":"m"}',
    ]
)
LINES = st.builds(
    lambda port, fields: {"__port": port, "agent": "mcp", **fields},
    st.sampled_from(["ready", "fault", "bye", "tool_resp", "tool_update", "tools_changed", "ask", "server_note", "x"]),
    st.fixed_dictionaries(
        {},
        optional={
            "id": WIRE_IDS | st.sampled_from(["q", "r"]),
            "content": CONTENTS,
            "is_error": st.booleans(),
            "fault": st.booleans(),
            "blocks": st.sampled_from([[], [{"type": "audio"}], [5], 5]),
            "value": SCALARS,
            "progress": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
            "message": st.text(max_size=3),
            "tools": st.sampled_from([[], [{"name": "look", "outputSchema": {"type": "object"}}], [5]]),
            "capabilities": st.sampled_from([{}, {"workspace": True, "jobs": True}]),
            "servers": st.just(
                [{"server": "a", "prefix": "a", "capabilities": {"resources": {}, "prompts": {}, "completions": {}}}]
            ),
            "kind": st.sampled_from(["elicitation", "sampling", "roots", "extensions", "x"]),
            "key": st.sampled_from(["who", "q"]),
            "job": st.just("job-1"),
            "more": st.booleans(),
            "call": WIRE_IDS | st.just("job-1"),
            "method": st.sampled_from(["notifications/message", "notifications/resources/updated", "x"]),
            "params": st.sampled_from([{}, {"uri": "u:1"}, {"mode": "url"}, 5]),
            "name": st.just("look"),
            "error": st.just("not_allowed"),
            "detail": st.just("No."),
        },
    ),
)
EVENTS = st.one_of(
    st.tuples(st.just("client"), st.binary(max_size=20)),
    st.tuples(st.just("client"), MESSAGES),
    st.tuples(st.just("client"), REPLIES),
    st.tuples(st.just("batch"), st.lists(MESSAGES, max_size=3)),
    st.tuples(st.just("daemon"), st.binary(max_size=20)),
    st.tuples(st.just("daemon"), LINES),
    st.tuples(st.just("wake"), st.sampled_from([0.5, 3.0, 700.0])),
    st.tuples(st.just("abandon"), st.integers(0, 12)),
    st.tuples(st.just("lost"), st.just("gone")),
)


SERVED: dict[str, object] = {
    "__port": "ready",
    "agent": "mcp",
    "capabilities": {"jobs": True},
    "tools": [{"name": "look", "inputSchema": {}, "outputSchema": {"type": "object"}}],
    "servers": [{"server": "a", "prefix": "a", "capabilities": {"resources": {}, "prompts": {}, "completions": {}}}],
}
HELLO: dict[str, object] = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "sampling": {}}}
CALL: dict[str, object] = {"method": "tools/call", "params": {"name": "look", "_meta": {"progressToken": 1}}}
ASK: dict[str, object] = {"__port": "ask", "agent": "mcp", "id": "q", "kind": "elicitation", "params": {}}
# Each ends with a call in flight that asks something.
OPENING: list[tuple[str, object]] = [
    ("client", {"method": "initialize", "params": HELLO}),
    ("daemon", SERVED),
    ("client", {"method": "notifications/initialized"}),
    ("client", CALL),
    ("daemon", ASK),
]
STATELESS: list[tuple[str, object]] = [
    ("client", {"method": "tools/call", "params": {"name": "look", "_meta": META}}),
    ("daemon", SERVED),
    ("daemon", {**ASK, "call": "2"}),
]
# And one whose round of questions is not whole.
GATHERING: list[tuple[str, object]] = [*STATELESS[:2], ("daemon", {**ASK, "call": "2", "key": "who", "more": True})]
# And one whose call is a task that asks.
TASK: list[tuple[str, object]] = [
    *STATELESS[:2],
    ("daemon", {"__port": "tool_resp", "agent": "mcp", "id": "2", "content": '{"job":"job-1"}', "job": "job-1"}),
    ("daemon", {**ASK, "call": "job-1"}),
]


class Play:
    """Gives each request an id that no other has, and counts the answers."""

    def __init__(self) -> None:
        self.face = Face(profile=None, token=None, now=0.0)
        self.now = 0.0
        self.ids: set[int] = set()
        self.tickets: set[int] = set()
        self.said: list[Said] = []

    def client(self, message: object) -> object:
        """A message with its id, where it is a request."""
        if not isinstance(message, dict) or "method" not in message or message["method"].startswith("notifications"):
            return message
        self.ids.add(len(self.ids) + 1)
        params = message.get("params")
        if isinstance(params, dict) and params.get("taskId") is True:
            # The task that was told first, since no strategy can guess its id.
            found = re.search(rb'"taskId":"([^"]+)', b"".join(one.message for one in self.said))
            message = {**message, "params": {**params, "taskId": found[1].decode() if found else ""}}
        return {"id": len(self.ids), **message}

    def do(self, what: str, value: object) -> None:
        """One event."""
        match what, value:
            case "client" | "batch", _:
                said = [self.client(one) for one in value] if isinstance(value, list) else self.client(value)
                text = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.tickets.add(self.face.take_client(text, self.now))
            case "daemon", _:
                self.face.take_daemon(value if isinstance(value, bytes) else json.dumps(value).encode(), self.now)
            case "wake", float():
                self.now += value
                self.face.wake(self.now)
            case "abandon", int():
                self.face.abandon(value)
            case "lost", str():
                self.face.lost(value)
        self.said += self.face.to_client
        self.face.to_client.clear()
        for line in self.face.to_daemon:
            assert line.endswith(b"\n")
            assert isinstance(json.loads(line), dict)
        self.face.to_daemon.clear()

    def answered(self) -> Counter[int]:
        """How often each id was answered."""
        messages = [json.loads(one.message) for one in self.said if one.message]
        each = [part for message in messages for part in (message if isinstance(message, list) else [message])]
        return Counter(part["id"] for part in each if "method" not in part and part["id"] is not None)


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from([[], OPENING, STATELESS, GATHERING, TASK]), st.lists(EVENTS, max_size=30))
def test_nothing_is_raised_and_every_ticket_ends_once(
    opening: list[tuple[str, object]], events: list[tuple[str, object]]
) -> None:
    play = Play()
    for what, value in [*opening, *events]:
        play.do(what, value)
    play.do("lost", "the end")
    assert all(count == 1 for count in play.answered().values())
    assert set(play.answered()) <= play.ids
    ended = Counter(one.ticket for one in play.said if one.is_last)
    assert set(ended) == play.tickets
    assert all(count == 1 for count in ended.values())
    for place, one in enumerate(play.said):
        assert one.ticket is None or not any(
            other.ticket == one.ticket and other.is_last for other in play.said[:place]
        )
