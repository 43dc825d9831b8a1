"""Any conversation is held by the hosts exactly as by the reference model (`tests.wire.answerer`).

Only with tools that answer at once: the order in which others end is the world's and no model's.
"""

import re
from typing import Final

import msgspec
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from protocol.conformance.run import FIXTURES
from tests.agent.fakes import ANOTHER_USER, Agent, open_runtime
from tests.examples import examples
from tests.wire.answerer import Answerer
from tests.wire.taking import taken
from tests.wire.toolbox import FORMS, escape, spell, spellings
from tooldispatchd.catalog.spelling import Provider
from tooldispatchd.catalog.spelling import escape as escape_as_the_daemon
from tooldispatchd.catalog.spelling import spell as spell_as_the_daemon
from tooldispatchd.config.configuration import load_catalog

# What is worded, shown or guessed as each likes.
FREE: Final = frozenset(
    {"detail", "violations", "description", "did_you_mean", "latency_ms", "queued_ms", "bytes_out", "warnings"}
    | {"input_schema", "parameters", "strict", "inputSchema", "outputSchema", "prompt"}
)
CONFIGS: Final = ("basic", "tokens", "limits")
LONG: Final = "a-name-that-says-all-there-is-to-say-of-what-this-tool-does-with-its-input"

agents = st.sampled_from([None, None, "a", "b"])
profiles = st.sampled_from([None, "default", "small", "keyed", "nobody"])
names = st.sampled_from(["echo", "same", "double", "hidden", "secret", "zzzz"])
job_names = st.sampled_from(["job_list", "job_read", "job_stop", "job_wait"])
forms = st.sampled_from([*FORMS, "cobol", None])
inputs = st.sampled_from(["x", 5, {"text": "x"}, {"job": "job-1"}, {"job": "job-2"}, None, {}])
specs = st.sampled_from([{"tools": ["echo"]}, {"tools": ["double"]}, {"jobs": False}, {"jobs": True}])


def said(port: str, **fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """A line of that port with these fields, each of which may be left out or null."""
    return st.fixed_dictionaries({"__port": st.just(port)}, optional={"agent": agents, **fields})


ids = st.sampled_from(["1", "2", ""])
requests = st.fixed_dictionaries(
    {"id": ids, "name": names | job_names}, optional={"input": inputs, "agent": agents, "background": st.booleans()}
)
switched_tags = st.dictionaries(st.sampled_from(["numbers", "text", "none"]), st.booleans(), max_size=2)
switched_tools = st.dictionaries(st.sampled_from(["*", "echo", "double", "job_list"]), st.booleans(), max_size=2)
lines = (
    said(
        "hello",
        profile=profiles,
        token=st.sampled_from(["open sesame", "wrong", None]),
        spec=specs,
        meta=st.booleans(),
        schemas=forms,
        select=st.none() | st.fixed_dictionaries({"tags": switched_tags, "tools": switched_tools}),
        answers=st.just(["approve"]),
    )
    | requests
    | requests.map(lambda request: {"__port": "tool_req", **request})
    | requests.map(lambda request: {"__port": "tool_req", "msg": request})
    | said("tools", schemas=forms, tags=switched_tags, tools=switched_tools)
    | said("select", schemas=forms, tags=switched_tags, tools=switched_tools)
    | said("bye")
    | said("ping", t=inputs)
    | said("tool_cancel", id=st.just("1"))
    | said("approve_resp", id=st.just("q1"), allow=st.booleans())
    | said("ask_resp", id=st.just("q1"), result=inputs)
    | said("dance", id=st.just("1"))
)


# Of tools with names that forms spell in their own way, each by all its spellings.
spelt_names = st.sampled_from(
    ["echo", "kept", "zzzz", "info", *(s for n in ("text.twice", LONG) for s in sorted(spellings(n)))]
)
spelt_lines = (
    said("hello", profile=st.sampled_from([None, "default"]), meta=st.booleans(), schemas=forms)
    | st.fixed_dictionaries(
        {"id": ids, "name": spelt_names},
        optional={
            "input": st.sampled_from(["x", {"name": "text.twice"}, {"name": "text__-2etwice"}, {"name": "text_twice"}]),
            "agent": agents,
        },
    )
    | said("tools", schemas=forms)
    | said("bye")
)


def plain(line: object) -> object:
    """A line without what is free in it; the JSON in `content` is looked into."""
    if isinstance(line, list):
        return [plain(item) for item in line]
    if not isinstance(line, dict):
        return line
    known = {key: value for key, value in line.items() if key not in FREE}
    content = known.get("content")
    if isinstance(content, str) and content.startswith("{"):
        known["content"] = msgspec.json.decode(content)
    return {key: plain(value) for key, value in known.items()}


def hold_with_model(chunk: bytes, config: str) -> list[object]:
    model = Answerer(FIXTURES / f"{config}.toml")
    model.receive(chunk)
    if not model.is_closed:
        model.end()
    assert model.is_closed
    return [msgspec.json.decode(line) for line in taken(model.channel).splitlines()]


async def hold_in_memory(chunk: bytes, config: str) -> list[object]:
    async with open_runtime(load_catalog(FIXTURES / f"{config}.toml", {})) as runtime:
        # The daemon's own user may be told more than others.
        agent = Agent(runtime, visitor=ANOTHER_USER)
        await agent.send(chunk)
        await agent.end_input()
        heard = await agent.hear_all()
    assert agent.closings == 1
    return heard


@given(conversation=st.lists(lines, max_size=14), config=st.sampled_from(CONFIGS))
@settings(max_examples=examples(150), deadline=None)
def test_any_conversation_is_held_as_the_model_holds_it(conversation: list[dict[str, object]], config: str) -> None:
    chunk = msgspec.json.Encoder().encode_lines(conversation)
    heard = trio.run(hold_in_memory, chunk, config, clock=MockClock(autojump_threshold=0))
    assert plain(heard) == plain(hold_with_model(chunk, config))


@given(conversation=st.lists(spelt_lines, max_size=14))
@settings(max_examples=examples(150), deadline=None)
def test_any_conversation_in_any_form_is_held_as_the_model_holds_it(conversation: list[dict[str, object]]) -> None:
    chunk = msgspec.json.Encoder().encode_lines(conversation)
    heard = trio.run(hold_in_memory, chunk, "forms", clock=MockClock(autojump_threshold=0))
    assert plain(heard) == plain(hold_with_model(chunk, "forms"))


@given(
    name=st.text("ab_-.:/9é😀", max_size=12) | st.text("ab_-.:", min_size=55, max_size=140), form=st.sampled_from(FORMS)
)
@settings(max_examples=examples(500))
def test_names_are_spelled_by_the_rule_that_the_protocol_states(name: str, form: Provider) -> None:
    """[M129]: the model has the rule from the document, the daemon from its own code."""
    assert spell(name, form) == spell_as_the_daemon(name, form)
    assert escape(name, form) == escape_as_the_daemon(name, form)


@given(name=st.text("ab_-.:/9é", min_size=1, max_size=10), form=st.sampled_from(FORMS))
@settings(max_examples=examples(500))
def test_a_spelling_that_is_no_hash_is_read_back_by_the_rule_that_the_protocol_states(name: str, form: str) -> None:
    """[M129]: what an agent in any language would do."""
    shown = escape(name, form)
    assert form in ("plain", "text") or "__-h" in shown or read_back(shown) == name


def read_back(shown: str) -> str:
    """The name, piece by piece: an escape, of which the first digit tells the length, a colon, or what it is."""
    pieces = re.findall(r"__-[0-7].|__-[cd].{3}|__-e.{5}|__-f.{7}|__|.", shown)
    return "".join(
        bytes.fromhex(piece[3:]).decode() if piece.startswith("__-") else ":" if piece == "__" else piece
        for piece in pieces
    )
