"""What a stateless server is asked to tell, and the requests of older revisions that are answered in its place."""

import math

import msgspec
from msgspec import Raw

from tooldispatchd.agent.tools.passing import METHODS
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.providers.mcp.answers import PendingCall, PendingRequest
from tooldispatchd.providers.mcp.greeting import Greeting
from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.providers.mcp.subscription import MAX_RESOURCES, MAX_URI_CHARS, STANDS_S, Subscription

ALL = b'{"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{}}'


class Watching:
    """A subscription, and what became of it."""

    def __init__(self, capabilities: bytes = ALL, *, hears: bool = True, tools: bool = False) -> None:
        self.asked: list[dict[str, object]] = []
        self.open: list[PendingRequest] = []
        self.lists = 0
        self.levels: list[str] = []
        self.hears = hears
        greeting = Greeting(
            "2026-07-28",
            None,
            has_tools=True,
            instructions=None,
            tools_list_changed=tools,
            capabilities=Raw(capabilities),
        )
        self.subscription = Subscription(
            self._listen,
            self.open.remove,
            self._list_again,
            greeting=greeting,
            hears=lambda: self.hears,
            log_from=self.levels.append,
        )

    def _listen(self, wanted: dict[str, object]) -> PendingRequest:
        # What was open before is ended only after this.
        self.asked.append(wanted)
        self.open.append(PendingRequest())
        return self.open[-1]

    def _list_again(self) -> None:
        self.lists += 1

    def look(self, now: float = 0.0) -> float:
        return self.subscription.look(now)

    def take(self, method: str, **params: str) -> Outcome | None:
        call = PendingCall(METHODS[method], lambda outcome: None, msgspec.json.encode(params))
        outcome = self.subscription.take(call)
        self.look()
        return outcome


def code_of(outcome: Outcome | None) -> int:
    assert isinstance(outcome, Answer)
    assert isinstance(outcome.content, str)
    assert outcome.is_error
    return int(msgspec.json.decode(outcome.content)["code"])


def test_who_hears_nothing_has_only_the_tools_told() -> None:
    assert Watching(hears=False, tools=True).look() == math.inf
    watching = Watching(hears=False, tools=True)
    watching.look()
    assert watching.asked == [{"toolsListChanged": True}]
    silent = Watching(hears=False)
    silent.look()
    assert silent.asked == []


def test_who_begins_to_hear_has_more_told_and_the_request_before_is_ended() -> None:
    watching = Watching(hears=False, tools=True)
    watching.look()
    watching.hears = True
    watching.look()
    more = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    assert (watching.asked[1:], len(watching.open)) == ([more], 1)
    watching.look()
    assert len(watching.asked) == 2


def test_resources_are_added_and_taken_away() -> None:
    watching = Watching()
    watching.look()
    for uri in ("a:1", "a:2", "a:1"):
        assert watching.take("resources/subscribe", uri=uri) == Answer("{}")
    assert [asked.get("resourceSubscriptions") for asked in watching.asked] == [None, ["a:1"], ["a:1", "a:2"]]
    for uri in ("a:1", "a:none"):
        assert watching.take("resources/unsubscribe", uri=uri) == Answer("{}")
    assert [asked.get("resourceSubscriptions") for asked in watching.asked[3:]] == [["a:2"]]
    assert len(watching.open) == 1


def test_what_a_server_does_not_offer_is_an_error_as_it_would_be_its_own() -> None:
    watching = Watching(b'{"resources":{}}')
    assert code_of(watching.take("resources/subscribe", uri="a:1")) == -32601
    assert code_of(watching.take("logging/setLevel", level="debug")) == -32601
    assert watching.take("resources/read", uri="a:1") is None


def test_capabilities_that_cannot_be_read_offer_nothing() -> None:
    assert code_of(Watching(b'{"resources":{"subscribe":"yes"}}').take("resources/subscribe", uri="a:1")) == -32601


def test_levels_are_passed_on() -> None:
    watching = Watching()
    assert watching.take("logging/setLevel", level="debug") == Answer("{}")
    assert watching.levels == ["debug"]


def test_resources_are_bounded_in_number_and_length() -> None:
    watching = Watching()
    assert code_of(watching.take("resources/subscribe", uri="a" * (MAX_URI_CHARS + 1))) == -32602
    for number in range(MAX_RESOURCES):
        assert watching.take("resources/subscribe", uri=f"a:{number}") == Answer("{}")
    assert code_of(watching.take("resources/subscribe", uri="a:more")) == -32602


def test_a_change_after_an_end_lists_the_tools_again_once_it_stands() -> None:
    watching = Watching(tools=True)
    watching.look()
    watching.open[-1].reply = Incoming(result=Raw(b"{}"))
    watching.look(1.0)
    watching.open.clear()
    watching.subscription.take(PendingCall(METHODS["resources/subscribe"], lambda outcome: None, b'{"uri":"a:1"}'))
    assert watching.look(1.5) == 1.5 + STANDS_S
    assert (len(watching.asked), watching.lists) == (2, 0)
    watching.look(1.5 + STANDS_S)
    assert watching.lists == 1


def test_what_is_refused_with_resources_is_asked_for_without_them_and_then_no_more() -> None:
    watching = Watching(tools=True)
    watching.look()
    watching.take("resources/subscribe", uri="note:never")
    for _ in range(2):
        watching.open[-1].reply = Incoming(error=Raw(b'{"code":-32602,"message":"no such note"}'))
        due = watching.look(10.0)
    assert [wanted.get("resourceSubscriptions") for wanted in watching.asked] == [None, ["note:never"], None]
    assert watching.asked[-1]["toolsListChanged"]
    assert due == math.inf
