"""What is told of a value that breaks its schema."""

from collections.abc import Sequence
from typing import Final

import msgspec

from tooldispatchd.calls.outcome import Answer
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.wire.faults import Code, Fault

# The sentence has this many characters of violations: as a rule all, never a page. The list has the rest.
MAX_DETAIL: Final = 1_000
# An answer in a fault: enough to go on with, and twice the end of a program's output.
MAX_ANSWER_BYTES: Final = 8 * 1024


def fault_of(code: Code, check: Check, value: object) -> Fault:
    """`invalid_input` or `invalid_output`: what the check finds wrong with `value`."""
    return fault_at(code, check.violations(value))


def fault_at(code: Code, violations: Sequence[Violation]) -> Fault:
    """As `fault_of`: all violations in the list, and as many as fit in the sentence."""
    found = [f"{each.path}: {each.message}" if each.path else each.message for each in violations] or ["does not match"]
    detail = found[0]
    for told, sentence in enumerate(found[1:], 1):
        if len(detail) + len(sentence) > MAX_DETAIL:
            detail = f"{detail}; and {len(found) - told} more"
            break
        detail = f"{detail}; {sentence}"
    return Fault(code, detail, {"violations": [{"path": each.path, "message": each.message} for each in violations]})


def with_answer(fault: Fault, answer: Answer) -> Fault:
    """Add to a fault the beginning of the answer that broke its schema: the call has run."""
    # Nothing stands behind the cut: what is left of a secret is looked for at the ends of a text.
    told = str(answer.content)[:MAX_ANSWER_BYTES].encode()[:MAX_ANSWER_BYTES].decode(errors="ignore")
    return msgspec.structs.replace(fault, extras={**fault.extras, "answer": told})
