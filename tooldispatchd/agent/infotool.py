"""The built-in tool `info`: the full text of a tool that has one, for who asks for it."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.agent.call import Plan
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.steps import Reader
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.spelling import PROVIDER_RULES, spell
from tooldispatchd.providers.mcp.greeting import instructions_text
from tooldispatchd.wire.faults import Code, Fault

INFO: Final = "info"
_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "The name of the tool."}},
    "required": ["name"],
    "additionalProperties": False,
}
_encode: Final = msgspec.json.Encoder().encode


class InfoPlan(Plan):
    """It answers at once: `{name: string} -> string`."""

    __slots__ = ("_docs",)

    def __init__(self, docs: Mapping[str, str], *, limit_s: float) -> None:
        read = Reader(compile_check(_SCHEMA), missing={}, wrapped=False)
        shown = ", ".join(docs)
        description = f"Give the full documentation of a tool. There is one for: {shown}"
        offered = Offered(name=INFO, description=description[:1_000], input_schema=_SCHEMA)
        super().__init__(offered, kind="builtin", limit_s=limit_s, read=read, provider=INFO)
        # A model asks by the name that it was shown.
        spelt = {spell(name, provider): doc for name, doc in docs.items() for provider in PROVIDER_RULES}
        self._docs = {**spelt, **docs}
        self.now = self._answer

    def _answer(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> str | Fault:
        if not self.read.is_light(raw):
            return Fault(Code.INVALID_INPUT, "a name is not that long")
        value = self.read(raw, dropped)
        if isinstance(value, Fault):
            return value
        name = value["name"] if isinstance(value, dict) else ""
        doc = self._docs.get(name)
        if doc is None:
            why = f"{str(name)[:SHOWN_NAME]} has no documentation that this agent may read"
            violation = {"path": "/name", "message": why}
            return Fault(Code.INVALID_INPUT, why, {"violations": [violation], "source": str(name)[:SHOWN_NAME]})
        return _encode(doc).decode()


def instructions_of(plans: Iterable[Plan], advice: Iterable[tuple[str, str]] = ()) -> str | None:
    """What the agent is told of all its tools as one text; None where there is nothing to tell.

    First the hints, a line each, in the order in which the tools are offered; then what the servers advise, each by
    its prefix.
    """
    hints = [plan.offered.hint.strip() for plan in plans if plan.offered.hint]
    parts = ["\n".join(f"- {' '.join(hint.split())}" for hint in hints), instructions_text(advice)]
    return "\n\n".join(part for part in parts if part) or None
