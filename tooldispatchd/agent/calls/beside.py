"""What an agent asked for of its answers: the kind of their content, and what stands beside it."""

from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.content import rendered
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import NOTHING_BESIDE, Beside, CallMeta, ContentKind, ShortReq
from tooldispatchd.wire.session import SessionMachine, beside_fault, value_of


def wanted_kind(body: ShortReq, machine: SessionMachine) -> ContentKind | None:
    """The kind of content that was asked for, by the request or by its session; None where neither did."""
    return machine.asked.content if body.content is None else body.content


def in_kind(outcome: Outcome, kind: ContentKind | None, max_part_bytes: int) -> Outcome:
    """The outcome with its content in that kind, or a fault that names the bound which one of its parts passes."""
    if isinstance(outcome, Fault) or kind is None:
        return outcome
    answer = rendered(outcome, kind)
    if answer.largest_part <= max_part_bytes:
        return answer
    detail = f"a part of the answer is larger than {max_part_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"limit": "part_bytes"}).ran(may_have=True)


def beside_of(
    outcome: Outcome,
    kind: ContentKind | None,
    machine: SessionMachine,
    *,
    gives_json: bool,
    meta: CallMeta | None,
    job: str | None = None,
) -> Beside:
    """What stands beside the content of an answer, `kind` being the kind that was asked for.

    `gives_json` says that the tool's answers are JSON, by its own type; `job` is that which the call has become.
    """
    if kind is None and not machine.asked.wants_more:
        return NOTHING_BESIDE
    if isinstance(outcome, Fault):
        return beside_fault(outcome, kind, meta)
    value: Raw | UnsetType = UNSET
    is_value = outcome.value is not None or outcome.kind is ContentKind.JSON
    if machine.asked.value and gives_json and is_value and not (outcome.is_error or outcome.is_shortened):
        value = value_of(outcome.content if outcome.value is None else outcome.value)
    details = outcome.details if machine.asked.details and outcome.details is not None else UNSET
    return Beside(
        meta,
        value,
        None if kind is None else outcome.kind,
        UNSET if outcome.blocks is None else outcome.blocks,
        details,
        job,
    )
