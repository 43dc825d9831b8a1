"""The tools that stand for thousands, `find_tools`, `describe_tool`, `call_tool`: where a profile's `catalog` says so.

    find_tools ──▶ names that fit ──▶ describe_tool ──▶ what it takes ──▶ call_tool ──▶ the call itself

They belong to no session: which tools there are, and how they are named, they ask the session of each call. What
`call_tool` calls is the session's own business (`agent.calls.unpacking`).
"""

from functools import partial
from time import perf_counter
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.sessionchannel import Lookup
from tooldispatchd.agent.faults import SHOWN_NAME, propose
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.profiles import CALL_TOOL, DESCRIBE_TOOL, FIND_TOOLS
from tooldispatchd.catalog.schemas import ACCEPT, compile_check
from tooldispatchd.catalog.searching import FoundTools, Search, search
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import HEAVY_BYTES

KIND: Final = "builtin"
# More is no answer to a question: the words should be better ones.
MAX_FOUND: Final = 50
FOUND: Final = 10
# While a search runs nobody else is served for so long.
SLICE_S: Final = 0.001
# A line of a list; `describe_tool` has the rest.
MAX_LINE: Final = 160

_HINT: Final = (
    "Only the tools that find others are listed. Find a tool for what you want to do with find_tools, "
    "read what it takes with describe_tool, and call it with call_tool."
)
_NAME: Final = {"type": "string", "description": "The name of the tool, as find_tools gives it."}
_NAMED: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"name": _NAME},
    "required": ["name"],
    "additionalProperties": False,
}
_FOUND: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, in some words, or a part of its name."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_FOUND,
            "description": f"At most so many tools, {FOUND} by default.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_CALLED: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "name": _NAME,
        "input": {"type": "object", "description": "The input of the tool, as describe_tool shows it."},
    },
    "required": ["name"],
    "additionalProperties": False,
}

_encode: Final = msgspec.json.Encoder().encode


class _Query(msgspec.Struct):
    query: str = ""
    limit: int = FOUND


class _Described(msgspec.Struct):
    name: str = ""


_decode_query: Final = msgspec.json.Decoder(_Query).decode
_decode_name: Final = msgspec.json.Decoder(_Described).decode


class FindPlan(Plan):
    """`find_tools`: the tools of the session that fit a query best, the best one first."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        description = f"Find tools by what they do, or by their names; at most {MAX_FOUND}, the best first."
        offered = Offered(name=FIND_TOOLS, description=description, input_schema=_FOUND, hint=_HINT)
        read = Reader(compile_check(_FOUND), missing={}, wrapped=False)
        super().__init__(offered, kind=KIND, limit_s=runtime.setup.limits.call_s, read=read, provider="search")
        self._runtime = runtime

    def start(self, call: Call) -> None:
        """Start the search."""
        call.work(partial(self._run, call))

    async def _run(self, call: Call) -> Outcome:
        session, query = call.context.session, _decode_query(call.line)
        # One at a time in the whole daemon, its agents by turns: thousands of tools take some ten milliseconds.
        async with self._runtime.services.listing.of(call.context.account.turns):
            plans = {plan.name: plan for plan in session.plans.values() if plan.kind != KIND}
            tools = [plan.offered for plan in plans.values()]
            found = await _in_turns(search(tools, query.query, query.limit))
        told = [
            {"name": shown, "description": first_line(plans[own].offered), **_server_of(plans[own])}
            for own, shown in zip(found.names, session.shown(found.names), strict=True)
        ]
        return Answer(_encode({"tools": told, "found": found.found, "of": len(tools)}).decode())


async def _in_turns(steps: Search) -> FoundTools:
    """What the steps come to, with turns of the loop between them."""
    began = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: FoundTools = done.value
            return found
        if perf_counter() - began > SLICE_S:
            await trio.lowlevel.checkpoint()
            began = perf_counter()


def first_line(offered: Offered) -> str:
    """What a tool is for, in one line: the beginning of its description, else its title."""
    text = " ".join((offered.description[: 4 * MAX_LINE].strip() or offered.title or "").split())
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1].rstrip() + "…"


def _server_of(plan: Plan) -> dict[str, str]:
    return {"server": plan.provider} if plan.kind == "mcp" else {}


class DescribePlan(Plan):
    """`describe_tool`: all that there is to say of one tool."""

    __slots__ = ()

    def __init__(self, limit_s: float) -> None:
        description = "Give the description of a tool, and the JSON Schema of its input."
        offered = Offered(name=DESCRIBE_TOOL, description=description, input_schema=_NAMED)
        read = Reader(compile_check(_NAMED), missing={}, wrapped=False)
        super().__init__(offered, kind=KIND, limit_s=limit_s, read=read, provider="search")

    def start(self, call: Call) -> None:
        """Answer; a checker writes what is long."""
        context, name = call.context, _decode_name(call.line).name
        found = context.session.find(name)
        if not isinstance(found, Plan):
            call.finish(_no_such_tool(name, found))
            return
        text = _encode(described(found, context.session.shown([found.name])[0]))
        if len(text) <= HEAVY_BYTES:
            call.finish(Answer(text.decode()))
        else:
            call.work(partial(context.checking.quote, [text], call.wanted.kind, turns=context.account.turns))


def described(plan: Plan, shown: str) -> dict[str, object]:
    """What `describe_tool` says of a tool; what there is none of is left out."""
    offered = plan.offered
    told: dict[str, object] = {
        "name": shown,
        "title": offered.title,
        "description": offered.description,
        **_server_of(plan),
        "hint": offered.hint,
        "doc": offered.doc,
        "input_schema": offered.input_schema,
        "output_schema": offered.output_schema,
        "annotations": offered.annotations,
    }
    return {key: value for key, value in told.items() if value is not None}


def _no_such_tool(name: str, found: Fault | Lookup) -> Fault:
    shown = name[:SHOWN_NAME]
    close = found.extras.get("did_you_mean") if isinstance(found, Fault) else None
    why = f"{shown} is no tool of this agent"
    extras: dict[str, object] = {"violations": [{"path": "/name", "message": why}], "source": shown}
    return propose(Fault(Code.INVALID_INPUT, why, extras), close if isinstance(close, str) else None)


class CallPlan(Plan):
    """`call_tool`: its session makes the call of the tool itself of each request, so that none ever comes here.

    But for one that was written otherwise, and for which this was found late.
    """

    __slots__ = ()

    def __init__(self, limit_s: float) -> None:
        description = "Call a tool by its name; the answer is that tool's own."
        offered = Offered(name=CALL_TOOL, description=description, input_schema=_CALLED)
        super().__init__(offered, kind=KIND, limit_s=limit_s, read=Reader(ACCEPT, missing={}, wrapped=False))
        self.is_plain = False

    def start(self, call: Call) -> None:
        """Refuse."""
        fault = Fault(Code.INVALID_REQUEST, f"{CALL_TOOL} is called by this name alone", {"source": call.name[:128]})
        call.finish(fault.ran(may_have=False))


def search_plans(runtime: Runtime) -> list[Plan]:
    """The three tools, for every profile with `catalog = "search"`."""
    limit_s = runtime.setup.limits.call_s
    return [FindPlan(runtime), DescribePlan(limit_s), CallPlan(limit_s)]
