"""A server's output, in chunks of any size, to the requests that wait."""

import math
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.recording import Recording
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.memory import Memory
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.schemas import MAX_LIGHT_BYTES, compile_check
from tooldispatchd.checkers.pool import IN_PLACE, Buffer
from tooldispatchd.checkers.worker import Work
from tooldispatchd.providers.mcp.answers import MESSAGES_PER_TURN, Answers, PendingCall, PendingRequest
from tooldispatchd.providers.mcp.asking import NOBODY, ServerRequests
from tooldispatchd.providers.mcp.messages import Incoming, InputRequired
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import INTERVAL_S, Held
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=1_000_000, max_content_bytes=1_000_000)
TOOL = McpTool(
    name="plain",
    input_schema={},
    input=compile_check({}),
)

OUTPUT = (
    b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"two"}]}}\n'
    b"\n"
    b"Listening on port 8080\n"
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\r\n'
    b"\xff\xfe\n"
    b'{"jsonrpc":"2.0","id":"ping-1","method":"ping"}\n'
    b'[{"id":3,"result":{"content":[]}},7]\n'
    b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"again"}]}}\n'
    b'{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"one"}]}}\n'
)


class Asked(ServerRequests):
    """Three calls that wait for what `answers` reads; and what the server says of its own accord."""

    def __init__(self, server: Server = SERVER) -> None:
        super().__init__(server, NOBODY, Recording(), send=lambda _message: None)
        self.requests: list[tuple[object, object]] = []
        self.notifications: list[object] = []
        self.more: list[tuple[PendingCall, InputRequired | None]] = []
        self.outcomes: dict[int, Outcome] = {}
        # How many there were after each piece of input.
        self.taken: list[int] = []
        self.answers = Answers(
            server,
            SHARE,
            asked=self,
            more=lambda call, required: self.more.append((call, required)),
            checkers=IN_PLACE,
            taken=lambda: self.taken.append(len(self.outcomes)),
            log=Recording(),
        )
        for number in (1, 2, 3):
            self.answers.pending.add(PendingCall(TOOL, partial(self.end, number)))

    def end(self, number: int, outcome: Outcome) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = outcome

    def take_request(self, message: Incoming) -> None:
        self.requests.append((message.id, message.method))

    def take_notification(self, message: Incoming) -> None:
        self.notifications.append(message.method)

    async def completes(self, chunk: bytes) -> bool:
        await self.answers.take_chunk(chunk)
        has_completed, self.answers.has_completed = self.answers.has_completed, False
        return has_completed


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=20))
def test_output_means_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    asked = Asked()
    ends = [*sorted(cuts), len(OUTPUT)]
    chunks = [OUTPUT[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    async def take_all() -> None:
        for chunk in chunks:
            await asked.answers.take_chunk(chunk)

    trio.run(take_all)
    assert asked.outcomes == {
        1: Answer("one", kind=ContentKind.TEXT),
        2: Answer("two", kind=ContentKind.TEXT),
        3: Answer("", kind=ContentKind.TEXT),
    }
    assert asked.requests == [("ping-1", "ping")]
    assert asked.notifications == ["notifications/message"]
    assert (asked.answers.skipped, asked.answers.ignored) == (3, 1)


@given(st.lists(st.binary()))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    asked = Asked()

    async def take_all() -> None:
        for chunk in chunks:
            await asked.answers.take_chunk(chunk)

    trio.run(take_all)


class BusyCheckers:
    """Checkers that are never done; `given` is the text that they were to read."""

    def __init__(self) -> None:
        self.has_begun = trio.Event()
        self.given = memoryview(b"")

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        assert isinstance(payload, memoryview)
        self.given = payload
        self.has_begun.set()
        await trio.sleep_forever()
        raise AssertionError("it sleeps for ever")


async def test_a_large_line_is_let_go_of_uncopied_where_its_connection_ends_while_it_is_read() -> None:
    asked = Asked(msgspec.structs.replace(SERVER, max_line_bytes=4_000_000))
    checkers, let_go = BusyCheckers(), list[object]()
    asked.answers.checkers = checkers
    asked.answers.share = Memory(1 << 40, let_go=let_go.append).share(None)
    async with trio.open_nursery() as nursery:
        await asked.answers.take_chunk(b"x" * 2_000_000)
        nursery.start_soon(asked.answers.take_chunk, b"\n")
        await checkers.has_begun.wait()
        assert let_go == []
        nursery.cancel_scope.cancel()
    assert len(let_go) == 1
    assert let_go[0] is checkers.given.obj


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"{}\n", b"[1]\n"])
async def test_a_chunk_of_many_lines_leaves_turns_to_others_and_lets_go_what_is_completed(line: bytes) -> None:
    asked = Asked()
    chunk = b'{"id":1,"result":{}}\n' + line * 10 * MESSAGES_PER_TURN
    turns = 0
    async with trio.open_nursery() as nursery:

        async def count() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        nursery.start_soon(count)
        await asked.answers.take_chunk(chunk)
        nursery.cancel_scope.cancel()
    assert turns >= 5
    assert asked.taken[0] == 1


async def test_it_says_whether_a_call_was_completed() -> None:
    asked = Asked()
    assert not await asked.completes(b'{"id":9,"result":{}}\n')
    assert await asked.completes(b'{"id":1,"result":{}}\n')
    assert not await asked.completes(b'{"id":1,"result":{}}\n')


async def test_a_large_answer_to_a_call_that_is_given_up_meanwhile_is_ignored() -> None:
    asked = Asked()
    line = b'{"id":1,"result":{"content":[{"type":"text","text":"' + b"x" * MAX_LIGHT_BYTES + b'"}]}}\n'
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asked.answers.take_chunk, line)
        await trio.lowlevel.checkpoint()
        asked.answers.pending.drain()
    assert asked.outcomes == {}


async def test_a_line_over_the_bound_fails_the_call_whose_id_stands_in_its_head() -> None:
    asked = Asked(msgspec.structs.replace(SERVER, max_line_bytes=100))
    await asked.answers.take_chunk(b'{"jsonrpc":"2.0","id":2,"result":{"content":"' + b"x" * 100)
    outcome = asked.outcomes[2]
    assert isinstance(outcome, Fault)
    assert outcome.extras == {"server": "docs", "limit": "content_bytes"}
    await asked.answers.take_chunk(b'x"}}\n{"id":1,"result":{}}\n')
    assert asked.outcomes[1] == Answer("", kind=ContentKind.TEXT)


@pytest.mark.parametrize(
    "end",
    [
        b'"}]},"jsonrpc":"2.0","id":2}',
        b'"}]}, "id": "2" }\r',
        b'"}]},"id":2,"jsonrpc":"2.0"}',
    ],
)
@given(cuts=st.lists(st.integers(0, 1000), max_size=20))
def test_a_line_over_the_bound_fails_the_call_whose_id_stands_at_its_end(end: bytes, cuts: list[int]) -> None:
    asked = Asked(msgspec.structs.replace(SERVER, max_line_bytes=500))
    output = b'{"result":{"content":[{"type":"text","text":"' + b"x" * 800 + end + b'\n{"id":1,"result":{}}\n'
    ends = [*sorted(cuts), len(output)]
    chunks = [output[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]

    async def take_all() -> None:
        for chunk in chunks:
            await asked.answers.take_chunk(chunk)

    trio.run(take_all)
    outcome = asked.outcomes.pop(2)
    assert isinstance(outcome, Fault)
    assert outcome.extras == {"server": "docs", "limit": "content_bytes"}
    assert asked.outcomes == {1: Answer("", kind=ContentKind.TEXT)}


@pytest.mark.parametrize(
    ("start", "end"),
    [
        # Its own request, with its own number.
        (b'{"method":"sampling/createMessage","params":{"x":"', b'"},"jsonrpc":"2.0","id":2}'),
        # Within a text, and within a value.
        (b'{"result":{"x":"', b',\\"id\\":2}"}}'),
        (b'{"result":{"x":"', b'","id":2}}'),
        (b'{"result":{"x":"', b'","id":2} trailing'),
    ],
)
async def test_a_line_over_the_bound_that_bears_no_number_of_ours_fails_no_call(start: bytes, end: bytes) -> None:
    asked = Asked(msgspec.structs.replace(SERVER, max_line_bytes=500))
    await asked.answers.take_chunk(start + b"x" * 800 + end + b"\n")
    assert asked.outcomes == {}


PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1,"total":9}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"4","progress":2}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4}}\n'
    b'[{"method":"notifications/progress","params":{"progressToken":4,"progress":3,"message":"in a batch"}}]\n'
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}\n'
)


class Followed(Asked):
    """A fourth call, whose updates are wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[Update] = []
        assert self.answers.pending.add(PendingCall(TOOL, partial(self.end, 4), held=Held(self.updates.append))) == 4


@given(st.lists(st.integers(0, len(PROGRESS)), max_size=20))
def test_progress_means_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    followed = Followed()
    ends = [*sorted(cuts), len(PROGRESS)]

    async def take_all() -> None:
        for start, end in zip([0, *ends], ends, strict=False):
            assert not await followed.completes(PROGRESS[start:end])

    trio.run(take_all)
    assert followed.answers.due == -math.inf
    followed.answers.tell_updates(7.0)
    assert followed.updates == [Update(3.0, 9.0, "in a batch")]
    assert (followed.answers.due, followed.answers.skipped) == (math.inf, 1)


async def test_what_is_held_of_a_call_that_is_given_up_is_not_told() -> None:
    followed = Followed()
    await followed.answers.take_chunk(PROGRESS)
    followed.answers.pending.take(4)
    followed.answers.tell_updates(7.0)
    assert followed.updates == []


async def test_the_next_progress_is_due_when_the_interval_is_over() -> None:
    followed = Followed()
    await followed.answers.take_chunk(PROGRESS)
    followed.answers.tell_updates(7.0)
    await followed.answers.take_chunk(PROGRESS)
    assert followed.answers.due == 7.0 + INTERVAL_S


@given(st.lists(st.binary(), max_size=5))
def test_any_whole_messages_are_taken(messages: list[bytes]) -> None:
    asked = Asked()

    async def take_all() -> None:
        for message in messages:
            await asked.answers.take(message)

    trio.run(take_all)
    assert asked.outcomes == {}


async def test_whole_messages_mean_the_same_as_lines() -> None:
    asked = Asked()
    await asked.answers.take(b'{"id":2,"result":{"content":[{"type":"text","text":"two"}]}}')
    await asked.answers.take(b'[{"id":1,"result":{"content":[]}},{"id":3,"result":{"content":[]}}]')
    large = b"x" * MAX_LIGHT_BYTES
    asked.answers.pending.add(PendingCall(TOOL, partial(asked.end, 4)))
    await asked.answers.take(b'{"id":4,"result":{"content":[{"type":"text","text":"' + large + b'"}]}}')
    last = asked.outcomes.pop(4)
    assert isinstance(last, Answer)
    assert isinstance(last.content, QuotedText)
    assert (last.content.literal, last.content.size) == (b'"' + large + b'"', MAX_LIGHT_BYTES)
    assert asked.outcomes == {
        1: Answer("", kind=ContentKind.TEXT),
        2: Answer("two", kind=ContentKind.TEXT),
        3: Answer("", kind=ContentKind.TEXT),
    }


def test_a_request_that_fails_ends_its_own_call_alone() -> None:
    asked = Asked()
    fault = Fault(Code.TOOL_FAILED, "broken")
    asked.answers.fail(2, fault)
    asked.answers.fail(2, fault)
    asked.answers.fail(77, fault)
    assert asked.outcomes == {2: fault}


def test_of_a_request_that_is_unbegun_nothing_ran_unless_the_server_had_begun_in_an_earlier_round() -> None:
    asked = Asked()
    later = asked.answers.pending.get(2)
    assert isinstance(later, PendingCall)
    later.rounds = 1
    fault = Fault(Code.SERVER_UNAVAILABLE, "it needs a login")
    asked.answers.fail(1, fault, is_unbegun=True)
    asked.answers.fail(2, fault, is_unbegun=True)
    assert asked.outcomes == {1: Fault(Code.SERVER_UNAVAILABLE, "it needs a login", {"ran": "no"}), 2: fault}


async def test_a_request_of_the_connection_itself_is_told_of_its_answer_or_its_failure() -> None:
    asked = Asked()
    first, second = PendingRequest(), PendingRequest()
    numbers = asked.answers.pending.add(first), asked.answers.pending.add(second)
    assert numbers == (4, 5)
    await asked.answers.take_chunk(b'{"id":4,"result":{"tools":[]}}\n')
    fault = Fault(Code.TOOL_FAILED, "broken")
    asked.answers.fail(5, fault)
    assert isinstance(first.reply, Incoming)
    assert second.reply == fault
    assert asked.answers.has_replied


async def test_a_call_that_needs_input_leaves_and_is_told_to_who_knows_how_to_go_on() -> None:
    asked = Asked()
    required = b'{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s"}'
    await asked.answers.take_chunk(b'{"id":1,"result":' + required + b"}\n")
    ((call, wanted),) = asked.more
    assert wanted is not None
    assert (list(wanted.requests), wanted.state) == (["k"], "s")
    assert asked.outcomes == {}
    assert asked.answers.pending.get(1) is None
    assert call.tool is TOOL


async def test_headers_that_do_not_match_ask_for_a_new_list_once() -> None:
    asked = Asked()
    mismatch = b'{"id":%d,"error":{"code":-32020,"message":"Header mismatch"}}\n'
    await asked.answers.take_chunk(mismatch % 1)
    ((call, wanted),) = asked.more
    assert wanted is None
    call.rounds = 1
    number = asked.answers.pending.add(call)
    await asked.answers.take_chunk(mismatch % number)
    assert len(asked.more) == 1
    assert isinstance(asked.outcomes[1], Fault)


PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'
UNKNOWN_METHOD = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}\n'


async def test_an_error_without_an_id_says_nothing_where_several_calls_wait() -> None:
    asked = Asked()
    await asked.answers.take_chunk(PARSE_ERROR)
    assert (asked.outcomes, asked.answers.ignored) == ({}, 1)
    for number in (2, 3):
        asked.answers.pending.take(number)
    # This is what a server says of a notification that it does not know.
    await asked.answers.take_chunk(UNKNOWN_METHOD)
    assert asked.outcomes == {}
    await asked.answers.take_chunk(PARSE_ERROR)
    assert list(asked.outcomes) == [1]


@pytest.mark.parametrize("size", [3, MAX_LIGHT_BYTES])
async def test_a_byte_order_mark_before_a_message_is_no_part_of_it(size: int) -> None:
    asked = Asked()
    text = "x" * size
    line = f'{{"id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}'.encode()
    await asked.answers.take(b"\xef\xbb\xbf" + line)
    await asked.answers.take_chunk(b"\xef\xbb\xbf" + OUTPUT.splitlines(keepends=True)[0])
    assert sorted(asked.outcomes) == [1, 2]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b'done{"id":9,"result":{}}', 'done{"id":9,"result":{}}'),
        (b'DEBUG got {"id":1,"method":"tools/call"', 'DEBUG got {"id":1,"method":"tools/call"'),
        (b'{"id":1,"params":NaN,"method":"tools/call"}', '{"id":1,"params":NaN,"method":"tools/call"}'),
        (b"key is " + b"s" * 100, "key is ..."),
    ],
)
async def test_a_line_that_is_no_message_is_remembered_for_the_calls_that_wait(line: bytes, shown: str) -> None:
    asked = Asked()
    call = asked.answers.pending.get(1)
    assert isinstance(call, PendingCall)
    assert asked.answers.noise_since(call) == ""
    await asked.answers.take_chunk(line + b"\n")
    assert asked.outcomes == {}
    assert asked.answers.noise_since(call) == f'it wrote a line that is no message: "{shown}"'
    call.skipped = asked.answers.skipped
    assert asked.answers.noise_since(call) == ""
