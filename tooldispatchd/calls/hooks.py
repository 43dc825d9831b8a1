"""What a hook is told and what it may answer. Pure.

Null goes on. Every other answer is an object with one of the keys that go with its kind; anything else is a lie, and
raises `HookAnswerError`.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.content import of_json, of_parts, of_text
from tooldispatchd.calls.outcome import Answer, Outcome, UnreadableError, Update
from tooldispatchd.catalog.hookspec import MAX_HOOK_BYTES, HookKind
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

# As much of a hook's words as a model should read.
MAX_REASON: Final = 2_000


class HookAnswerError(ValueError):
    """What a hook answered, or would be told, has another shape or size than it may have."""


class HookAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook wants of a call: refuse it, another `input` or tool (`name`), another `output`, or no update."""

    refuse: str | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    name: str | UnsetType = UNSET
    output: Raw | UnsetType = UNSET
    drop: bool | UnsetType = UNSET

    @property
    def keys(self) -> frozenset[str]:
        """Which of them it has."""
        return frozenset(name for name in self.__struct_fields__ if getattr(self, name) is not UNSET)


_ALLOWED: Final[dict[HookKind, frozenset[frozenset[str]]]] = {
    HookKind.BEFORE: frozenset(map(frozenset, [{"refuse"}, {"input"}, {"name"}, {"name", "input"}])),
    HookKind.AFTER: frozenset(map(frozenset, [{"refuse"}, {"output"}])),
    HookKind.UPDATE: frozenset(map(frozenset, [{"drop"}, {"output"}])),
}


class HookedCall(msgspec.Struct, omit_defaults=True):
    """A call as a hook is told it. `agent` is null for a channel's own; the other keys go with the hook's kind."""

    hook: str
    kind: HookKind
    id: str
    name: str
    input: Raw
    profile: str
    agent: str | None
    output: Raw | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    fault: str | UnsetType = UNSET
    update: Update | UnsetType = UNSET


_decode: Final[Callable[[str], HookAnswer | None]] = msgspec.json.Decoder(HookAnswer | None).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_update: Final = msgspec.json.Decoder(Update).decode
_encode: Final = msgspec.json.Encoder().encode


def read_hook_answer(answer: Answer, kind: HookKind) -> HookAnswer | None:
    """What a hook of that kind answered; raises `HookAnswerError`."""
    if answer.is_error or answer.size > MAX_HOOK_BYTES:
        raise HookAnswerError("it is an error, or too large")
    content = answer.content
    try:
        found = _decode(_decode_text(content.literal) if isinstance(content, QuotedText) else content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HookAnswerError("it is none of the answers that a hook may give") from None
    if found is not None and (found.keys not in _ALLOWED[kind] or found.drop is False):
        raise HookAnswerError(f"it is no answer of a hook that is asked {kind}")
    return found


def told_call(call: HookedCall, *, as_argument: bool) -> bytes:
    """The record as JSON: for a program, or as the argument `call` of a function. Raises `HookAnswerError`."""
    size = len(call.input) + (len(call.output) if isinstance(call.output, Raw) else 0)
    if size > MAX_HOOK_BYTES:
        raise HookAnswerError("the call is too large for a hook")
    return _encode({"call": call}) if as_argument else _encode(call)


def told_output(outcome: Outcome, *, gives_json: bool) -> Raw:
    """An outcome as a hook sees it: the value, the text, the parts, or the object that tells of a fault.

    Raises `HookAnswerError` where it is too large.
    """
    if isinstance(outcome, Fault):
        return Raw(outcome.content().encode())
    if outcome.size > MAX_HOOK_BYTES:
        raise HookAnswerError("the answer is too large for a hook")
    if outcome.blocks is not None:
        return outcome.blocks if isinstance(outcome.blocks, Raw) else Raw(bytes(outcome.blocks.literal))
    content = outcome.content
    if _is_text(outcome, gives_json=gives_json):
        return Raw(bytes(content.literal) if isinstance(content, QuotedText) else _encode(content))
    return Raw((_decode_text(content.literal) if isinstance(content, QuotedText) else content).encode())


def with_output(outcome: Outcome, output: Raw, kind: ContentKind, *, gives_json: bool) -> Outcome:
    """The outcome with what a hook gave in the place of what `told_output` said; raises `HookAnswerError`.

    A fault stays one of its code: only its words change. What the tool said beside an answer, for the agent's runtime,
    is left out.
    """
    try:
        if isinstance(outcome, Fault):
            fields = _decode_object(output)
            if fields.pop("error", None) != outcome.code or not isinstance(fields.get("detail"), str):
                raise HookAnswerError("a fault stays a fault of its code, with a detail")
            detail = str(fields.pop("detail"))
            fields.pop("category", None)
            return Fault(outcome.code, detail, fields)
        if outcome.blocks is not None:
            return of_parts(output, kind, is_error=outcome.is_error)
        content = msgspec.json.format(output, indent=-1)
        if _is_text(outcome, gives_json=gives_json) and content.startswith(b'"'):
            answer = of_text(_decode_text(content), outcome.kind, is_error=outcome.is_error)
            return msgspec.structs.replace(answer, kind=outcome.kind)
        return msgspec.structs.replace(of_json(bytes(content).decode(), kind), is_error=outcome.is_error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UnreadableError):
        raise HookAnswerError("it is no output of this call") from None


def with_update(output: Raw) -> Update:
    """The update that a hook gave; raises `HookAnswerError`."""
    try:
        return _decode_update(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HookAnswerError("it is no update") from None


def refused(tool: str, reason: str, *, hook: str | None = None) -> Fault:
    """A rule or a hook does not let the call through."""
    said = reason[:MAX_REASON]
    extras: dict[str, object] = {"reason": said} if hook is None else {"reason": said, "hook": hook}
    return Fault(Code.CALL_REFUSED, f"{tool} is refused: {said}", extras)


def _is_text(answer: Answer, *, gives_json: bool) -> bool:
    """Whether its content is a text and no JSON; one of which there is a value beside it stands for that."""
    return answer.value is None and (answer.kind is ContentKind.TEXT or not gives_json)
