"""A server's output, in chunks of any size, to the requests that wait."""

import math
from functools import partial

import msgspec
import trio
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.answers import LARGE_BYTES, Answers, Call
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import INTERVAL_S, Held
from tooldispatchd.wire.faults import Fault

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=1_000_000, max_content_bytes=1_000_000)
TOOL = McpTool(
    name="plain",
    title=None,
    description="",
    input_schema={},
    output_schema=None,
    annotations=None,
    input=compile_check({}),
    output=None,
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


class Asked:
    """Three calls that wait for what `answers` reads."""

    def __init__(self, server: Server = SERVER) -> None:
        self.sent: list[bytes] = []
        self.outcomes: dict[int, Outcome] = {}
        self.answers = Answers(server, send=self.sent.append)
        for number in (1, 2, 3):
            self.answers.pending.add(Call(TOOL, partial(self.tell, number)))

    def tell(self, number: int, outcome: Outcome) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = outcome


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=20))
def test_output_means_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    asked = Asked()
    ends = [*sorted(cuts), len(OUTPUT)]
    chunks = [OUTPUT[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    async def take_all() -> None:
        for chunk in chunks:
            await asked.answers.take(chunk)

    trio.run(take_all)
    assert asked.outcomes == {1: Answer("one"), 2: Answer("two"), 3: Answer("")}
    assert asked.sent == [b'{"jsonrpc":"2.0","id":"ping-1","result":{}}\n']
    assert (asked.answers.skipped, asked.answers.ignored) == (3, 1)


@given(st.lists(st.binary()))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    asked = Asked()

    async def take_all() -> None:
        for chunk in chunks:
            await asked.answers.take(chunk)

    trio.run(take_all)


async def test_it_says_whether_a_call_was_completed() -> None:
    asked = Asked()
    assert not await asked.answers.take(b'{"id":9,"result":{}}\n')
    assert await asked.answers.take(b'{"id":1,"result":{}}\n')
    assert not await asked.answers.take(b'{"id":1,"result":{}}\n')


async def test_a_large_answer_to_a_call_that_is_given_up_meanwhile_is_ignored() -> None:
    asked = Asked()
    line = b'{"id":1,"result":{"content":[{"type":"text","text":"' + b"x" * LARGE_BYTES + b'"}]}}\n'
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asked.answers.take, line)
        await trio.lowlevel.checkpoint()
        asked.answers.pending.drain()
    assert asked.outcomes == {}


async def test_a_line_over_the_bound_fails_the_call_whose_id_stands_in_its_head() -> None:
    asked = Asked(msgspec.structs.replace(SERVER, max_line_bytes=100))
    await asked.answers.take(b'{"jsonrpc":"2.0","id":2,"result":{"content":"' + b"x" * 100)
    outcome = asked.outcomes[2]
    assert isinstance(outcome, Fault)
    assert outcome.extras == {"server": "docs", "limit": "content_bytes"}
    await asked.answers.take(b'x"}}\n{"id":1,"result":{}}\n')
    assert asked.outcomes[1] == Answer("")


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
        held = Held(self.updates.append)
        assert self.answers.pending.add(Call(TOOL, partial(self.tell, 4), held)) == 4


@given(st.lists(st.integers(0, len(PROGRESS)), max_size=20))
def test_progress_means_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    followed = Followed()
    ends = [*sorted(cuts), len(PROGRESS)]

    async def take_all() -> None:
        for start, end in zip([0, *ends], ends, strict=False):
            assert not await followed.answers.take(PROGRESS[start:end])

    trio.run(take_all)
    assert followed.answers.due == -math.inf
    followed.answers.tell_updates(7.0)
    assert followed.updates == [Update(3.0, 9.0, "in a batch")]
    assert (followed.answers.due, followed.answers.skipped) == (math.inf, 1)


async def test_what_is_held_of_a_call_that_is_given_up_is_not_told() -> None:
    followed = Followed()
    await followed.answers.take(PROGRESS)
    followed.answers.pending.take(4)
    followed.answers.tell_updates(7.0)
    assert followed.updates == []


async def test_the_next_progress_is_due_when_the_interval_is_over() -> None:
    followed = Followed()
    await followed.answers.take(PROGRESS)
    followed.answers.tell_updates(7.0)
    await followed.answers.take(PROGRESS)
    assert followed.answers.due == 7.0 + INTERVAL_S
